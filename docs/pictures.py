"""Makes the pictures of `gemax view` for the documentation, from a real browser. `make pictures`, after `make browser`.

Trains 2-Rooms, unless a run is given: `python docs/pictures.py --run runs/two-rooms-gem-0`.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
]
WIDTH, HEIGHT = 1180, 960
GIF_WIDTH, GIF_COLOURS, FRAME_MS, LAST_FRAME_MS = 800, 255, 350, 2500
MAX_GIF_BYTES = 1_500_000


def main() -> None:
    """Writes `view.gif`, `view.png`, `view-curves.png` and `view-phone.png`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="a run with snapshots")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = options.run or trained_run(Path(folder) / "two-rooms")
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        with serving(run) as address:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
            write_gif(page, address, options.out / "_static" / "view.gif")
            page.get_by_text("Similarity", exact=True).click()
            page.locator("svg.map rect.cell").nth(3).click()
            page.screenshot(path=options.out / "view.png", full_page=True)
            page.set_viewport_size({"width": WIDTH, "height": 760})
            page.goto(f"{address}#curves")
            page.wait_for_selector(".plot .scatterlayer path", state="attached")
            page.wait_for_timeout(1000)
            page.screenshot(path=options.out / "view-curves.png")
            phone = browser.new_page(
                viewport={"width": 390, "height": 780}, color_scheme="dark", reduced_motion="reduce"
            )
            phone.goto(f"{address}#episodes")
            phone.wait_for_selector(".filmframe")
            phone.eval_on_selector(
                ".player input", "slider => { slider.value = 14; slider.dispatchEvent(new Event('input')); }"
            )
            phone.screenshot(path=options.out / "view-phone.png")
        browser.close()


def trained_run(path: Path) -> Path:
    """Trains 2-Rooms until it is solved."""
    subprocess.run(
        [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--updates", "220", "--out", path],
        check=True,
    )
    return path


@contextlib.contextmanager
def serving(run: Path) -> Iterator[str]:
    """Runs `gemax view`. Yields its address."""
    command = [sys.executable, "-m", "gemax.cli", "view", str(run), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"})
    assert server.stdout is not None
    try:
        match = re.search(r"http://\S+", server.stdout.readline())
        assert match is not None
        yield match[0]
    finally:
        server.terminate()
        server.wait()


def write_gif(page: Page, address: str, path: Path) -> None:
    """Films the map and the embedding while the time slider moves from the first snapshot to the last."""
    page.goto(f"{address}#environment")
    page.wait_for_selector("svg.embedding circle.dot")
    slider = page.locator(".timeline input")
    frames = []
    for place in range(int(slider.get_attribute("max") or 0) + 1):
        slider.evaluate(
            "(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input')); }", place
        )
        update = slider.get_attribute("aria-valuetext") or ""
        page.wait_for_selector(f".environment[data-update='{update.split()[-1].replace(',', '')}']")
        if page.locator("svg.embedding").is_visible():  # the first snapshots have visits only
            frames.append(screenshot(page))
    frames = same_size(frames)
    sample = np.concatenate([np.asarray(frames[index]) for index in (0, len(frames) // 2, -1)])
    palette = Image.fromarray(sample).quantize(GIF_COLOURS)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(images) - 1) + [LAST_FRAME_MS]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    size = path.stat().st_size
    assert size <= MAX_GIF_BYTES, f"{path} has {size:,} bytes; at most {MAX_GIF_BYTES:,} are wanted"
    print(f"{path}: {len(images)} frames, {size:,} bytes")


def same_size(frames: list[Image.Image]) -> list[Image.Image]:
    """Returns frames of the largest height. The colour of the page, that of the last pixel, fills the rest."""
    height = max(frame.height for frame in frames)
    filled = []
    for frame in frames:
        page = Image.new("RGB", (frame.width, height), frame.getpixel((0, frame.height - 1)))
        page.paste(frame)
        filled.append(page)
    return filled


def screenshot(page: Page) -> Image.Image:
    """Returns the view of the environment, scaled down."""
    image = Image.open(io.BytesIO(page.locator("main").screenshot())).convert("RGB")
    return image.resize((GIF_WIDTH, round(image.height * GIF_WIDTH / image.width)), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()

"""Films of episodes: animated GIFs, and MP4 files if ffmpeg is installed."""

import io
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from gemax.runs.evaluation import LoadedRun
from gemax.runs.files import write_bytes
from gemax.runs.policy import Policy
from gemax.stopping import check_stop
from gemax.training.collector import EpisodeOptions
from gemax.training.rendering import RenderedStep

MAX_FRAMES = 1_000
"""Longer films are cut, because all images are held in memory."""
MAX_WIDTH = 640
"""Wider images are scaled down to this number of pixels."""
MIN_WIDTH = 288
"""Room for the caption. Narrower images get a margin."""
LAST_FRAME_REPEATS = 6
"""Number of times that the last image of every episode is shown."""
CAPTION_HEIGHT = 24
NUM_COLOURS = 64
"""Colours of a GIF."""


def write_film(
    path: Path, loaded: LoadedRun, options: EpisodeOptions, fps: int, log: Callable[[str], None] = print
) -> None:
    """Films episodes of the policy of a run that has one seed.

    Raises:
        ValueError: The format is not supported, or the environment cannot be rendered.
    """
    check_film_path(path)
    if fps < 1:
        raise ValueError(f"fps must be at least 1; got {fps}.")
    trainer, (state,) = loaded.trainer, loaded.states.values()
    steps = trainer.collector.render(Policy(trainer, state, options.seed), options)
    frames = list(itertools.islice(_frames(steps), MAX_FRAMES + 1))
    if len(frames) > MAX_FRAMES:
        log(
            f"The film was cut after {MAX_FRAMES:,} images. Record fewer episodes, or lower max_episode_steps."
        )
    check_stop()
    write = _write_mp4 if path.suffix == ".mp4" else _write_gif
    write(path, frames[:MAX_FRAMES], fps)


def check_film_path(path: Path) -> None:
    """Raises ValueError for a file name that is not GIF or MP4, and for MP4 without ffmpeg."""
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"the film must be a .gif or .mp4 file; got {path}.")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("MP4 films need ffmpeg, which is not installed. Install it, or record a .gif file.")


def _frames(steps: Iterable[RenderedStep]) -> Iterator[Image.Image]:
    """Yields the images with a caption each. The last one of every episode is repeated."""
    for step in steps:
        check_stop()
        frame = add_caption(step.image, caption(step))
        yield from [frame] * (LAST_FRAME_REPEATS if step.is_last else 1)


def caption(step: RenderedStep) -> str:
    """Returns the line below an image."""
    parts = [f"episode {step.episode}", f"step {step.step}", f"return {step.episode_return:.3g}"]
    if step.coverage is not None:
        parts.append(f"{step.coverage:.0%} visited")
    return "  ".join(parts)


def add_caption(image: UInt8[np.ndarray, "height width 3"], text: str) -> Image.Image:
    """Returns the image, scaled to at most `MAX_WIDTH`, with a line of text below it. Width and height are even."""
    picture = Image.fromarray(image)
    if picture.width > MAX_WIDTH:
        height = round(picture.height * MAX_WIDTH / picture.width)
        picture = picture.resize((MAX_WIDTH, height), Image.Resampling.LANCZOS)
    # Video codecs need an even width and height.
    width, height = max(MIN_WIDTH, picture.width + picture.width % 2), picture.height + picture.height % 2
    frame = Image.new("RGB", (width, height + CAPTION_HEIGHT), "white")
    frame.paste(picture, ((width - picture.width) // 2, 0))
    font = ImageFont.load_default(13)
    ImageDraw.Draw(frame).text((6, height + 4), text, fill=(60, 62, 68), font=font)
    return frame


def _write_gif(path: Path, frames: list[Image.Image], fps: int) -> None:
    # One palette for all images, so that only the changed part of an image is stored.
    palette = _common_palette(frames)

    def quantized(frame: Image.Image) -> Image.Image:
        check_stop()
        return frame.quantize(palette=palette, dither=Image.Dither.NONE)

    first, *others = map(quantized, frames)
    buffer = io.BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=round(1000 / fps), loop=0)
    write_bytes(path, buffer.getvalue())


def _common_palette(frames: list[Image.Image]) -> Image.Image:
    """Returns an image with the palette of a sample of frames."""
    sample = frames[:: max(1, len(frames) // 16)]
    width, height = sample[0].size
    montage = Image.new("RGB", (width, height * len(sample)))
    for number, frame in enumerate(sample):
        montage.paste(frame, (0, number * height))
    return montage.quantize(NUM_COLOURS, method=Image.Quantize.MEDIANCUT)


def _write_mp4(path: Path, frames: list[Image.Image], fps: int) -> None:
    width, height = frames[0].size
    command = [
        "ffmpeg",
        "-loglevel",
        "error",
        "-y",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
    ]
    command += ["-r", str(fps), "-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        content = b"".join(frame.tobytes() for frame in frames)
        result = subprocess.run([*command, str(film)], input=content, capture_output=True, check=False)
        if result.returncode or not film.is_file():
            reason = result.stderr.decode(errors="replace").strip() or f"exit code {result.returncode}"
            raise ValueError(f"ffmpeg could not write {path}: {reason}. Record a .gif file instead.")
        write_bytes(path, film.read_bytes())

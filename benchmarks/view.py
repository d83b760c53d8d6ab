"""Measures `gemax view`: the first paint of many runs, many pages at once, and what an open page costs a training run.

`make bench-view`, after `make browser`.

Rounds with and without a page alternate within one training run, so that other load on the machine affects both.
"""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from gemax.runs.metrics_file import read_metrics
from gemax.runs.provenance import provenance
from gemax.training.config import Config

NUM_RUNS, NUM_LINES, NUM_CLIENTS = 200, 10_000, 50
ROUNDS, ROUND_SECONDS, SETTLE_SECONDS = 8, 15.0, 3.0
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        runs = Path(folder) / "runs"
        make_runs(runs)
        with serving(runs) as address:
            urllib.request.urlopen(address).read()
            result = {
                "first_paint": first_paint(browser.new_page(), address),
                "clients": many_clients(address),
            }
        result["training"] = training_with_a_page(browser, Path(folder) / "run")
        browser.close()
    result |= provenance() | {"load_average": os.getloadavg()}
    text = json.dumps(result, indent=2)
    (Path(__file__).parent / "view.json").write_text(text + "\n")
    print(text)


def make_runs(folder: Path) -> None:
    """Writes 200 runs of four methods. Runs of a method share one file of metrics, by hard links."""
    for index in range(NUM_RUNS):
        method = ("gem", "rnd", "ngu", "oracle")[index % 4]
        run = folder / f"two-rooms-{method}-{index}"
        run.mkdir(parents=True)
        config = Config().replace(method=method, seed=index, updates=NUM_LINES)
        (run / "config.json").write_text(json.dumps(config.to_json()))
        first = folder / f"two-rooms-{method}-{index % 4}" / "metrics.jsonl"
        if index >= 4:
            os.link(first, run / "metrics.jsonl")
            continue
        names = (
            "recent_return",
            "entropy_share",
            "coverage",
            "intrinsic_reward",
            "agent_loss",
            "policy_loss",
            "value_loss",
        )
        with (run / "metrics.jsonl").open("w") as file:
            for update in range(1, NUM_LINES + 1):
                line = {"update": update, "frames": 100 * update, "seconds": update / 10}
                line |= {name: 1 - (1 + place + index) / (update + 10) for place, name in enumerate(names)}
                file.write(json.dumps(line) + "\n")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Runs `gemax view` in a process of its own."""
    command = [sys.executable, "-m", "gemax.cli", "view", str(folder), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"})
    assert server.stdout is not None
    try:
        match = re.search(r"http://\S+", server.stdout.readline())
        assert match is not None
        yield match[0]
    finally:
        server.terminate()
        server.wait()


def first_paint(page: Page, address: str) -> dict[str, float]:
    """Returns seconds from the request to the first content, to the list of runs, and to the first chart."""
    page.goto(address)
    page.wait_for_selector(".plot .scatterlayer path", timeout=120_000, state="attached")
    # The second time, the server is warm.
    page.goto("about:blank")
    page.goto(address, wait_until="commit")
    page.wait_for_selector(".plot .scatterlayer path", timeout=120_000, state="attached")
    return page.evaluate(
        """() => ({
            content: performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000,
            chart: performance.now() / 1000,
        })"""
    )


def many_clients(address: str) -> dict[str, float]:
    """Returns the seconds in which 50 pages get index and curves at once."""
    names = [f"two-rooms-gem-{index}" for index in range(0, NUM_RUNS, 4)]
    query = "&".join([*(f"run={name}" for name in names), "metric=coverage"])
    times, lock = [], threading.Lock()

    def client() -> None:
        started = time.perf_counter()
        for path in ("api/index", f"api/curves?{query}"):
            urllib.request.urlopen(address + path, timeout=120).read()
        with lock:
            times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=client) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"clients": len(times), "median_seconds": statistics.median(times), "slowest_seconds": max(times)}


def training_with_a_page(browser, path: Path) -> dict[str, float | list[float]]:
    """Opens and closes a page in turn while one run trains. Returns frames per second with and without it."""
    command = [
        sys.executable,
        "-m",
        "gemax.cli",
        "train",
        "two-rooms",
        "--updates",
        "1000000",
        "--out",
        str(path),
    ]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    rounds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    try:
        while not (path / "metrics.jsonl").exists() or len(read_metrics(path / "metrics.jsonl")) < 10:
            time.sleep(1)
        with serving(path) as address:
            for number in range(2 * ROUNDS):
                has_page = number % 2 == 1
                page = browser.new_page() if has_page else None
                if page is not None:
                    page.goto(address)
                time.sleep(SETTLE_SECONDS)
                first = read_metrics(path / "metrics.jsonl")[-1]
                time.sleep(ROUND_SECONDS)
                last = read_metrics(path / "metrics.jsonl")[-1]
                frames, seconds = last["frames"] - first["frames"], last["seconds"] - first["seconds"]
                rounds[has_page].append((frames, seconds))
                if page is not None:
                    page.close()
    finally:
        run.terminate()
        run.wait()
    speeds = {has_page: [frames / seconds for frames, seconds in of] for has_page, of in rounds.items()}
    ratios = [with_page / without for with_page, without in zip(speeds[True], speeds[False], strict=True)]
    return {
        "with_page": statistics.median(speeds[True]),
        "without_page": statistics.median(speeds[False]),
        "median_ratio": statistics.median(ratios),
        "ratios": ratios,
    }


if __name__ == "__main__":
    main()

"""Measures `gemax view`: the first paint of many runs, many pages at once, and what an open page costs a training run.

`make bench-view`, after `make browser`.

Rounds with and without a page alternate within one training run, so that other load on the machine affects both.
Trainer, server and browser share all cores of the machine.
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
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from gemax.experiments.statistics import estimate_mean
from gemax.runs.metrics_file import read_metrics
from gemax.runs.provenance import provenance
from gemax.training.config import Config

NUM_RUNS, NUM_LINES, NUM_CLIENTS = 200, 10_000, 50
ROUNDS, ROUND_SECONDS, SETTLE_SECONDS = 12, 20.0, 3.0
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        runs = Path(folder) / "runs"
        make_runs(runs)
        with serving(runs) as address:
            result: dict[str, Any] = {"first_paint": first_paint(browser.new_page(), address)}
            result["clients"] = many_clients(address)
            print(json.dumps(result), flush=True)
        result["training"] = training_with_a_page(browser, Path(folder) / "run")
        browser.close()
    result |= provenance() | {
        "command": "make bench-view",
        "browser": str(path),
        "load_average": os.getloadavg(),
    }
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


def first_paint(page: Page, address: str) -> dict[str, dict[str, float]]:
    """Returns the seconds from the request to the first content and to the first chart, of a first and a second visit.

    The server of the first visit has read no file yet, and the browser has no script of the page.
    """
    return {visit: _paint_times(page, address) for visit in ("first_visit", "second_visit")}


def _paint_times(page: Page, address: str) -> dict[str, float]:
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


def training_with_a_page(browser: Browser, path: Path) -> dict[str, Any]:
    """Opens and closes a page in turn while one run trains. Returns what the page costs.

    Rounds come in pairs, with and without a page, in changing order. The page shows curves and environment in turn. A
    round starts when the page has been drawn. What it takes to open the page is measured for itself.
    """
    command = ["train", "two-rooms", "--updates", "1000000", "--out", str(path)]
    run = subprocess.Popen([sys.executable, "-m", "gemax.cli", *command], stdout=subprocess.DEVNULL)
    pairs, processor_shares, opening_seconds = [], [], []
    try:
        while not (path / "metrics.jsonl").exists() or len(read_metrics(path / "metrics.jsonl")) < 10:
            time.sleep(1)
        with serving(path) as address:
            for number in range(ROUNDS):
                view = ("curves", "environment")[number // 2 % 2]
                speeds = {}
                for has_page in (False, True) if number % 2 else (True, False):
                    closed = processor_seconds(except_for=run.pid)
                    with opened(browser, f"{address}#{view}") if has_page else contextlib.nullcontext():
                        time.sleep(SETTLE_SECONDS)
                        before = processor_seconds(except_for=run.pid)
                        speeds[has_page] = frames_per_second(path / "metrics.jsonl")
                        if has_page:
                            used = processor_seconds(except_for=run.pid) - before
                            processor_shares.append(used / ROUND_SECONDS)
                            opening_seconds.append(before - closed)
                pairs.append(
                    {
                        "view": view,
                        "with_page": speeds[True],
                        "without_page": speeds[False],
                        "cores_used": processor_shares[-1],
                    }
                )
                print(json.dumps(pairs[-1]), flush=True)
    finally:
        run.terminate()
        run.wait()
    log_ratios = np.log([pair["with_page"] / pair["without_page"] for pair in pairs])
    ratio, low, high = np.exp(estimate_mean(log_ratios)).tolist()
    return {
        "ratio": ratio,
        "ratio_interval": [low, high],
        "median_ratio": float(np.exp(np.median(log_ratios))),
        "frames_per_second_with_page": statistics.median(pair["with_page"] for pair in pairs),
        "frames_per_second_without_page": statistics.median(pair["without_page"] for pair in pairs),
        "cores_used_by_server_and_browser": statistics.median(processor_shares),
        "processor_seconds_to_open_the_page": statistics.median(opening_seconds),
        "pairs": pairs,
    }


@contextlib.contextmanager
def opened(browser: Browser, address: str) -> Iterator[None]:
    """Opens a page, waits until it is drawn, and keeps it open."""
    page = browser.new_page()
    page.goto(address, wait_until="commit")
    try:
        page.wait_for_selector(".plot .scatterlayer path, svg.map", timeout=60_000, state="attached")
        yield
    finally:
        page.close()


def frames_per_second(metrics: Path) -> float:
    """Returns the speed of a run during one round, by the clock of the run."""
    first = read_metrics(metrics)[-1]
    time.sleep(ROUND_SECONDS)
    last = read_metrics(metrics)[-1]
    return (last["frames"] - first["frames"]) / (last["seconds"] - first["seconds"])


def processor_seconds(except_for: int) -> float:
    """Returns the processor time of all processes below this one but one: the server and the browser."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = int(fields[11]) + int(fields[12])

    def is_counted(pid: int) -> bool:
        while pid in parents and pid != except_for:
            if parents[pid] == os.getpid():
                return True
            pid = parents[pid]
        return False

    return sum(ticks[pid] for pid in ticks if is_counted(pid)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

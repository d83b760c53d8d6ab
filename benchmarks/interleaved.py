"""Compares the processor time of calls that take turns, so that other load on the machine affects all of them.

Scripts import `one_thread` too: on a shared machine, wall-clock time measures the other programs.
"""

import importlib.metadata
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gemax.runs.provenance import provenance

MIN_SHARE = 2 / 3
"""A ratio may fall to this share of the recorded one before a test fails."""


class Ratio(NamedTuple):
    """How many times as long a peer takes as we do: above 1, we are faster."""

    ratio: float
    """Median over the rounds."""
    low: float
    """First quartile."""
    high: float
    """Third quartile."""


def measure_rounds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Returns the processor seconds of each call in each round. The calls take turns, and run once before."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.process_time()
            call()
            seconds[name].append(time.process_time() - started)
    return seconds


def ratio_of(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Returns the ratio of their time to ours, with its spread over the rounds."""
    ratios = [their_time / our_time for their_time, our_time in zip(theirs, ours, strict=True)]
    low, middle, high = statistics.quantiles(ratios, method="inclusive")
    return Ratio(*(float(f"{value:.3g}") for value in (middle, low, high)))


def ratio_of_few(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Returns the median ratio of their time to ours, with its range. For runs that are too few for quartiles."""
    ratios = [their_time / our_time for their_time, our_time in zip(theirs, ours, strict=True)]
    return Ratio(*(float(f"{value:.3g}") for value in (statistics.median(ratios), min(ratios), max(ratios))))


def comparison(point: int, name: str, ratio: Ratio, goal: float | None = None) -> dict[str, Any]:
    """Returns one row of the report: a ratio that belongs to a point of it, and the goal."""
    return {"point": point, "name": name, **ratio._asdict(), "goal": goal}


def fallen(script: str, comparisons: Sequence[dict[str, Any]]) -> list[str]:
    """Returns a message for each ratio that is less than two thirds of the one recorded beside the script."""
    recorded = json.loads(Path(script).with_suffix(".json").read_text())["comparisons"]
    ratios = {row["name"]: row["ratio"] for row in recorded}
    return [
        f"{row['name']}: {row['ratio']:.3g}, recorded {ratios[row['name']]:.3g}"
        for row in comparisons
        if row["ratio"] < MIN_SHARE * ratios.get(row["name"], 0.0)
    ]


def write_results(script: str, libraries: Sequence[str] = (), **results: Any) -> None:
    """Writes the results of a benchmark beside its script, with its command, the commit and versions of libraries."""
    command = shlex.join(["python", f"benchmarks/{Path(script).name}", *sys.argv[1:]])
    versions = {name: importlib.metadata.version(name) for name in libraries}
    content = {"command": command, **provenance(), "threads": 1, "peers": versions, **results}
    Path(script).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")

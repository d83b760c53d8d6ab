"""Compares the processor time of calls that take turns, so that other load on the machine affects all of them.

Each library computes in one thread: on a shared machine, wall-clock time and waiting threads measure the other programs
too. Import this module before jax and torch, which read the number of threads when they are imported.
"""

import importlib.metadata
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gemax.runs.provenance import provenance

os.environ |= {"OMP_NUM_THREADS": "1", "NPROC": "1", "PJRT_NPROC": "1"}
# Not only the size of the pool: matrix products have threads of their own.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"


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


def comparison(point: int, name: str, ratio: Ratio, goal: float | None = None) -> dict[str, Any]:
    """Returns one row of the report: a ratio that belongs to a point of it, and the goal."""
    return {"point": point, "name": name, **ratio._asdict(), "goal": goal}


def write_results(script: str, command: str, libraries: Sequence[str] = (), **results: Any) -> None:
    """Writes the results of a benchmark beside its script, with the commit and the versions of the libraries."""
    versions = {name: importlib.metadata.version(name) for name in libraries}
    content = {"command": command, **provenance(), "threads": 1, "peers": versions, **results}
    Path(script).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")

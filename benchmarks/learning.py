"""Measures the time from a cold start of `gemax train` until the environment is solved, one run per seed.

`make bench-learning` takes about an hour on two cores. Each result is stored in a file, so that the benchmark can be
stopped and continued. `python benchmarks/learning.py --table` prints the stored results.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gemax.experiments.records import solved_return
from gemax.runs.solving import reaches

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "learning"
RUNS = ROOT / "runs" / "learning"
POLL_SECONDS = 0.1

CASES = {
    "two-rooms": ["two-rooms"],
    "two-rooms-pixels": ["two-rooms", "--observation", "pixels"],
    "two-rooms-noisy": ["two-rooms-noisy"],
    "sixteen-leaves": ["sixteen-leaves"],
    "two-keys": ["two-keys"],
    "mountain-car": ["mountain-car"],
    "cartpole-swingup": ["cartpole-swingup"],
    "two-rooms-reward-free": ["two-rooms", "--reward-free"],
    "sixteen-leaves-reward-free": ["sixteen-leaves", "--reward-free"],
    "two-keys-pixels": ["two-keys", "--observation", "pixels"],
    "sixteen-leaves-pixels": ["sixteen-leaves", "--observation", "pixels"],
    "two-rooms-paper": ["two-rooms", "--preset", "paper", "--updates", "1000"],
}
"""Arguments of `gemax train`."""
FEW_SEEDS = {"two-keys-pixels": 3, "sixteen-leaves-pixels": 1, "two-rooms-paper": 1}
SEEDS = 5


def measure(name: str, seed: int) -> dict[str, Any]:
    """Trains one seed in a process, and polls its metrics file for the time of each update."""
    run = RUNS / f"{name}-{seed}"
    arguments = [*CASES[name], "--seed", str(seed)]
    RUNS.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rm", "-rf", run], check=True)
    gemax = [sys.executable, "-m", "gemax.cli"]
    started = time.monotonic()
    process = subprocess.Popen([*gemax, "train", *arguments, "--out", run], stdout=subprocess.DEVNULL)
    last: dict[str, Any] = {}
    seconds_at: dict[int, float] = {}
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        line = last_line(run / "metrics.jsonl")
        if line and line["update"] != last.get("update"):
            last = line
            seconds_at[line["update"]] = time.monotonic() - started
        if ended:
            break
        time.sleep(POLL_SECONDS)
    seconds = time.monotonic() - started
    if status:
        raise SystemExit(f"gemax train {' '.join(arguments)} failed")
    summary = json.loads((run / "summary.json").read_text())
    first_crossing = summary["first_crossing_update"]
    return {
        "command": f"gemax train {' '.join(arguments)}",
        "first_crossing_update": first_crossing,
        "first_crossing_after_seconds": (
            round(seconds_at[first_crossing], 1) if first_crossing in seconds_at else None
        ),
        "solved_at_update": summary["solved_at_update"],
        "seconds": round(seconds, 1),
        "memory_gib": round(usage.ru_maxrss / 2**20, 2),
        "load_average": round(os.getloadavg()[0], 1),
        **{key: summary[key] for key in ("updates", "frames", "return", "commit", "gemax", "jax", "cores")},
        "entropy_share": entropy_share(summary["visitation_entropy"], summary["entropy_ceiling"]),
        "frozen": evaluate(gemax, run) if "--reward-free" in arguments else None,
    }


def evaluate(gemax: list[str], run: Path) -> dict[str, Any]:
    """Evaluates the frozen policy with sampled actions, over 2,000 episodes."""
    command = [*gemax, "evaluate", str(run), "--episodes", "2000"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((run / "evaluation.json").read_text())["sampled"]


def last_line(path: Path) -> dict[str, Any] | None:
    """Returns the last complete line of a file that is being written."""
    if not path.exists():
        return None
    lines = path.read_text().split("\n")
    return json.loads(lines[-2]) if len(lines) > 1 else None


def entropy_share(entropy: float | None, ceiling: float | None) -> float | None:
    return None if entropy is None or ceiling is None else round(entropy / ceiling, 4)


def table() -> str:
    """Returns all stored results as a Markdown table, with the range over the seeds."""
    rows = [
        "| `gemax train …` | seeds that crossed | first crossing, update | after seconds, from a cold start "
        "| seeds solved until the end | return at the end "
        "| entropy, share of the ceiling | whole run, s | memory, GiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, arguments in CASES.items():
        runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{name}-[0-9].json"))]
        if not runs:
            continue
        crossed = [run for run in runs if run["first_crossing_update"] is not None]
        solved = [run for run in crossed if reaches(run["return"], solved_return(arguments[0]))]
        is_free = "--reward-free" in arguments
        shares = [run["frozen"]["entropy_share"]["mean"] if is_free else run["entropy_share"] for run in runs]
        cells = [
            f"`{' '.join(arguments)}`",
            "–" if is_free else f"{len(crossed)} of {len(runs)}",
            span([run["first_crossing_update"] for run in crossed], ",.0f"),
            span([run["first_crossing_after_seconds"] for run in crossed], ".0f"),
            "–" if is_free else f"{len(solved)} of {len(runs)}",
            "–" if is_free else span([run["return"] for run in runs], ".3f"),
            span([share for share in shares if share is not None], ".1%") + (", frozen" if is_free else ""),
            span([run["seconds"] for run in runs], ".0f"),
            span([run["memory_gib"] for run in runs], ".1f"),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def span(numbers: list[float], form: str) -> str:
    """Formats the minimum and the maximum."""
    if not numbers:
        return "–"
    low, high = format(min(numbers), form), format(max(numbers), form)
    return low if low == high else f"{low} to {high}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help="cases to run; all by default")
    parser.add_argument("--table", action="store_true", help="only print the stored results")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in [] if options.table else options.cases:
        for seed in range(FEW_SEEDS.get(name, SEEDS)):
            path = RESULTS / f"{name}-{seed}.json"
            if not path.exists():
                result = measure(name, seed)
                path.write_text(json.dumps(result, indent=2) + "\n")
                print(name, seed, result["first_crossing_update"], result["solved_at_update"], flush=True)
    print(table())


if __name__ == "__main__":
    main()

"""How long a user waits: `gemax train` from a cold start, each seed alone, until its world is solved.

`make bench-learning`; takes about an hour on two cores. What was measured is kept, a file a run, so that it can be
stopped and goes on where it was. `python benchmarks/learning.py --table` prints what there is.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "results" / "learning"
RUNS = ROOT / "runs" / "learning"
SECONDS_BETWEEN_LOOKS = 0.1

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
"""What is typed after `gemax train`."""
FEW_SEEDS = {"two-keys-pixels": 3, "sixteen-leaves-pixels": 1, "two-rooms-paper": 1}
SEEDS = 5


def measure(name: str, seed: int) -> dict[str, Any]:
    """Trains one seed and watches its metrics from outside, as a person would."""
    run = RUNS / f"{name}-{seed}"
    arguments = [*CASES[name], "--seed", str(seed)]
    RUNS.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rm", "-rf", run], check=True)
    gemax = [sys.executable, "-m", "gemax.cli"]
    started = time.monotonic()
    process = subprocess.Popen([*gemax, "train", *arguments, "--out", run], stdout=subprocess.DEVNULL)
    last_seen: dict[str, Any] = {}
    seen_at: dict[int, float] = {}
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        line = last_line(run / "metrics.jsonl")
        if line and line["update"] != last_seen.get("update"):
            last_seen = line
            seen_at[line["update"]] = time.monotonic() - started
        if ended:
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    seconds = time.monotonic() - started
    if status:
        raise SystemExit(f"gemax train {' '.join(arguments)} failed")
    summary = json.loads((run / "summary.json").read_text())
    solved = summary["solved_at_update"]
    return {
        "command": f"gemax train {' '.join(arguments)}",
        "solved_at_update": solved,
        "solved_after_seconds": round(seen_at[solved], 1) if solved in seen_at else None,
        "seconds": round(seconds, 1),
        "memory_gib": round(usage.ru_maxrss / 2**20, 2),
        "load_average": round(os.getloadavg()[0], 1),
        **{key: summary[key] for key in ("updates", "frames", "return", "commit", "gemax", "jax", "cores")},
        "entropy_share": share_of(summary["visitation_entropy"], summary["entropy_ceiling"]),
        "frozen": evaluated(gemax, run) if "--reward-free" in arguments else None,
    }


def evaluated(gemax: list[str], run: Path) -> dict[str, Any]:
    """What the frozen policy does, its actions drawn: 2,000 episodes."""
    command = [*gemax, "evaluate", str(run), "--episodes", "2000"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((run / "evaluation.json").read_text())["sampled"]


def last_line(path: Path) -> dict[str, Any] | None:
    """The newest whole line of a file that is being written."""
    if not path.exists():
        return None
    lines = path.read_text().split("\n")
    return json.loads(lines[-2]) if len(lines) > 1 else None


def share_of(entropy: float | None, ceiling: float | None) -> float | None:
    return None if entropy is None or ceiling is None else round(entropy / ceiling, 4)


def table() -> str:
    """All that was measured, as Markdown: the range over the seeds."""
    rows = [
        "| `gemax train …` | seeds solved | at update | after seconds, from a cold start | return at the end "
        "| entropy, share of the ceiling | whole run, s | memory, GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, arguments in CASES.items():
        runs = [json.loads(path.read_text()) for path in sorted(KEPT.glob(f"{name}-[0-9].json"))]
        if not runs:
            continue
        solved = [run for run in runs if run["solved_at_update"] is not None]
        is_free = "--reward-free" in arguments
        shares = [run["frozen"]["entropy_share"]["mean"] if is_free else run["entropy_share"] for run in runs]
        cells = [
            f"`{' '.join(arguments)}`",
            "–" if is_free else f"{len(solved)} of {len(runs)}",
            span([run["solved_at_update"] for run in solved], ",.0f"),
            span([run["solved_after_seconds"] for run in solved], ".0f"),
            "–" if is_free else span([run["return"] for run in runs], ".3f"),
            span([share for share in shares if share is not None], ".1%") + (", frozen" if is_free else ""),
            span([run["seconds"] for run in runs], ".0f"),
            span([run["memory_gib"] for run in runs], ".1f"),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def span(numbers: list[float], form: str) -> str:
    """From the smallest to the largest."""
    if not numbers:
        return "–"
    low, high = format(min(numbers), form), format(max(numbers), form)
    return low if low == high else f"{low} to {high}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help="some of the cases; by default all")
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in [] if options.table else options.cases:
        for seed in range(FEW_SEEDS.get(name, SEEDS)):
            kept = KEPT / f"{name}-{seed}.json"
            if not kept.exists():
                result = measure(name, seed)
                kept.write_text(json.dumps(result, indent=2) + "\n")
                print(name, seed, result["solved_at_update"], result["solved_after_seconds"], flush=True)
    print(table())


if __name__ == "__main__":
    main()

"""Trains gemax's agent in classic Gymnasium environments: MountainCar, its continuous form, and Pendulum.

`make bench-classic`. Runs that are in `results/classic-control.json` are not repeated. Delete the file to start over.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import gemax
from gemax.runs.files import write_json
from gemax.runs.metrics_file import read_metrics
from gemax.runs.provenance import provenance

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "results" / "classic-control.json", ROOT / "runs" / "bench-classic"
CASES: dict[tuple[str, str], int] = {
    ("MountainCar-v0", "gem"): 2000,
    ("MountainCar-v0", "none"): 2000,
    ("MountainCarContinuous-v0", "gem"): 800,
    ("MountainCarContinuous-v0", "none"): 800,
    ("Pendulum-v1", "none"): 2000,
}
"""Number of updates of each case, with 256 frames each. The intrinsic reward is annealed over the first half."""
SEEDS = (0, 1, 2)
EPISODES = 200


def train(env_id: str, method: str, seed: int) -> dict[str, Any]:
    """Trains one run and evaluates its policy."""
    path, updates = RUNS / f"{env_id}-{method}-{seed}", CASES[env_id, method]
    shutil.rmtree(path, ignore_errors=True)
    run = gemax.train(
        f"gym:{env_id}", method=method, seed=seed, updates=updates, anneal_updates=updates // 2, out=path
    )
    if run.stopped_by is not None:
        sys.exit(128 + run.stopped_by)
    report, lines = gemax.evaluate(path, episodes=EPISODES), read_metrics(path / "metrics.jsonl")
    return {
        "environment": env_id,
        "method": method,
        "seed": seed,
        "frames": run.summary["frames"],
        "seconds": round(run.summary["seconds"]),
        "first_crossing_update": run.summary["first_crossing_update"],
        "solved_at_update": run.summary["solved_at_update"],
        "best_return_of_1000_episodes": max(line["return"] for line in lines if line["return"] is not None),
        "return_sampled": report["sampled"]["return"]["mean"],
        "return_greedy": report["greedy"]["return"]["mean"],
    }


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    for seed in SEEDS:
        for env_id, method in CASES:
            identity = {"environment": env_id, "method": method, "seed": seed}
            if any(identity.items() <= row.items() for row in rows):
                continue
            origin = provenance()
            rows.append(train(env_id, method, seed) | {"commit": origin.pop("commit")})
            print(json.dumps(rows[-1]), flush=True)
            write_json(
                RESULTS, {"command": "make bench-classic", "episodes": EPISODES, **origin, "rows": rows}
            )


if __name__ == "__main__":
    main()

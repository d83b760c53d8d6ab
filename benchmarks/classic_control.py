"""Our agent in classics of Gymnasium: a goal far off, that with continuous actions, a pendulum.

`make bench-classic`. What `results/classic-control.json` holds already is not repeated; delete it to start anew.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import gemax
from gemax.runs.directory import read_metrics
from gemax.runs.files import write_json
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
"""How many updates each is trained for, of 256 frames. Exploring is paid for over the first half of them."""
SEEDS = (0, 1, 2)
EPISODES = 200


def train(environment: str, method: str, seed: int) -> dict[str, Any]:
    """Trains, and plays."""
    path, updates = RUNS / f"{environment}-{method}-{seed}", CASES[environment, method]
    shutil.rmtree(path, ignore_errors=True)
    run = gemax.train(
        f"gym:{environment}",
        method=method,
        seed=seed,
        updates=updates,
        anneal_updates=updates // 2,
        out=path,
    )
    if run.stopped_by is not None:
        sys.exit(128 + run.stopped_by)
    played, lines = gemax.evaluate(path, episodes=EPISODES), read_metrics(path / "metrics.jsonl")
    return {
        "environment": environment,
        "method": method,
        "seed": seed,
        "frames": run.summary["frames"],
        "seconds": round(run.summary["seconds"]),
        "solved_at_update": run.summary["solved_at_update"],
        "best_return_of_1000_episodes": max(line["return"] for line in lines if line["return"] is not None),
        "return_drawn": played["sampled"]["return"]["mean"],
        "return_greedy": played["greedy"]["return"]["mean"],
    }


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    for seed in SEEDS:
        for environment, method in CASES:
            identity = {"environment": environment, "method": method, "seed": seed}
            if any(identity.items() <= row.items() for row in rows):
                continue
            facts = provenance()
            rows.append(train(environment, method, seed) | {"commit": facts.pop("commit")})
            print(json.dumps(rows[-1]), flush=True)
            write_json(
                RESULTS, {"command": "make bench-classic", "episodes": EPISODES, **facts, "rows": rows}
            )


if __name__ == "__main__":
    main()

"""Measures the processor seconds until 2-Rooms is solved, for the agents of `peers.py`.

`make bench-solve`. Each trains until the mean return of the last 1,000 episodes is 0.95, or until its budget is used
up. It counts as solved if the return is still there after as many frames again, up to 200,000. The seconds include the
compilation of the update.
"""

import argparse
import time
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (before jax)
import interleaved
import torch

from peers import CANDIDATES, OURS, Candidate

SOLVED, HELD_FRAMES = 0.95 - 1e-6, 200_000
PEERS = ("PPO + rllte RND", "PPO + rllte RE3", "RecurrentPPO + our GEM")


def seconds_to_solve(candidate: Candidate, budget: float) -> dict[str, Any]:
    """Trains until the task is solved. Returns the frames and processor seconds, and whether the return was held."""
    started, frames, mean_return = time.process_time(), 0, 0.0
    while time.process_time() - started < budget and mean_return < SOLVED:
        mean_return = candidate.train()
        frames += candidate.frames
    seconds, solved_frames = time.process_time() - started, frames
    end = frames + min(frames, HELD_FRAMES) if mean_return >= SOLVED else frames
    while frames < end:
        mean_return = candidate.train()
        frames += candidate.frames
    return {
        "solved": mean_return >= SOLVED,
        "frames": solved_frames,
        "seconds": round(seconds, 1),
        "return": round(mean_return, 3),
    }


def compare(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of the report. A run that is not solved counts with its budget, so its ratio is a bound."""
    seconds = {name: [run["seconds"] for run in runs if run["name"] == name] for name in (OURS, *PEERS)}
    rows = []
    for peer in PEERS:
        if not seconds[peer]:
            continue
        solved = [run["solved"] for run in runs if run["name"] == peer]
        ratio = interleaved.ratio_of_few(seconds[peer], seconds[OURS])
        title = f"{OURS} / {peer}, seconds to solve ({sum(solved)} of {len(solved)} solved"
        title += ")" if all(solved) else "; at least)"
        rows.append(interleaved.comparison(1, title, ratio))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=300.0, help="processor seconds of a run")
    parser.add_argument("--names", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for seed in options.seeds:
        for name in (OURS, *options.names):
            result = seconds_to_solve(CANDIDATES[name](seed), options.budget)
            runs.append({"name": name, "seed": seed, **result})
            print(runs[-1], flush=True)
        # After every seed, because peers take long.
        interleaved.write_results(
            __file__,
            ("torch", "stable-baselines3", "sb3-contrib", "rllte-core"),
            comparisons=compare(runs),
            budget_seconds=options.budget,
            runs=runs,
        )


if __name__ == "__main__":
    main()

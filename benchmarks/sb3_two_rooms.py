"""Trains PPO of Stable-Baselines3 in 2-Rooms, alone and with the callback, with three seeds each.

`make bench-sb3`. Runs that are in `results/sb3-two-rooms.json` are not repeated. Delete the file to start over.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sb3_ppo import SETTINGS, make_agent

from gemax.integrations.stable_baselines3 import IntrinsicRewardCallback
from gemax.runs.provenance import provenance
from gemax.runs.solving import reaches

RESULTS = Path(__file__).parents[1] / "results" / "sb3-two-rooms.json"
FRAMES = 600_000
NUM_ENVS = 64
SEEDS = (0, 1, 2)
SOLVED = 0.95
"""2-Rooms is solved if the mean return of the last 1,000 episodes is at least this, as in `gemax train`."""


class SolvedCallback(BaseCallback):
    """Records when the goal is first reached and when the environment is solved. Stops training then."""

    def __init__(self):
        super().__init__()
        self.first_goal: int | None = None
        self.solved: int | None = None

    def _on_step(self) -> bool:
        if self.first_goal is None and np.max(self.locals["rewards"]) > 0:
            self.first_goal = self.num_timesteps
        return self.solved is None

    def _on_rollout_end(self) -> None:
        episodes = self.model.ep_info_buffer or []
        if len(episodes) == 1000 and reaches(mean_return(episodes), SOLVED):
            self.solved = self.num_timesteps


def mean_return(episodes: Any) -> float:
    return float(np.mean([episode["r"] for episode in episodes]))


def run(method: str, seed: int, frames: int = FRAMES, **env: Any) -> dict[str, Any]:
    """Trains until the environment is solved or the number of frames is reached."""
    torch.set_num_threads(1)
    settings = {"id": "gemax/TwoRooms-v0", **env}
    envs = gymnasium.make_vec(
        settings.pop("id"), NUM_ENVS, autoreset_mode="SameStep", observation="cells", **settings
    )
    model, callback = make_agent(envs, seed), SolvedCallback()
    callbacks: list[BaseCallback] = [callback]
    if method != "none":
        callbacks.append(IntrinsicRewardCallback(method, seed=seed))
    start = time.perf_counter()
    model.learn(frames, callback=callbacks)
    return {
        "method": method,
        "seed": seed,
        "frames": model.num_timesteps,
        "first_goal_at_frame": callback.first_goal,
        "solved_at_frame": callback.solved,
        "return": round(mean_return(model.ep_info_buffer or []), 3),
        "seconds": round(time.perf_counter() - start),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=FRAMES)
    frames = parser.parse_args().frames
    results: dict[str, Any] = {
        "command": "make bench-sb3",
        "frames": frames,
        "solved": SOLVED,
        "ppo": SETTINGS,
    }
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    for method, seed in ((method, seed) for seed in SEEDS for method in ("gem", "none")):
        if any((done["method"], done["seed"]) == (method, seed) for done in runs):
            continue
        done = run(method, seed, frames)
        print(done, flush=True)
        runs.append(done)
        RESULTS.write_text(json.dumps({**results, **provenance(), "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Trains PPO of Stable-Baselines3 on sparse-reward tasks, alone and with the callback.

`make bench-sb3`. Runs that are in `results/sb3-TASK.json` are not repeated. Delete the file to start over.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sb3_ppo import SETTINGS, make_agent

from gemax.integrations.stable_baselines3 import IntrinsicRewardCallback
from gemax.runs.provenance import provenance
from gemax.runs.solving import reaches

RESULTS = Path(__file__).parents[1] / "results"
NUM_ENVS = 64


class Task(NamedTuple):
    """An environment, and what counts as solving it."""

    env_id: str
    frames: int
    """Budget of a run."""
    solved: float
    """The task is solved if the mean return of the last episodes is at least this."""
    num_episodes: int
    """Number of these episodes."""
    num_seeds: int
    env_settings: dict[str, Any]


TASKS = {
    "two-rooms": Task("gemax/TwoRooms-v0", 600_000, 0.95, 1000, 3, {"observation": "cells"}),
    "key-and-door": Task("gemax/KeyAndDoor-v0", 1_000_000, 0.9, 100, 5, {}),
}


class SolvedCallback(BaseCallback):
    """Records when the goal is first reached and when the task is solved. Stops training then."""

    def __init__(self, task: Task):
        super().__init__()
        self._task = task
        self.first_goal: int | None = None
        self.solved: int | None = None

    def _on_step(self) -> bool:
        if self.first_goal is None and np.max(self.locals["rewards"]) > 0:
            self.first_goal = self.num_timesteps
        return self.solved is None

    def _on_rollout_end(self) -> None:
        returns = last_returns(self.model, self._task)
        if len(returns) == self._task.num_episodes and reaches(float(np.mean(returns)), self._task.solved):
            self.solved = self.num_timesteps


def last_returns(model: Any, task: Task) -> list[float]:
    """Returns the returns of the last episodes, without the intrinsic reward."""
    return [episode["r"] for episode in model.ep_info_buffer or []][-task.num_episodes :]


def run(method: str, seed: int, task: Task = TASKS["two-rooms"]) -> dict[str, Any]:
    """Trains until the task is solved or the budget is used up."""
    torch.set_num_threads(1)
    envs = gymnasium.make_vec(task.env_id, NUM_ENVS, **vector_settings(task), **task.env_settings)
    model, callback = make_agent(envs, seed), SolvedCallback(task)
    callbacks: list[BaseCallback] = [callback]
    if method != "none":
        callbacks.append(IntrinsicRewardCallback(method, seed=seed))
    start = time.perf_counter()
    model.learn(task.frames, callback=callbacks)
    return {
        "method": method,
        "seed": seed,
        "frames": model.num_timesteps,
        "first_goal_at_frame": callback.first_goal,
        "solved_at_frame": callback.solved,
        "return": round(float(np.mean(last_returns(model, task))), 3),
        "seconds": round(time.perf_counter() - start),
    }


def vector_settings(task: Task) -> dict[str, Any]:
    """Returns the settings of the vector environment. All reset in the step that ends an episode."""
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    if gymnasium.spec(task.env_id).vector_entry_point is not None:
        return {"autoreset_mode": mode}
    return {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}


def measure(name: str) -> None:
    """Trains the missing runs of a task, and writes each of them when it is finished."""
    task, path = TASKS[name], RESULTS / f"sb3-{name}.json"
    header: dict[str, Any] = {"command": "make bench-sb3", **task._asdict(), "ppo": SETTINGS}
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    for method, seed in ((method, seed) for seed in range(task.num_seeds) for method in ("gem", "none")):
        if any((done["method"], done["seed"]) == (method, seed) for done in runs):
            continue
        origin = provenance()
        runs.append(run(method, seed, task) | {"commit": origin.pop("commit")})
        print(name, runs[-1], flush=True)
        path.write_text(json.dumps({**header, **origin, "runs": runs}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    for name in parser.parse_args().tasks:
        measure(name)


if __name__ == "__main__":
    main()

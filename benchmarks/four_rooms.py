"""Explores MiniGrid's FourRooms reward-free, and then uses it as a task.

`make bench-four-rooms`. Results that are in `results/four-rooms.json` are not repeated. Delete the file to start over.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import minigrid  # registers the ids  # noqa: F401
import numpy as np
from finetune import first_reward_frame

import gemax
from gemax.runs.files import write_json
from gemax.runs.handle import Run
from gemax.runs.policy import Policy
from gemax.runs.provenance import provenance
from gemax.training.assemble import CUSTOM_ENV, CustomParts
from gemax.training.presets import configure

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "results" / "four-rooms.json", ROOT / "runs" / "bench-four-rooms"
EPISODES = 200
FIRST_LAYOUT = 1_000_000
"""Seed of the first evaluation episode."""

FOUR_ROOMS = "MiniGrid-FourRooms-v0"
EXPLORATION = {"reward_free": True, "updates": 1500}
EXPLORERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anywhere, ngu": ({}, {"method": "ngu"}),
    "anywhere, gem per episode": (
        {},
        # MiniGrid does not register an episode length.
        {"method": "gem", "episodic_weight": 1.0, "intrinsic_scale": 0.01, "horizon": 100},
    ),
    "corner, gem": ({"agent_pos": (1, 1)}, {"method": "gem", "episodic_weight": 0.0}),
}
"""Settings of the environment and of training, by the name of the explorer. With `episodic_weight` 0, GEM maximises the
entropy over all episodes. If episodes start anywhere, that entropy is high even without learning."""
NUM_FINE_TUNING_SEEDS = {"anywhere, ngu": 10, "anywhere, gem per episode": 30}
"""Number of seeds that are fine-tuned. GEM has more, because ten did not show whether pre-training helps."""
MAX_UPDATES = 300


def evaluate(make_env: Callable[[], gymnasium.Env], policy: Policy | None) -> dict[str, float]:
    """Evaluates a policy, or a random policy, on layouts that were not used in training."""
    env, rng = make_env(), np.random.default_rng(0)
    returns, cells = [], []
    for layout in range(FIRST_LAYOUT, FIRST_LAYOUT + EPISODES):
        observation, _ = env.reset(seed=layout)
        if policy is not None:
            policy.reset()
        reward, episode_return, visited, is_over = 0.0, 0.0, {tuple(env.unwrapped.agent_pos)}, False
        while not is_over:
            action = int(rng.integers(7)) if policy is None else policy.act(observation, reward)
            observation, reward, terminated, truncated, _ = env.step(action)
            reward, is_over = float(reward), terminated or truncated
            episode_return += reward
            visited.add(tuple(env.unwrapped.agent_pos))
        returns.append(episode_return)
        cells.append(len(visited))
    return {
        "return": float(np.mean(returns)),
        "reached": float(np.mean(np.asarray(returns) > 0)),
        "cells": float(np.mean(cells)),
        "cells_error": float(np.std(cells, ddof=1) / np.sqrt(EPISODES)),
    }


def finished(run: Run) -> Run:
    """Returns the run. Exits if a signal stopped it."""
    if run.stop_signal is not None:
        sys.exit(128 + run.stop_signal)
    return run


def explore(explorer: str) -> dict[str, Any]:
    """Trains reward-free and evaluates the policy."""
    env_settings, settings = EXPLORERS[explorer]
    shutil.rmtree(RUNS / explorer, ignore_errors=True)
    make_env = four_rooms(env_settings)
    run = finished(gemax.train(make_env, out=RUNS / explorer, **EXPLORATION, **settings))
    trained = evaluate(make_env, run.policy())
    random = evaluate(make_env, None)
    return {"explorer": explorer, "frames": run.summary["frames"], "trained": trained, "random": random}


def four_rooms(env_settings: dict[str, Any]) -> Callable[[], gymnasium.Env]:
    return lambda: gymnasium.make(FOUR_ROOMS, **env_settings)


def first_reward(explorer: str, seed: int, *, pretrained: bool) -> dict[str, Any]:
    """Trains with the extrinsic and the intrinsic reward until the first extrinsic reward, and counts the frames."""
    env_settings, settings = EXPLORERS[explorer]
    source = str(RUNS / explorer) if pretrained else ""
    config = configure(CUSTOM_ENV, seed=seed, updates=MAX_UPDATES, start_from=source, **settings)
    custom = CustomParts(make_env=four_rooms(env_settings))
    frames = first_reward_frame(config, custom)
    return {"task_after": explorer, "pretrained": pretrained, "seed": seed, "first_reward_at_frame": frames}


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []

    def measure(identity: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        if any(identity.items() <= row.items() for row in rows):
            return
        origin = provenance()
        rows.append(work() | {"commit": origin.pop("commit")})
        print(json.dumps(rows[-1]), flush=True)
        write_json(
            RESULTS, {"command": "make bench-four-rooms", "episodes": EPISODES, **origin, "rows": rows}
        )

    for explorer in EXPLORERS:
        measure({"explorer": explorer}, lambda explorer=explorer: explore(explorer))
        for seed in range(NUM_FINE_TUNING_SEEDS.get(explorer, 0)):
            for pretrained in (True, False):
                measure(
                    {"task_after": explorer, "pretrained": pretrained, "seed": seed},
                    lambda explorer=explorer, seed=seed, pretrained=pretrained: first_reward(
                        explorer, seed, pretrained=pretrained
                    ),
                )


if __name__ == "__main__":
    main()

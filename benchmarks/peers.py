"""Compares whole training in 2-Rooms with agents of other libraries, in frames per second.

`make bench-peers`. All have 64 environments, rollouts of 30 steps and networks of the same widths. Agents of
Stable-Baselines3 see the cells of the map, and have the settings of `examples/sb3_ppo.py`. The paper's setting is
compared with `torch_gem.py`, a plain PyTorch version with the same configuration.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import one_thread  # isort: skip  # noqa: F401  (before jax)
import gymnasium
import interleaved
import jax
import numpy as np
import torch
from gymnasium.wrappers.vector import FlattenObservation
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor
from torch_gem import TorchGem

import gemax.integrations.gymnasium  # registers the ids  # noqa: F401
from gemax.integrations.stable_baselines3 import (
    GymnasiumVecEnv,
    IntrinsicRewardCallback,
    add_to_rewards,
)
from gemax.training.assemble import assemble
from gemax.training.learn import initial_state
from gemax.training.presets import configure

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from sb3_ppo import SETTINGS

HORIZON = 30
LAPTOP = configure("two-rooms").agent
ROUNDS, UPDATES_PER_CALL = 5, 10
"""Updates of our trainer in one compiled call. `gemax train` has 10 too."""


class Candidate(NamedTuple):
    """An agent in 2-Rooms."""

    frames: int
    """Frames of one call."""
    train: Callable[[], float]
    """Trains for that many frames. Returns the mean return of the last episodes."""


class RllteCallback(BaseCallback):
    """Adds the reward of rllte to each rollout, before the agent learns from it."""

    def __init__(self, name: str, envs: Any, scale: float) -> None:
        super().__init__()
        # Not installed where the test runs, which compares with other peers.
        make = getattr(import_module("rllte.xplore.reward"), name)
        self._reward, self._scale = make(envs, latent_dim=LAPTOP.head_size), scale
        self._steps: list[tuple[Any, ...]] = []

    def _on_rollout_start(self) -> None:
        self._steps = []

    def _on_step(self) -> bool:
        local = self.locals
        truncated = np.array([info.get("TimeLimit.truncated", False) for info in local["infos"]])
        step = (
            self.model._last_obs,
            local["actions"],
            local["rewards"],
            local["dones"] & ~truncated,
            truncated,
            local["new_obs"],
        )
        tensors = tuple(torch.as_tensor(np.array(part)).float() for part in step)
        flat = (tensors[0].flatten(1), *tensors[1:5], tensors[5].flatten(1))
        self._reward.watch(*flat)
        self._steps.append(flat)
        return True

    def _on_rollout_end(self) -> None:
        names = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
        columns = (torch.stack(column) for column in zip(*self._steps, strict=True))
        rewards = self._reward.compute(dict(zip(names, columns, strict=True)))
        add_to_rewards(self.locals["rollout_buffer"], self._scale * rewards.detach().numpy())


def make_envs(num_envs: int, observation: str, mode: str = "SameStep") -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec("gemax/TwoRooms-v0", num_envs, autoreset_mode=mode, observation=observation)


def ours(seed: int, preset: Any = "laptop", **settings: Any) -> Candidate:
    config = configure("two-rooms", preset, **settings)
    trainer = assemble(config)
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(seed))
    update = partial(trainer.collector.update, trainer)
    num_updates = UPDATES_PER_CALL if preset == "laptop" else config.run.updates_per_call
    updates = jax.jit(lambda state: jax.lax.scan(lambda state, _: update(state), state, length=num_updates))

    def train() -> float:
        nonlocal state
        state, metrics = updates(state)
        return float(metrics["return"][-1])

    return Candidate(num_updates * config.frames_per_update, train)


def sb3(seed: int, agent: Any, policy: str, make_callback: Any, **settings: Any) -> Candidate:
    envs = make_envs(configure("two-rooms").env.num_envs, "cells")
    model = agent(
        policy,
        VecMonitor(GymnasiumVecEnv(envs)),
        seed=seed,
        device="cpu",
        stats_window_size=1000,
        **(SETTINGS | settings),
    )
    return Candidate(SETTINGS["n_steps"] * envs.num_envs, train_call(model, make_callback(envs), 1000))


def train_call(model: Any, callback: BaseCallback | None, num_episodes: int) -> Callable[[], float]:
    """Returns a call that trains on one rollout, and returns the mean return of the last episodes."""
    _, callbacks = model._setup_learn(10**9, callback)
    callbacks.on_training_start(locals(), globals())

    def train() -> float:
        # One iteration of `model.learn`, which would set up everything anew in each call.
        model.collect_rollouts(model.env, callbacks, model.rollout_buffer, n_rollout_steps=model.n_steps)
        model.train()
        returns = [episode["r"] for episode in model.ep_info_buffer or []]
        return float(np.mean(returns)) if len(returns) == num_episodes else 0.0

    return train


def ppo(seed: int, make_callback: Any) -> Candidate:
    widths = {"net_arch": [LAPTOP.torso_size, LAPTOP.head_size]}
    return sb3(seed, PPO, "MlpPolicy", make_callback, policy_kwargs=widths)


def recurrent_ppo(seed: int, make_callback: Any) -> Candidate:
    widths = {"net_arch": [LAPTOP.head_size], "lstm_hidden_size": LAPTOP.lstm_size}
    return sb3(seed, RecurrentPPO, "MlpLstmPolicy", make_callback, policy_kwargs=widths)


def torch_gem(seed: int) -> Candidate:
    config = configure("two-rooms", "paper", seed=seed)
    trainer = TorchGem(make_envs(config.env.num_envs, "pixels"), config, HORIZON)

    def train() -> float:
        trainer.update()
        return float(np.mean(trainer.returns)) if len(trainer.returns) == 1000 else 0.0

    return Candidate(config.frames_per_update, train)


def gemax_callback(method: str) -> Callable[[Any], BaseCallback]:
    return lambda envs: IntrinsicRewardCallback(method, horizon=HORIZON)


def rllte_callback(name: str) -> Callable[[Any], BaseCallback]:
    # rllte steps its environments for initial moments, so it gets its own. Flattening needs this autoreset mode.
    def make(envs: gymnasium.vector.VectorEnv) -> BaseCallback:
        flat = FlattenObservation(make_envs(envs.num_envs, "cells", "NextStep"))
        return RllteCallback(name, flat, configure("two-rooms").intrinsic.intrinsic_scale)

    return make


OURS, PIXELS, PAPER, EPISODES_OFF = (
    "ours, cells",
    "ours, pixels",
    "ours, paper",
    "ours, cells, GEM of the paper",
)
TORCH = "PyTorch, paper"
CANDIDATES: dict[str, Callable[[int], Candidate]] = {
    OURS: ours,
    EPISODES_OFF: partial(ours, episodic_weight=0.0),
    PIXELS: partial(ours, observation="pixels"),
    "PPO + rllte RND": lambda seed: ppo(seed, rllte_callback("RND")),
    "PPO + rllte RE3": lambda seed: ppo(seed, rllte_callback("RE3")),
    "RecurrentPPO": lambda seed: recurrent_ppo(seed, lambda envs: None),
    "RecurrentPPO + our RND": lambda seed: recurrent_ppo(seed, gemax_callback("rnd")),
    "RecurrentPPO + our GEM": lambda seed: recurrent_ppo(seed, gemax_callback("gem")),
    PAPER: partial(ours, preset="paper"),
    TORCH: torch_gem,
}
GOALS = {
    (OURS, "PPO + rllte RND"): 15.0,
    (OURS, "PPO + rllte RE3"): 15.0,
    (OURS, "RecurrentPPO"): None,
    (OURS, "RecurrentPPO + our RND"): 50.0,
    (OURS, "RecurrentPPO + our GEM"): 50.0,
    (PIXELS, "PPO + rllte RND"): None,
    (OURS, EPISODES_OFF): None,
    (PAPER, TORCH): 20.0,
}
"""Ratios of the report, and the ones that were aimed for."""


def measure_speed(names: list[str], rounds: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Returns the comparisons and the frames per processor second of candidates that take turns."""
    candidates = {name: CANDIDATES[name](0) for name in names}
    seconds = interleaved.measure_rounds({name: it.train for name, it in candidates.items()}, rounds)
    per_frame = {name: [time / candidates[name].frames for time in seconds[name]] for name in names}
    comparisons = [
        interleaved.comparison(
            1, f"{ours} / {peer}", interleaved.ratio_of(per_frame[peer], per_frame[ours]), goal
        )
        for (ours, peer), goal in GOALS.items()
        if ours in names and peer in names
    ]
    speeds = {name: float(f"{1 / np.median(times):.3g}") for name, times in per_frame.items()}
    print(speeds, *comparisons, sep="\n")
    return comparisons, speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--names", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--check", action="store_true", help="fail if a ratio fell by more than a third")
    options = parser.parse_args()
    torch.set_num_threads(1)
    comparisons, speeds = measure_speed(options.names, options.rounds)
    if options.check:
        sys.exit("\n".join(interleaved.fallen(__file__, comparisons)) or 0)
    interleaved.write_results(
        __file__,
        ("torch", "stable-baselines3", "sb3-contrib", "rllte-core"),
        comparisons=comparisons,
        frames_per_second=speeds,
    )


if __name__ == "__main__":
    main()

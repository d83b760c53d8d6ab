"""Measures the processor time of a step of 16 environments: without a wrapper, with ours, and with rllte.

`make bench-wrapper`. RND of rllte computes rewards once per rollout, the wrapper at every step.

By default jax runs each call in its own thread and waits for it. This can be changed before the first computation.
Both modes are measured, in separate processes.
"""

import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import flax.linen as nn
import gymnasium
import jax
import numpy as np
import optax
import torch
from rllte.xplore.reward import RND

from gemax.integrations.gymnasium import IntrinsicRewardWrapper
from gemax.networks import Network
from gemax.rewards.rnd import RndSettings, rnd
from gemax.runs.provenance import provenance

NUM_ENVS, ROLLOUT_LENGTH, ROUNDS, TORSO_SIZE = 16, 32, 15, 256
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"vectorization_mode": "sync"},
    "MountainCar-v0": {"vectorization_mode": "sync"},
}
"""Environments with vector observations, for which rllte has a network without convolutions."""
METHODS = ("bare", "none", "rnd", "ngu", "gem", "rllte's rnd", "rnd, of rllte's size")
LATENT_SIZE = 128
"""Output size of rllte's networks, after a hidden layer of 256."""
DISPATCH = {"in a thread of jax": True, "in the caller's thread": False}
"""Where jax computes, and the value of `jax_cpu_enable_async_dispatch`. The first is the default."""


class RllteWrapper(gymnasium.vector.VectorWrapper):
    """Computes the reward of rllte's RND at the end of each rollout, as in its documentation."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env)
        self._rnd, self._steps = RND(env, latent_dim=LATENT_SIZE), []

    def reset(self, **arguments: Any):
        """Resets all environments."""
        self._observation, info = self.env.reset(**arguments)
        return self._observation, info

    def step(self, actions: np.ndarray):
        """Steps all environments, and computes rewards when the rollout is complete."""
        result = self.env.step(actions)
        self._steps.append((self._observation, actions, *result[1:4], result[0]))
        self._observation = result[0]
        if len(self._steps) == ROLLOUT_LENGTH:
            names = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
            columns = (np.stack(column) for column in zip(*self._steps, strict=True))
            self._rnd.compute(
                {name: torch.as_tensor(column).float() for name, column in zip(names, columns, strict=True)}
            )
            self._steps = []
        return result


def make_envs(name: str, method: str) -> gymnasium.vector.VectorEnv:
    envs = gymnasium.make_vec(name, NUM_ENVS, **ENVIRONMENTS[name])
    if method == "bare":
        return envs
    if method == "rllte's rnd":
        return RllteWrapper(envs)
    if method == "rnd, of rllte's size":
        return IntrinsicRewardWrapper(envs, rnd_of_rllte_size(), rollout_length=ROLLOUT_LENGTH)
    return IntrinsicRewardWrapper(
        envs, method, rollout_length=ROLLOUT_LENGTH, horizon=500, torso_size=TORSO_SIZE
    )


def rnd_of_rllte_size() -> Any:
    layers = nn.Sequential([nn.Dense(256), nn.relu, nn.Dense(LATENT_SIZE)])
    return rnd(Network(layers.init, layers.apply), optax.adam(1e-3), 1.0, RndSettings())


def milliseconds_per_step(envs: gymnasium.vector.VectorEnv, actions: np.ndarray) -> float:
    """Returns the processor milliseconds per step, including learning and excluding other programs."""
    start = time.process_time()
    for action in actions:
        envs.step(action)
    return 1e3 * (time.process_time() - start) / len(actions)


def measure(name: str, asynchronous: bool) -> dict[str, float]:
    """Returns the milliseconds per step of each method: the minimum over several rounds. The methods take turns."""
    jax.config.update("jax_cpu_enable_async_dispatch", asynchronous)
    torch.set_num_threads(1)
    envs = {method: make_envs(name, method) for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    rng = np.random.default_rng(0)
    num_actions = int(next(iter(envs.values())).single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
    for env in envs.values():
        env.reset(seed=0)
    for index in range(ROUNDS + 2):
        actions = rng.integers(num_actions, size=(2 * ROLLOUT_LENGTH, NUM_ENVS))
        for method, env in envs.items():
            milliseconds = milliseconds_per_step(env, actions)
            # The first two rounds compile.
            if index >= 2:
                times[method].append(milliseconds)
    return {method: float(f"{min(rounds):.3g}") for method, rounds in times.items()}


def main() -> None:
    results: dict[str, Any] = {
        "command": "make bench-wrapper",
        **provenance(),
        "environments_side_by_side": NUM_ENVS,
        "rollout_length": ROLLOUT_LENGTH,
        "processor milliseconds of a step": {},
    }
    for name in ENVIRONMENTS:
        results["processor milliseconds of a step"][name] = {}
        for where, asynchronous in DISPATCH.items():
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                measured = process.submit(measure, name, asynchronous).result()
            results["processor milliseconds of a step"][name][where] = measured
            print(name, where, measured, flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

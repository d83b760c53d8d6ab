"""What the wrapper costs: processor milliseconds of a step of all environments, bare, with each method, with rllte.

`make bench-wrapper`. rllte's RND looks at a rollout once it is over, ours pays every step at once.

jax hands each call to a thread of its own and waits for it, unless it is told not to before it computes anything.
Everything is measured both ways, in a process for each.
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

from gemax.integrations.gymnasium import IntrinsicReward
from gemax.networks import Network
from gemax.rewards.rnd import RndSettings, rnd
from gemax.runs.provenance import provenance

NUM_ENVS, ROLLOUT, ROUNDS, TORSO = 16, 32, 15, 256
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"vectorization_mode": "sync"},
    "MountainCar-v0": {"vectorization_mode": "sync"},
}
"""With vectors to see: that is where rllte has a network without convolutions."""
METHODS = ("bare", "none", "rnd", "ngu", "gem", "rllte's rnd", "rnd, of rllte's size")
LATENT = 128
"""What rllte's networks give out, after a layer of 256."""
DISPATCH = {"in a thread of jax": True, "in the caller's thread": False}
"""Where ours computes, and whether that is asynchronous. The first is what happens unless one asks for the other."""


class Rllte(gymnasium.vector.VectorWrapper):
    """rllte's RND, as its documentation uses it: at the end of each rollout."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env)
        self._rnd, self._steps = RND(env, latent_dim=LATENT), []

    def reset(self, **arguments: Any):
        """Starts all episodes."""
        self._seen, info = self.env.reset(**arguments)
        return self._seen, info

    def step(self, actions: np.ndarray):
        """Takes a step in all environments, and pays when a rollout is full."""
        result = self.env.step(actions)
        self._steps.append((self._seen, actions, *result[1:4], result[0]))
        self._seen = result[0]
        if len(self._steps) == ROLLOUT:
            names = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
            columns = (np.stack(column) for column in zip(*self._steps, strict=True))
            self._rnd.compute(
                {name: torch.as_tensor(column).float() for name, column in zip(names, columns, strict=True)}
            )
            self._steps = []
        return result


def make(name: str, method: str) -> gymnasium.vector.VectorEnv:
    envs = gymnasium.make_vec(name, NUM_ENVS, **ENVIRONMENTS[name])
    if method == "bare":
        return envs
    if method == "rllte's rnd":
        return Rllte(envs)
    if method == "rnd, of rllte's size":
        return IntrinsicReward(envs, of_rlltes_size(), rollout_length=ROLLOUT)
    return IntrinsicReward(envs, method, rollout_length=ROLLOUT, horizon=500, torso_size=TORSO)


def of_rlltes_size() -> Any:
    layers = nn.Sequential([nn.Dense(256), nn.relu, nn.Dense(LATENT)])
    return rnd(Network(layers.init, layers.apply), optax.adam(1e-3), RndSettings(scale=1.0))


def rollout(envs: gymnasium.vector.VectorEnv, actions: np.ndarray) -> float:
    """Processor milliseconds of a step, learning included. This clock does not run while other programs do."""
    start = time.process_time()
    for action in actions:
        envs.step(action)
    return 1e3 * (time.process_time() - start) / len(actions)


def measure(name: str, asynchronous: bool) -> dict[str, float]:
    """The best of some rounds, the competitors in turn."""
    jax.config.update("jax_cpu_enable_async_dispatch", asynchronous)
    torch.set_num_threads(1)
    envs = {method: make(name, method) for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    draw = np.random.default_rng(0)
    num_actions = int(next(iter(envs.values())).single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
    for one in envs.values():
        one.reset(seed=0)
    for number in range(ROUNDS + 2):
        actions = draw.integers(num_actions, size=(2 * ROLLOUT, NUM_ENVS))
        for method, one in envs.items():
            spent = rollout(one, actions)
            # The first rounds compile.
            if number >= 2:
                times[method].append(spent)
    return {method: float(f"{min(spent):.3g}") for method, spent in times.items()}


def main() -> None:
    results: dict[str, Any] = {
        "command": "make bench-wrapper",
        **provenance(),
        "environments_side_by_side": NUM_ENVS,
        "rollout_length": ROLLOUT,
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

"""Measures what the Gymnasium wrapper adds to a step of 16 environments, against RND of rllte.

`make bench-wrapper`. rllte computes rewards once per rollout, and leaves it to the user to add them. So does the
wrapper with `per_step=False`. By default it returns the reward of every step.
"""

import argparse
from collections.abc import Callable
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (before jax)
import gymnasium
import interleaved
import numpy as np
import optax
import torch
from gymnasium.vector import AutoresetMode
from rllte.xplore.reward import RND

from gemax.integrations.gymnasium import IntrinsicRewardWrapper
from gemax.networks import mlp
from gemax.rewards.rnd import RndSettings, rnd

NUM_ENVS, ROLLOUT_LENGTH, ROUNDS, TORSO_SIZE = 16, 32, 15, 256
ENVS = ("CartPole-v1", "MountainCar-v0")
"""Environments with vector observations, for which rllte has a network without convolutions."""
METHODS = ("rnd of rllte's size", "rnd", "ngu", "ngu-rnd", "e3b", "re3", "gem")
LATENT_SIZE = 128
"""Output size of rllte's networks, after a hidden layer of 256."""
GOAL = 1.0


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


def make_envs(env_id: str) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(
        env_id,
        NUM_ENVS,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )


def wrap(env_id: str, method: str, *, per_step: bool) -> gymnasium.vector.VectorEnv:
    settings = {"horizon": 500, "torso_size": TORSO_SIZE}
    chosen: Any = method
    if method == METHODS[0]:
        settings, chosen = {}, rnd_of_rllte_size()
    return IntrinsicRewardWrapper(
        make_envs(env_id), chosen, rollout_length=ROLLOUT_LENGTH, per_step=per_step, **settings
    )


def rnd_of_rllte_size() -> Any:
    return rnd(mlp((256, LATENT_SIZE)), optax.adam(1e-3), 1.0, RndSettings())


def rollout_call(envs: gymnasium.vector.VectorEnv) -> Callable[[], None]:
    """Returns a call that takes the steps of one rollout, the last of which computes rewards or learns."""
    rng = np.random.default_rng(0)
    num_actions = int(envs.single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
    envs.reset(seed=0)

    def call() -> None:
        for actions in rng.integers(num_actions, size=(ROLLOUT_LENGTH, NUM_ENVS)):
            envs.step(actions)

    call()
    return call


def measure(env_id: str, methods: list[str], rounds: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Returns the comparisons with rllte, and the milliseconds per step. Both exclude the steps of the environment."""
    bare, rllte = "bare", "rllte RND"
    calls = {bare: rollout_call(make_envs(env_id)), rllte: rollout_call(RllteWrapper(make_envs(env_id)))}
    for method in methods:
        for per_step in (True, False):
            name = f"{method}, per {'step' if per_step else 'rollout'}"
            calls[name] = rollout_call(wrap(env_id, method, per_step=per_step))
    seconds = interleaved.measure_rounds(calls, rounds)
    # Single rounds of an environment alone vary more than what a wrapper adds to them, so all use the fastest round.
    alone = min(seconds.pop(bare))
    added = {name: [time - alone for time in times] for name, times in seconds.items()}
    comparisons = [
        interleaved.comparison(
            3, f"{name}, in {env_id}, to rllte RND", interleaved.ratio_of(added[rllte], added[name]), GOAL
        )
        for name in added
        if name != rllte
    ]
    fastest = {name: min(times) for name, times in added.items()}
    return comparisons, {
        name: float(f"{1e3 * time / ROLLOUT_LENGTH:.3g}") for name, time in ({bare: alone} | fastest).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    comparisons, milliseconds = [], {}
    for env_id in options.envs:
        rows, milliseconds[env_id] = measure(env_id, options.methods, options.rounds)
        comparisons += rows
        print(env_id, milliseconds[env_id], flush=True)
    interleaved.write_results(
        __file__,
        ("torch", "rllte-core"),
        num_envs=NUM_ENVS,
        rollout_length=ROLLOUT_LENGTH,
        comparisons=comparisons,
        added_milliseconds_per_step=milliseconds,
    )


if __name__ == "__main__":
    main()

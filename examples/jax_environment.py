"""Trains an agent in a custom JAX environment: a corridor with a reward at its end.

`python examples/jax_environment.py [UPDATES]` takes about a minute. The environment is a few pure functions, so that it
is stepped inside the compiled training loop, many times faster than a Gymnasium environment.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gemax
from gemax.types import FiniteActions, ObservationSpec

LENGTH, HORIZON = 30, 60


class Corridor(NamedTuple):
    """State of the environment."""

    cell: jax.Array
    time: jax.Array


def corridor() -> gemax.JaxEnv:
    """Returns a row of cells. The last one has reward 1 and ends the episode."""

    def observe(state: Corridor) -> jax.Array:
        return jax.nn.one_hot(state.cell, LENGTH)

    def reset(key: jax.Array) -> tuple[Corridor, gemax.Timestep]:
        state = Corridor(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        never = jnp.zeros((), bool)
        return state, gemax.Timestep(observe(state), jnp.zeros(()), never, never)

    def step(key: jax.Array, state: Corridor, action: jax.Array) -> tuple[Corridor, gemax.Timestep]:
        cell = jnp.clip(state.cell + jnp.where(action == 1, 1, -1), 0, LENGTH - 1).astype(jnp.int32)
        state = Corridor(cell, state.time + 1)
        terminated = cell == LENGTH - 1
        truncated = (state.time >= HORIZON) & ~terminated
        return state, gemax.Timestep(observe(state), terminated.astype(float), terminated, truncated)

    def render(state: Corridor) -> np.ndarray:
        image = np.full((1, LENGTH, 3), 230, np.uint8)
        image[0, -1], image[0, int(state.cell)] = (255, 144, 24), (38, 90, 222)
        return image.repeat(16, axis=0).repeat(16, axis=1)

    spec = gemax.EnvSpec(
        name="corridor",
        observation=ObservationSpec(np.zeros(LENGTH, np.float32), np.ones(LENGTH, np.float32)),
        actions=FiniteActions((2,)),
        horizon=HORIZON,
        solved_return=0.95,
        num_cells=LENGTH,
        num_states=LENGTH,
    )
    return gemax.JaxEnv(spec, reset, step, render, cell_index=lambda state: state.cell)


def main(updates: int = 200, out: str = "runs/jax-corridor", **settings: Any) -> float:
    """Trains and films the policy. Returns the mean return of the last 100 episodes."""
    gemax.check_env(corridor())
    run = gemax.train(corridor, updates=updates, out=out, **settings)
    print("Film:", run.record(Path(out) / "episode.gif"))
    return run.summary["recent_return"]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))

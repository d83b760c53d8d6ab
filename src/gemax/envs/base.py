"""The interface of JAX environments, and automatic resets.

An environment is a record of pure functions. They take the state and a random key as arguments and return the new
state, so they can be compiled, vectorised with `vmap` and scanned over time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt8

from gemax.core.finite_model import FiniteModel
from gemax.types import EnvSpec, Timestep, tree_where

State: TypeAlias = Any
"""State of an environment: a pytree of arrays. Its structure depends on the environment."""

BINS_PER_AXIS = 30
NUM_BINS = BINS_PER_AXIS**2
"""Number of cells that continuous environments are divided into; see `bin_index`."""


class FiniteEnv(NamedTuple):
    """Indices and tables of an environment with finitely many states, such as a gridworld."""

    cell_index: Callable[[State], Int[Array, ""]]
    """Returns the cell of the agent. Entropy and heatmap are computed from the visits to each cell."""
    state_index: Callable[[State], Int[Array, ""]]
    """Returns the index of the state, which the oracle counts. The time is not part of it."""
    observation_index: Callable[[State], Int[Array, ""]]
    """Returns the row of `observation_table` that the agent observes. Several states may share a row."""
    observation_table: UInt8[Array, "rows height width 3"]
    """All distinct images, with one pixel per cell. The noise cell is black."""
    pixels_per_cell: int
    """Side of the block of pixels that shows one cell in an observation."""
    observation_of_state: Int[np.ndarray, " states"]
    """Row of `observation_table` for each state."""
    noise_cell: tuple[int, int] | None
    """Row and column of the image cell whose red and green values are random at every step. None without noise."""
    cell_positions: Int[np.ndarray, "cells 2"]
    """Row and column of each cell on the map."""
    distances: Callable[[], Int[np.ndarray, "cells cells"]]
    """Returns the minimum number of steps between cells with all doors open. -1 for cells that are not connected."""
    model: FiniteModel
    """Transition tables of the environment. Reaching the reward ends an episode."""
    reward_free_model: FiniteModel
    """Transition tables with plain floor instead of the reward. The entropy ceiling is computed from them."""
    map_rows: tuple[str, ...] = ()
    """The map as ASCII art, see `gemax.envs.maps`. Empty if the environment has none."""

    @property
    def num_states(self) -> int:
        """Number of states: `state_index` is below it."""
        return len(self.observation_of_state)

    @property
    def has_noise(self) -> bool:
        """Whether observations contain the noise cell, so that they differ from the table."""
        return self.noise_cell is not None


class Plane(NamedTuple):
    """The two state variables whose bins are the cells of a continuous environment."""

    names: tuple[str, str]
    low: tuple[float, float]
    high: tuple[float, float]
    from_observation: Callable[[Float[np.ndarray, "*batch F"]], Float[np.ndarray, "*batch 2"]]
    """Returns both variables of observations. The first one selects the row of bins, the second one the column."""


class JaxEnv(NamedTuple):
    """An environment as a record of pure functions."""

    spec: EnvSpec
    reset: Callable[[PRNGKeyArray], tuple[State, Timestep]]
    """`reset(key) -> state, timestep`. Starts an episode."""
    step: Callable[[PRNGKeyArray, State, Int[Array, ""]], tuple[State, Timestep]]
    """`step(key, state, action) -> state, timestep`. Must not be called after the end of an episode."""
    render: Callable[[State], UInt8[np.ndarray, "height width 3"]]
    """Returns an image of the state for people. Not compiled."""
    cell_index: Callable[[State], Int[Array, ""]]
    """Returns the cell of a state, from 0 to `spec.num_cells - 1`: a cell of the map, or a bin."""
    finite: FiniteEnv | None = None
    """Indices and tables, if the environment has finitely many states."""
    reset_at: Callable[[PRNGKeyArray, Int[Array, ""]], tuple[State, Timestep]] | None = None
    """`reset_at(key, time) -> state, timestep`. Like `reset`, with the clock of the episode at a later time step.

    Training starts the first episode of each environment at a random time, so that a batch contains all phases of an
    episode. None if the environment has no clock; all first episodes then start at time 0.
    """
    render_visits: (
        Callable[[State, Float[np.ndarray, " cells"]], UInt8[np.ndarray, "height width 3"]] | None
    ) = None
    """`render_visits(state, visits)`: returns an image of the state and of the visits to each cell. Not compiled."""
    plane: Plane | None = None
    """The variables that cells are bins of, for drawing. None for maps."""


class AutoresetStep(NamedTuple):
    """Result of a step with an automatic reset."""

    timestep: Timestep
    """Result of the action. At the end of an episode it contains the terminal observation."""
    current: Timestep
    """Timestep that the next action is chosen from: `timestep`, or the first one of a new episode."""
    is_first: Bool[Array, ""]
    """Whether `current` starts an episode."""
    next_state: State
    """State after the action, before any reset. Indices of finite environments are computed from it."""


def is_last(timestep: Timestep) -> Bool[Array, "*batch"]:
    """Whether the timestep ends an episode."""
    return timestep.terminated | timestep.truncated


def first_timestep(observation: Shaped[Array, "*shape"]) -> Timestep:
    """Returns the first timestep of an episode, with reward 0."""
    return Timestep(observation, jnp.zeros(()), jnp.zeros((), bool), jnp.zeros((), bool))


def step_and_reset(
    env: JaxEnv, key: PRNGKeyArray, state: State, action: Int[Array, ""]
) -> tuple[State, AutoresetStep]:
    """Takes a step. If it ends the episode, starts a new one.

    Returns the state that the next action applies to, and the results of the step.
    """
    step_key, reset_key = jax.random.split(key)
    next_state, timestep = env.step(step_key, state, action)
    reset = env.reset(reset_key)
    is_over = is_last(timestep)
    state, current = tree_where(is_over, reset, (next_state, timestep))
    return state, AutoresetStep(timestep, current, is_over, next_state)


def bin_index(
    variables: Callable[[State], tuple[Float[Array, ""], Float[Array, ""]]],
    low: tuple[float, float],
    high: tuple[float, float],
) -> Callable[[State], Int[Array, ""]]:
    """Returns the `cell_index` function of a continuous environment: 30 × 30 bins over two state variables.

    Values outside of the range belong to the outermost bins.

    Args:
        variables: Returns the two variables of a state.
        low: Lower ends of their ranges.
        high: Upper ends of their ranges.
    """

    def index(state: State) -> Int[Array, ""]:
        row, column = (
            jnp.clip((value - start) / (end - start) * BINS_PER_AXIS, 0, BINS_PER_AXIS - 1).astype(int)
            for value, start, end in zip(variables(state), low, high, strict=True)
        )
        return row * BINS_PER_AXIS + column

    return index


def without_reward(env: JaxEnv) -> JaxEnv:
    """Returns the environment with rewards of zero. Episodes end as before."""

    def step(key: PRNGKeyArray, state: State, action: Int[Array, ""]) -> tuple[State, Timestep]:
        state, timestep = env.step(key, state, action)
        return state, timestep._replace(reward=jnp.zeros_like(timestep.reward))

    return env._replace(step=step)


def random_rollout(
    env: JaxEnv, key: PRNGKeyArray, state: State, num_steps: int
) -> tuple[State, Float[Array, " num_steps"], Bool[Array, " num_steps"]]:
    """Acts uniformly at random. Returns the last state, the rewards, and whether each step ends an episode."""

    def one_step(state: State, key: PRNGKeyArray):
        action_key, env_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, env.spec.num_actions)
        state, outcome = step_and_reset(env, env_key, state, action)
        return state, (outcome.timestep.reward, outcome.is_first)

    state, (rewards, ends) = jax.lax.scan(one_step, state, jax.random.split(key, num_steps))
    return state, rewards, ends

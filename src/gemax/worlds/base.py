"""The contract of a world, and how episodes follow one another.

A world is a record of pure functions and of facts. All that changes lives in the state that they pass along,
the random key excepted. Functions may be compiled, vectorised with `vmap` and scanned over time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt8

from gemax.core.ceiling import FiniteModel
from gemax.types import Timestep

State: TypeAlias = Any
"""A tree of arrays, known only to its world."""


class ObservationSpec(NamedTuple):
    """The box that every observation of a world lies in."""

    low: Shaped[np.ndarray, "*shape"]
    high: Shaped[np.ndarray, "*shape"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.low.shape

    @property
    def dtype(self) -> np.dtype:
        """uint8 for images, float32 for vectors."""
        return self.low.dtype


class Places(NamedTuple):
    """What visits are counted by, for coverage, entropy and the oracle: the squares of a map, or bins of a plane."""

    index_of: Callable[[State], Int[Array, ""]]
    number: int
    """How many there are."""


class FiniteFacts(NamedTuple):
    """What a finite world knows about itself."""

    square_index: Callable[[State], Int[Array, ""]]
    """Where the agent is: what visits are counted by, for entropy, heatmap and oracle."""
    state_index: Callable[[State], Int[Array, ""]]
    """All that the future depends on, except the time."""
    observation_index: Callable[[State], Int[Array, ""]]
    """The row of `observation_table` that the agent sees. Two states may share a row."""
    observation_table: UInt8[Array, "rows height width 3"]
    """Every image that there is, once, at a pixel a square and with its noise square black."""
    pixels_per_square: int
    """How many times larger, each way, the image in an observation is."""
    rows_of_states: Int[np.ndarray, " states"]
    """The row of the table that each state shows."""
    noise_square: tuple[int, int] | None
    """Row and column of the square of the image whose red and green are drawn anew at every step, if there is one."""
    num_states: int
    """How many values `state_index` takes."""
    square_positions: Int[np.ndarray, "squares 2"]
    """Row and column of each square on the map."""
    distances: Int[np.ndarray, "squares squares"]
    """The least number of steps between squares, doors open; -1 where there is no way."""
    model: FiniteModel
    """The world as tables, with its reward ending the episode."""
    reward_free_model: FiniteModel
    """The same, with the reward's square as plain floor: what the entropy ceiling is computed for."""

    @property
    def has_noise(self) -> bool:
        """Whether observations differ from the table."""
        return self.noise_square is not None


class World(NamedTuple):
    """Pure functions and facts."""

    name: str
    num_actions: int
    horizon: int
    """The number of actions after which an episode is over at the latest."""
    observation: ObservationSpec
    reset: Callable[[PRNGKeyArray], tuple[State, Timestep]]
    step: Callable[[PRNGKeyArray, State, Int[Array, ""]], tuple[State, Timestep]]
    """To be called with a state whose episode goes on; `step_and_reset` sees to that."""
    picture: Callable[[State], UInt8[np.ndarray, "height width 3"]]
    """The state as a person would want to see it. Not to be compiled."""
    solved_return: float
    """The mean return from which the world counts as solved."""
    places: Places
    finite: FiniteFacts | None = None
    time_feature: int | None = None
    """The entry of the observation vector that holds the time, where there is one."""
    shortest_episode: int = 1
    """No episode is over after fewer actions than this."""


class Transition(NamedTuple):
    """One action under automatic resets: where it led to, and where the agent goes on from."""

    arrived: Timestep
    """The outcome of the action. Its observation is terminal if the episode is over."""
    current: Timestep
    """What the next action is chosen from: `arrived`, or the first timestep of a new episode."""
    is_first: Bool[Array, ""]
    """Whether `current` starts an episode."""
    arrived_state: State
    """The state arrived in, before any reset: what finite worlds tell their indices of."""


def is_last(timestep: Timestep) -> Bool[Array, "*batch"]:
    """Whether the episode is over, for whatever reason."""
    return timestep.terminated | timestep.truncated


def first_timestep(observation: Shaped[Array, "*shape"]) -> Timestep:
    """What a reset tells."""
    return Timestep(observation, jnp.zeros(()), jnp.zeros((), bool), jnp.zeros((), bool))


def step_and_reset(
    world: World, key: PRNGKeyArray, state: State, action: Int[Array, ""]
) -> tuple[State, Transition]:
    """Takes a step and, if the episode is over, starts the next one. No timestep is lost."""
    step_key, reset_key = jax.random.split(key)
    state_arrived, arrived = world.step(step_key, state, action)
    state_reset, reset = world.reset(reset_key)
    over = is_last(arrived)

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(over, new, old)

    current = jax.tree.map(choose, reset, arrived)
    return jax.tree.map(choose, state_reset, state_arrived), Transition(arrived, current, over, state_arrived)


BINS_EACH_WAY = 30


def bins_of(
    plane: Callable[[State], tuple[Float[Array, ""], Float[Array, ""]]],
    low: tuple[float, float],
    high: tuple[float, float],
) -> Places:
    """30 × 30 bins over two variables of a continuous state; what lies outside counts to the bin at the edge."""

    def index(state: State) -> Int[Array, ""]:
        row, column = (
            jnp.clip((value - start) / (end - start) * BINS_EACH_WAY, 0, BINS_EACH_WAY - 1).astype(int)
            for value, start, end in zip(plane(state), low, high, strict=True)
        )
        return row * BINS_EACH_WAY + column

    return Places(index, BINS_EACH_WAY**2)


def without_reward(world: World) -> World:
    """The same world, in which nothing is earned. What ends its episodes still does."""

    def step(key: PRNGKeyArray, state: State, action: Int[Array, ""]) -> tuple[State, Timestep]:
        state, timestep = world.step(key, state, action)
        return state, timestep._replace(reward=jnp.zeros_like(timestep.reward))

    return world._replace(step=step)


def random_rollout(
    world: World, key: PRNGKeyArray, state: State, num_steps: int
) -> tuple[State, Float[Array, " num_steps"], Bool[Array, " num_steps"]]:
    """A policy that chooses every action alike: its rewards, and where episodes end."""

    def one_step(state: State, key: PRNGKeyArray):
        action_key, world_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, world.num_actions)
        state, transition = step_and_reset(world, world_key, state, action)
        return state, (transition.arrived.reward, transition.is_first)

    state, (rewards, ends) = jax.lax.scan(one_step, state, jax.random.split(key, num_steps))
    return state, rewards, ends

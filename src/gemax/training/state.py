"""All that changes during a run, in one record: what a checkpoint holds."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.networks import Inputs, Memory, Parameters
from gemax.training.centring import Centring
from gemax.types import Tree

RETURNS_KEPT = 1000
"""Over how many of the last episodes the return is averaged."""


class Position(NamedTuple):
    """Where the agent stands in every world, about to act."""

    world: Tree
    """The worlds' own states."""
    seen: Shaped[Array, "worlds *shape"]
    """Row of the table of observations, or the observation itself."""
    inputs: Inputs
    is_first: Bool[Array, " worlds"]
    memory: Memory
    """Before this step."""
    episode_return: Float[Array, " worlds"]
    """What the episode has earned so far."""


class Arrived(NamedTuple):
    """What an action led to, as the agent would see it if it went on: at the end of an episode, before any reset."""

    seen: Shaped[Array, "time worlds *shape"]
    inputs: Inputs


class Window(NamedTuple):
    """The last steps of every world, for the actor-critic. All fields are [time, worlds, ...]."""

    seen: Shaped[Array, "time worlds *shape"]
    inputs: Inputs
    is_first: Bool[Array, "time worlds"]
    memory: Memory
    action: Shaped[Array, "time worlds *parts"]
    log_probability: Float[Array, "time worlds"]
    reward: Float[Array, "time worlds"]
    """Extrinsic and intrinsic, mixed."""
    ends: Bool[Array, "time worlds"]
    bootstraps: Bool[Array, "time worlds"]
    is_valid: Bool[Array, "time worlds"]
    arrived: Arrived | None = None
    """For environments whose time limit is not part of the task: what a cut episode is worth beyond it."""


class Tally(NamedTuple):
    """What was visited and earned."""

    visits: Float[Array, " squares"]
    """Moving average of the number of visits to each square in an update."""
    returns: Float[Array, " kept"]
    """Of the last episodes, in a ring."""
    num_returns: Int[Array, ""]
    """How many episodes were finished since the start."""


class TrainState(NamedTuple):
    """Everything that moves."""

    update: Int[Array, ""]
    key: PRNGKeyArray
    position: Position
    window: Window
    parameters: Parameters
    """Of policy and value."""
    optimiser: Tree
    reward: Tree
    """Of the intrinsic reward."""
    centring: Centring
    tally: Tally


def tally_returns(
    tally: Tally, returns: Float[Array, "time worlds"], ends: Bool[Array, "time worlds"]
) -> Tally:
    """Puts the returns of the episodes that ended into the ring, in order."""
    ended = ends.reshape(-1)
    place = (tally.num_returns + jnp.cumsum(ended) - 1) % RETURNS_KEPT
    # What did not end is written beyond the ring, where it is dropped.
    ring = tally.returns.at[jnp.where(ended, place, RETURNS_KEPT)].set(returns.reshape(-1), mode="drop")
    return tally._replace(returns=ring, num_returns=tally.num_returns + jnp.sum(ended))


def mean_return(tally: Tally) -> Float[Array, ""]:
    """The mean over the last episodes, as many as there were."""
    filled = jnp.arange(RETURNS_KEPT) < tally.num_returns
    return jnp.sum(jnp.where(filled, tally.returns, 0.0)) / jnp.maximum(jnp.sum(filled), 1)


def tally_visits(tally: Tally, square: Int[Array, "time worlds"], decay: float) -> Tally:
    """Moves the average of visits on by an update."""
    counts = jnp.zeros_like(tally.visits).at[square.reshape(-1)].add(1.0)
    return tally._replace(visits=decay * tally.visits + (1.0 - decay) * counts)

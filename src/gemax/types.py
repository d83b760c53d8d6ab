"""The records and the array types that cross the borders between layers."""

from typing import Any, NamedTuple, TypeAlias

import jax
from jaxtyping import Array, Bool, Float, Int, Shaped

Weight: TypeAlias = Float[Array, " N"] | Bool[Array, " N"]
"""How much each of N states counts: a mask, a histogram or a probability. Need not sum to one."""

Metrics: TypeAlias = dict[str, Float[Array, ""]]
"""Numbers to be logged, by name."""

Tree: TypeAlias = Any
"""Arrays in nested records."""


class Timestep(NamedTuple):
    """What a world tells after a reset or an action."""

    observation: Shaped[Array, "*shape"]
    """Of the state arrived in. At the end of an episode it is the terminal one, never that of the next start."""
    reward: Float[Array, ""]
    """What the action earned; 0 after a reset."""
    terminated: Bool[Array, ""]
    """The task is over: there is nothing more to earn."""
    truncated: Bool[Array, ""]
    """Time is over: the episode is cut short. Never true together with `terminated`."""


class Observations(NamedTuple):
    """Many observations. Where they repeat, each distinct one is there once, and steps point at it.

    Whatever depends on an observation alone is computed once a row, then spread out over the steps: the same
    numbers, for a fraction of the work.
    """

    rows: Shaped[Array, "rows *shape"]
    """The distinct observations; without `row`, those of all steps one after the other."""
    row: Int[Array, "time worlds"] | None
    """Which row each step saw; None if every step has a row of its own."""


class Rollout(NamedTuple):
    """What happened in all worlds over some time, in order. All fields are [time, worlds]."""

    seen: Observations
    """What each action was chosen from."""
    arrived: Observations
    """What each action led to: terminal observations, not those of the next start."""
    action: Int[Array, "time worlds"]
    log_probability: Float[Array, "time worlds"]
    """ln π(a) when the action was taken."""
    reward: Float[Array, "time worlds"]
    """The extrinsic one."""
    terminated: Bool[Array, "time worlds"]
    truncated: Bool[Array, "time worlds"]
    is_first: Bool[Array, "time worlds"]
    """Whether what was seen starts an episode."""
    square: Int[Array, "time worlds"]
    """Where each action led to: a square in finite worlds, a bin in others."""


def spread(
    observations: Observations, features: Float[Array, "rows F"], num_worlds: int
) -> Float[Array, "time worlds F"]:
    """Features of the rows, laid out by time and world."""
    if observations.row is None:
        return features.reshape(-1, num_worlds, features.shape[-1])
    return features[observations.row]


def tree_where(condition: Bool[Array, "..."], new: Tree, old: Tree) -> Tree:
    """Chooses between two trees of the same shapes; the condition speaks for leading axes."""

    def choose(one: Array, other: Array) -> Array:
        return jax.numpy.where(
            condition.reshape(condition.shape + (1,) * (one.ndim - condition.ndim)), one, other
        )

    return jax.tree.map(choose, new, old)

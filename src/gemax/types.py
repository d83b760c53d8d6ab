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


class FiniteActions(NamedTuple):
    """Actions that can be counted."""

    sizes: tuple[int, ...]
    """How many choices each part of an action has."""

    @property
    def is_single(self) -> bool:
        """Whether an action is one number, and not one for each part."""
        return len(self.sizes) == 1

    @property
    def num_inputs(self) -> int:
        """Of the network, for the action before."""
        return sum(self.sizes)

    @property
    def num_outputs(self) -> int:
        """Of the policy: a logit a choice."""
        return sum(self.sizes)


class ContinuousActions(NamedTuple):
    """Actions of several numbers from -1 to 1."""

    size: int

    @property
    def num_inputs(self) -> int:
        """Of the network, for the action before."""
        return self.size

    @property
    def num_outputs(self) -> int:
        """Of the policy: a mean and a deviation a number."""
        return 2 * self.size


ActionSpec: TypeAlias = FiniteActions | ContinuousActions
"""What an agent can do."""


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
    action: Shaped[Array, "time worlds *parts"]
    """A number each; in other people's environments also several, or continuous ones. See `ActionSpec`."""
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

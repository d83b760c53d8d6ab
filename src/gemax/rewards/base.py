"""The contract of an intrinsic reward."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from gemax.types import Metrics, Rollout, Tree


class IntrinsicReward(NamedTuple):
    """Pure functions. All that changes lives in the state they pass along.

    `step` pays with what was known before it learns: its reward equals that of `reward`, for the same key.
    """

    init: Callable[[PRNGKeyArray, Shaped[Array, "rows *shape"], int], Tree]
    """`init(key, rows, num_worlds)`: the state before anything was seen, for observations such as these."""
    reward: Callable[[Tree, Rollout, PRNGKeyArray], Float[Array, "time worlds"]]
    """What each action of the rollout is paid for where it led to."""
    step: Callable[[Tree, Rollout, PRNGKeyArray], tuple[Float[Array, "time worlds"], Tree, Metrics]]
    """The same, and learns from the rollout."""
    embed: Callable[[Tree, Float[Array, "rows *shape"]], Float[Array, "rows D"]] | None = None
    """The embedding of observations, where the method has one."""


def no_reward() -> IntrinsicReward:
    """`none`: the extrinsic reward only."""

    def reward(state: Tree, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        return rollout.reward * 0.0

    def step(state: Tree, rollout: Rollout, key: PRNGKeyArray):
        return reward(state, rollout, key), state, {}

    return IntrinsicReward(lambda key, rows, num_worlds: (), reward, step)

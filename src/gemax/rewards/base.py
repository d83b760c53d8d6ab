"""The contract of an intrinsic reward."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

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
    remember: Callable[[Tree, Rollout, Bool[Array, " worlds"]], Tree] | None = None
    """`remember(state, rollout, is_real)`: where the method remembers, its state after one step of some worlds.

    For whoever has to be paid at every step, and learns later: `reward` for the step, `remember` it, and at the end
    `step` for all of them from the state before. Both ways lead to the same memory.
    """


def no_reward() -> IntrinsicReward:
    """`none`: the extrinsic reward only."""

    def reward(state: Tree, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        return rollout.reward * 0.0

    def step(state: Tree, rollout: Rollout, key: PRNGKeyArray):
        return reward(state, rollout, key), state, {}

    return IntrinsicReward(lambda key, rows, num_worlds: (), reward, step)

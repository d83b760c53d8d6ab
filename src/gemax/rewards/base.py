"""The interface of an intrinsic reward."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from gemax.types import Metrics, Transition, Tree


class IntrinsicReward(NamedTuple):
    """An intrinsic reward as pure functions of its state.

    `step` computes the reward before it learns, so `reward` and `step` return the same reward for the same key and a
    refreshed state.
    """

    init: Callable[[PRNGKeyArray, Shaped[Array, "rows *shape"], int], Tree]
    """`init(key, rows, num_envs)`: returns the initial state for observations of this shape."""
    reward: Callable[[Tree, Transition, PRNGKeyArray], Float[Array, "time envs"]]
    """`reward(state, transitions, key)`: returns the intrinsic reward of each transition."""
    step: Callable[[Tree, Transition, PRNGKeyArray], tuple[Float[Array, "time envs"], Tree, Metrics]]
    """`step(state, transitions, key)`: returns the same reward, the state after learning, and metrics."""
    embed: Callable[[Tree, Float[Array, "rows *shape"]], Float[Array, "rows D"]] | None = None
    """`embed(state, rows)`: returns the embedding of observations. None if the method has none."""
    remember: Callable[[Tree, Transition, Bool[Array, " envs"]], Tree] | None = None
    """`remember(state, transitions, is_valid)`: adds one step of the valid environments to the memory.

    An agent that needs a reward at every step calls `reward` and `remember` at each step. To learn, it calls `step`
    with all of these steps and the state before the first of them; the memory is then the same. None if there is no
    memory.
    """
    refresh: Callable[[Tree], Tree] | None = None
    """`refresh(state)`: recomputes what the memory stores of the networks' outputs, after `step` has changed them.

    Only an agent that calls `reward` or `remember` needs it, since `step` does not use stored outputs. None if no
    outputs are stored.
    """
    log_g: Callable[[Tree, Float[Array, "rows *shape"]], Float[Array, " rows"]] | None = None
    """`log_g(state, rows)`: returns ln g of observations, GEM's estimate of ln(1 / p_k). None for other methods."""


def refreshed(reward: IntrinsicReward, state: Tree) -> Tree:
    """Returns the state that `step` returned, ready for `reward` and `remember`."""
    return state if reward.refresh is None else reward.refresh(state)


def no_reward() -> IntrinsicReward:
    """Returns the method `none`: an intrinsic reward of zero."""

    def reward(state: Tree, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        return transitions.reward * 0.0

    def step(state: Tree, transitions: Transition, key: PRNGKeyArray):
        return reward(state, transitions, key), state, {}

    return IntrinsicReward(lambda key, rows, num_envs: (), reward, step)


def hide_feature(rows: Float[Array, "rows *shape"], feature: int | None) -> Float[Array, "rows *shape"]:
    """Returns observation vectors with one entry set to zero, or unchanged if `feature` is None."""
    return rows if feature is None else rows.at[:, feature].set(0.0)


def delegate(inner: IntrinsicReward, field: str):
    """Returns `embed`, `remember`, `refresh` and `log_g` for an outer state that stores the inner state in this field.

    Each is None if the inner reward has none.
    """
    inner_embed, inner_remember, inner_refresh = inner.embed, inner.remember, inner.refresh
    inner_log_g = inner.log_g

    def embed(state: Tree, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        assert inner_embed is not None
        return inner_embed(getattr(state, field), rows)

    def remember(state: Tree, transitions: Transition, is_valid: Bool[Array, " envs"]) -> Tree:
        assert inner_remember is not None
        return state._replace(**{field: inner_remember(getattr(state, field), transitions, is_valid)})

    def refresh(state: Tree) -> Tree:
        assert inner_refresh is not None
        return state._replace(**{field: inner_refresh(getattr(state, field))})

    def log_g(state: Tree, rows: Float[Array, "rows *shape"]) -> Float[Array, " rows"]:
        assert inner_log_g is not None
        return inner_log_g(getattr(state, field), rows)

    return (
        embed if inner_embed else None,
        remember if inner_remember else None,
        refresh if inner_refresh else None,
        log_g if inner_log_g else None,
    )

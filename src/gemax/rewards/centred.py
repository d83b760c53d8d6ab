"""An intrinsic reward that pays nothing for merely being alive.

The paper's episodes have a length that is part of the task: nothing is worth anything after it. Other people's agents
take a time limit for an interruption, and value what would have come after it. A reward of m a step on average is then
worth m / (1 - γ) to whoever never ends an episode: with γ = 0.99 and m = 0.01 as much as a goal of 1, which ends it.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.core.normaliser import Normaliser, init_normaliser, update_normaliser
from gemax.rewards.base import IntrinsicReward
from gemax.types import Rollout, Tree

WINDOW = 20_000
"""Over how many steps the mean runs: longer than any episode should be, shorter than it takes to explore a world."""


class CentredState(NamedTuple):
    """All that changes."""

    inner: Tree
    paid: Normaliser
    """What the inner reward has paid of late."""


def centred(inner: IntrinsicReward, mean: float = 0.0) -> IntrinsicReward:
    """Another intrinsic reward, moved such that it has this mean."""

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> CentredState:
        return CentredState(inner.init(key, rows, num_worlds), init_normaliser())

    def moved(
        paid: Float[Array, "time worlds"], moments: Normaliser
    ) -> tuple[Float[Array, "time worlds"], Normaliser]:
        decay = max(1.0 - paid.size / WINDOW, 0.0)
        following = update_normaliser(moments, paid, jnp.isfinite(paid), decay=decay)
        # Known before, so that a step alone is paid what it would be paid in its rollout. Only the first has to guess.
        known = jnp.where(moments.weight > 0, moments.mean, following.mean)
        return paid - known + mean, following

    def reward(state: CentredState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        return moved(inner.reward(state.inner, rollout, key), state.paid)[0]

    def step(state: CentredState, rollout: Rollout, key: PRNGKeyArray):
        paid, after, metrics = inner.step(state.inner, rollout, key)
        paid, moments = moved(paid, state.paid)
        return paid, CentredState(after, moments), metrics

    def embed(state: CentredState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        assert inner.embed is not None
        return inner.embed(state.inner, rows)

    def remember(state: CentredState, rollout: Rollout, is_real: Bool[Array, " worlds"]) -> CentredState:
        assert inner.remember is not None
        return state._replace(inner=inner.remember(state.inner, rollout, is_real))

    return IntrinsicReward(
        init,
        reward,
        step,
        embed=embed if inner.embed is not None else None,
        remember=remember if inner.remember is not None else None,
    )

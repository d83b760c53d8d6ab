"""Intrinsic rewards made of two: NGU+RND (Badia et al. 2020), diverse within episodes and across them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.core.normaliser import Normaliser, normalise
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.rnd import Distillation, RndState
from gemax.types import Rollout, Tree


class NguRndState(NamedTuple):
    """All that changes: the states of the two."""

    episodic: Tree
    lifelong: RndState


def ngu_rnd(
    episodic: IntrinsicReward, lifelong: Distillation, *, largest_modulator: float = 5.0
) -> IntrinsicReward:
    """The reward of `ngu`, scaled as it is, times the life-long modulator of RND's prediction error.

    `r = r_episodic · min(max(α, 1), L)`, equation 1 of NGU's paper. L is `largest_modulator`.
    """
    if not largest_modulator >= 1:
        raise ValueError(f"largest_modulator must be at least 1, the smallest; got {largest_modulator}.")

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> NguRndState:
        episodic_key, lifelong_key = jax.random.split(key)
        return NguRndState(episodic.init(episodic_key, rows, num_worlds), lifelong.init(lifelong_key, rows))

    def reward(state: NguRndState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        factor = modulator(*lifelong.error(state.lifelong, rollout), largest=largest_modulator)
        return episodic.reward(state.episodic, rollout, key) * factor

    def step(state: NguRndState, rollout: Rollout, key: PRNGKeyArray):
        paid, episodic_state, metrics = episodic.step(state.episodic, rollout, key)
        error, lifelong_state, lifelong_metrics = lifelong.step(state.lifelong, rollout)
        factor = modulator(error, lifelong_state.errors, largest=largest_modulator)
        metrics = metrics | lifelong_metrics | {"modulator": jnp.mean(factor)}
        return paid * factor, NguRndState(episodic_state, lifelong_state), metrics

    return IntrinsicReward(init, reward, step, *_of_the_episodic(episodic))


def _of_the_episodic(episodic: IntrinsicReward):
    """Its embedding and its memory, where it has them, as those of the two."""
    embed, remember = episodic.embed, episodic.remember

    def embed_rows(state: NguRndState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        assert embed is not None
        return embed(state.episodic, rows)

    def remember_step(state: NguRndState, rollout: Rollout, is_real: Bool[Array, " worlds"]) -> NguRndState:
        assert remember is not None
        return state._replace(episodic=remember(state.episodic, rollout, is_real))

    return None if embed is None else embed_rows, None if remember is None else remember_step


def modulator(
    error: Float[Array, "time worlds"], errors: Normaliser, *, largest: float
) -> Float[Array, "time worlds"]:
    """`α = 1 + (err - μ) / σ`, cut to [1, L]: surprising states are paid up to L times, and none is paid less."""
    return jnp.clip(normalise(errors, error, shift=1.0), 1.0, largest)

"""NGU+RND (Badia et al. 2020): an episodic reward modulated by lifelong novelty."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.core.moments import Moments, std
from gemax.rewards.base import IntrinsicReward, delegate
from gemax.rewards.rnd import Distillation, DistillationState
from gemax.types import Transition, Tree


class NguRndState(NamedTuple):
    """The states of both parts."""

    episodic: Tree
    lifelong: DistillationState


def ngu_rnd(
    episodic: IntrinsicReward, lifelong: Distillation, *, max_modulator: float = 5.0
) -> IntrinsicReward:
    """Returns the episodic reward times the modulator of RND's prediction error.

    `r = r_episodic · min(max(α, 1), L)`, equation 1 of NGU's paper. L is `max_modulator`.
    """
    if not max_modulator >= 1:
        raise ValueError(f"max_modulator must be at least 1; got {max_modulator}.")

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> NguRndState:
        episodic_key, lifelong_key = jax.random.split(key)
        return NguRndState(episodic.init(episodic_key, rows, num_envs), lifelong.init(lifelong_key, rows))

    def reward(state: NguRndState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        factor = modulator(*lifelong.error(state.lifelong, transitions), max_modulator)
        return episodic.reward(state.episodic, transitions, key) * factor

    def step(state: NguRndState, transitions: Transition, key: PRNGKeyArray):
        episodic_reward, episodic_state, metrics = episodic.step(state.episodic, transitions, key)
        error, lifelong_state, lifelong_metrics = lifelong.step(state.lifelong, transitions)
        factor = modulator(error, lifelong_state.errors, max_modulator)
        metrics = metrics | lifelong_metrics | {"modulator": jnp.mean(factor)}
        return episodic_reward * factor, NguRndState(episodic_state, lifelong_state), metrics

    return IntrinsicReward(init, reward, step, *delegate(episodic, "episodic"))


def modulator(
    error: Float[Array, "time envs"], errors: Moments, max_modulator: float
) -> Float[Array, "time envs"]:
    """Returns `α = 1 + (err - μ) / σ`, clipped to [1, L]."""
    return jnp.clip((error - errors.mean) / std(errors) + 1.0, 1.0, max_modulator)

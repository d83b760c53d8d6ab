"""An intrinsic reward with a given mean, so that long episodes are not rewarded for their length.

In the paper the horizon is part of the task, and nothing has value after it. Other agents treat a time limit as a
truncation and bootstrap from the value after it. A mean reward of m per step is then worth m / (1 - γ) to a policy that
never ends an episode. With γ = 0.99 and m = 0.01 this is 1, the same as a goal reward of 1 that ends the episode.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.core.moments import Moments, init_moments, update_moments
from gemax.rewards.base import IntrinsicReward, delegate
from gemax.types import Transition, Tree

WINDOW = 20_000
"""Number of steps in the running mean: longer than an episode, shorter than the exploration of an environment."""


class CentredState(NamedTuple):
    """The state of the inner reward and the running moments of that reward."""

    inner: Tree
    reward_moments: Moments


def centred(inner: IntrinsicReward, mean: float = 0.0) -> IntrinsicReward:
    """Returns the inner reward shifted to this mean."""

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> CentredState:
        return CentredState(inner.init(key, rows, num_envs), init_moments())

    def shifted(
        reward: Float[Array, "time envs"], moments: Moments
    ) -> tuple[Float[Array, "time envs"], Moments]:
        decay = max(1.0 - reward.size / WINDOW, 0.0)
        updated = update_moments(moments, reward, jnp.isfinite(reward), decay=decay)
        # The mean excludes this rollout, so that the reward of a step does not depend on the other steps of the
        # rollout. Only the first rollout uses its own mean.
        known_mean = jnp.where(moments.weight > 0, moments.mean, updated.mean)
        return reward - known_mean + mean, updated

    def reward(state: CentredState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        return shifted(inner.reward(state.inner, transitions, key), state.reward_moments)[0]

    def step(state: CentredState, transitions: Transition, key: PRNGKeyArray):
        inner_reward, inner_state, metrics = inner.step(state.inner, transitions, key)
        reward, moments = shifted(inner_reward, state.reward_moments)
        return reward, CentredState(inner_state, moments), metrics

    return IntrinsicReward(init, reward, step, *delegate(inner, "inner"))

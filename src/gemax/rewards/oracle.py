"""The oracle, `sec:sweep2timescale`: the reward is high where the true visit counts, hidden from agents, are low.

`r(x) = -ln count(x)`, where count is a moving average of the visits to the true states. The counts are updated first,
then the reward is computed, as in the paper. Every state of the rollout has then been visited at least once, so there
is no logarithm of zero.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from gemax.core.moments import RunningScale, init_scale, normalise, update_scale
from gemax.rewards.base import IntrinsicReward
from gemax.settings import check_count, check_fraction, check_nonnegative
from gemax.types import Transition


class OracleState(NamedTuple):
    """Everything that changes in the oracle."""

    visits: Float[Array, " states"]
    """Sum of decay^age over all visits. Divided by its sum, it is the moving average as a probability."""
    normaliser: RunningScale


def oracle(num_states: int, scale: float, shift: float, count_decay: float) -> IntrinsicReward:
    """Returns the oracle. Its reward has mean `shift` and standard deviation `scale`.

    Each call of `step` updates the counts. The trainer may update the policy less often, n of `fig:sweep2timescale`.
    """
    check_count("num_states", num_states)
    check_nonnegative("scale", scale)
    check_nonnegative("shift", shift)
    check_fraction("count_decay", count_decay)

    def init(key: PRNGKeyArray, rows: Shaped[Array, "rows *shape"], num_envs: int) -> OracleState:
        return OracleState(jnp.zeros(num_states), init_scale())

    def count_and_reward(state: OracleState, transitions: Transition):
        visits = (count_decay * state.visits).at[transitions.state_index].add(1.0)
        raw = -log_visitation(visits)[transitions.state_index]
        normaliser = update_scale(state.normaliser, raw)
        reward = normalise(normaliser, raw, scale=scale, shift=shift)
        return reward, OracleState(visits, normaliser), raw

    def reward(state: OracleState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        return count_and_reward(state, transitions)[0]

    def step(state: OracleState, transitions: Transition, key: PRNGKeyArray):
        scaled, state, raw = count_and_reward(state, transitions)
        metrics = {
            "raw_reward": jnp.mean(raw),
            "raw_reward_max": jnp.max(raw),
            "raw_reward_std": state.normaliser.std,
        }
        return scaled, state, metrics

    return IntrinsicReward(init, reward, step)


def log_visitation(visits: Float[Array, " states"]) -> Float[Array, " states"]:
    """Returns the log-probability of each state. Counts below 1 are replaced by 1, so that it is finite.

    No reward depends on this, because the states of the rollout have just been counted.
    """
    return jnp.log(jnp.maximum(visits, 1.0)) - jnp.log(jnp.maximum(jnp.sum(visits), 1.0))

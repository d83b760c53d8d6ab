"""The oracle, `sec:sweep2timescale`: pays for arriving where true counts are low. No agent of its own could know them.

`r(x) = -ln count(x)`, with count a moving average of visits to the true squares. First the counts move, then they pay,
as in the scheme that the paper simulates: estimate the distribution, then set the reward to its negative logarithm. The
rollout's own visits are facts, not something learned, and count at once, like its moments. So a square that pays was
visited at least once, there is no logarithm of zero, and the first rollout is paid for by its own shares.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from gemax.core.checks import check_fraction, check_not_negative
from gemax.core.normaliser import Normaliser, deviation, init_normaliser, normalise, update_normaliser
from gemax.rewards.base import IntrinsicReward
from gemax.types import Rollout


@dataclass(frozen=True)
class OracleSettings:
    """What the oracle can be told."""

    scale: float = 0.005
    """s: the standard deviation of the reward that is paid."""
    shift: float = 0.005
    """m: its mean."""
    count_decay: float = 0.99
    normaliser_decay: float = 0.99


class OracleState(NamedTuple):
    """All that changes in the oracle."""

    visits: Float[Array, " squares"]
    """The sum of decay^age over all visits; divided by its own sum, the moving average as a probability."""
    normaliser: Normaliser


def oracle(num_squares: int, settings: OracleSettings) -> IntrinsicReward:
    """The oracle of a world with so many squares.

    Counts move with every call of `step`. That the policy may move more slowly, n of `fig:sweep2timescale`, is the
    trainer's business.
    """
    if num_squares < 1:
        raise ValueError(f"num_squares must be at least 1: the oracle counts squares; got {num_squares}.")
    check_not_negative("scale", settings.scale)
    check_not_negative("shift", settings.shift)
    check_fraction("count_decay", settings.count_decay)

    def init(key: PRNGKeyArray, rows: Shaped[Array, "rows *shape"], num_worlds: int) -> OracleState:
        return OracleState(jnp.zeros(num_squares), init_normaliser())

    def pay(state: OracleState, rollout: Rollout):
        visits = count_visits(state.visits, rollout.square, settings.count_decay)
        raw = -log_probability(visits)[rollout.square]
        normaliser = update_normaliser(state.normaliser, raw, decay=settings.normaliser_decay)
        paid = normalise(normaliser, raw, scale=settings.scale, shift=settings.shift)
        return paid, OracleState(visits, normaliser), raw

    def reward(state: OracleState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        return pay(state, rollout)[0]

    def step(state: OracleState, rollout: Rollout, key: PRNGKeyArray):
        paid, state, raw = pay(state, rollout)
        metrics = {
            "raw_reward": jnp.mean(raw),
            "raw_reward_largest": jnp.max(raw),
            "raw_reward_deviation": deviation(state.normaliser),
        }
        return paid, state, metrics

    return IntrinsicReward(init, reward, step)


def count_visits(
    visits: Float[Array, " squares"], square: Int[Array, "time worlds"], decay: float
) -> Float[Array, " squares"]:
    """Moves the counts on by a rollout: older visits fade, new ones count one each."""
    return (decay * visits).at[square].add(1.0)


def log_probability(visits: Float[Array, " squares"]) -> Float[Array, " squares"]:
    """The logarithm of the share of each square; one that was hardly or never visited is taken for visited once.

    Nobody is paid by that floor, as whoever arrives has just been counted. It keeps the logarithm finite elsewhere.
    """
    return jnp.log(jnp.maximum(visits, 1.0)) - jnp.log(jnp.maximum(jnp.sum(visits), 1.0))

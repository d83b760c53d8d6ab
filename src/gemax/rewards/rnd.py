"""RND, random network distillation (Burda et al. 2018): pays where random features are hard to predict.

`err(x) = mean over outputs of (f̂(x) - f(x))²`, with f a network that stays as it was drawn and f̂ one that learns to
imitate it. Where the agent was often, f̂ has learned; the reward is transient by design.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.core.checks import check_fraction, check_not_negative, check_positive
from gemax.core.expectation import mean, probability_of
from gemax.core.normaliser import Normaliser, deviation, init_normaliser, update_normaliser
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.types import Metrics, Observations, Rollout, Tree, spread

SMALLEST_DEVIATION = 0.01
"""Errors are divided by at least this share of their mean: where all are the same they pay 100, not infinity."""


@dataclass(frozen=True)
class RndSettings:
    """What RND can be told."""

    scale: float = 0.001
    """What the reward is multiplied with, after it was divided by its running deviation."""
    observation_decay: float = 0.95
    """Of the running mean and deviation of the observations."""
    largest_observation: float = 5.0
    """Observations are cut at so many deviations."""
    error_decay: float = 0.95
    """Of the running mean and deviation of the error."""


class Moments(NamedTuple):
    """Running mean and variance of observations, entry by entry. As `Normaliser`, with a shape."""

    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]
    weight: Float[Array, ""]
    """The sum of decay^age over the batches seen."""


class RndState(NamedTuple):
    """All that changes in RND; the target does not, but has to be kept."""

    target: Parameters
    predictor: Parameters
    optimiser: Tree
    observations: Moments
    errors: Normaliser


class Distillation(NamedTuple):
    """Prediction errors as pure functions: what RND and NGU+RND have in common."""

    init: Callable[[PRNGKeyArray, Float[Array, "rows *shape"]], RndState]
    error: Callable[[RndState, Rollout], tuple[Float[Array, "time worlds"], Normaliser]]
    """The error where each action led to, and the errors' moments with these counted in."""
    step: Callable[[RndState, Rollout], tuple[Float[Array, "time worlds"], RndState, Metrics]]
    """The same error, and learns; the state has the same moments."""


def rnd(
    network: Network,
    optimiser: optax.GradientTransformation,
    settings: RndSettings,
    hidden_feature: int | None = None,
) -> IntrinsicReward:
    """RND with target and predictor of this network. The `hidden_feature` of a vector is kept from both."""
    check_not_negative("scale", settings.scale)
    errors = distillation(network, optimiser, settings, hidden_feature)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> RndState:
        return errors.init(key, rows)

    def pay(error: Float[Array, "time worlds"], moments: Normaliser) -> Float[Array, "time worlds"]:
        return settings.scale * error / jnp.maximum(deviation(moments), SMALLEST_DEVIATION * moments.mean)

    def reward(state: RndState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        return pay(*errors.error(state, rollout))

    def step(state: RndState, rollout: Rollout, key: PRNGKeyArray):
        error, state, metrics = errors.step(state, rollout)
        return pay(error, state.errors), state, metrics

    return IntrinsicReward(init, reward, step)


def distillation(
    network: Network,
    optimiser: optax.GradientTransformation,
    settings: RndSettings,
    hidden_feature: int | None = None,
) -> Distillation:
    """The prediction error and how it is learned from, before any reward is made of it."""
    check_fraction("observation_decay", settings.observation_decay)
    check_fraction("error_decay", settings.error_decay)
    check_positive("largest_observation", settings.largest_observation)

    def prepare(rows: Float[Array, "rows *shape"]) -> Float[Array, "rows *shape"]:
        return rows if hidden_feature is None else rows.at[:, hidden_feature].set(0.0)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> RndState:
        target_key, predictor_key = jax.random.split(key)
        rows = prepare(rows[:1])
        predictor = network.init(predictor_key, rows)
        return RndState(
            target=network.init(target_key, rows),
            predictor=predictor,
            optimiser=optimiser.init(predictor),
            observations=init_moments(rows[0]),
            errors=init_normaliser(),
        )

    def see(state: RndState, rollout: Rollout) -> tuple[Observations, Moments]:
        """The rollout's observations, normalised. It counts at once: RND would have run a random agent before."""
        rows = prepare(rollout.arrived.rows)
        moments = update_moments(
            state.observations, rows, visits_of(rollout.arrived), decay=settings.observation_decay
        )
        rows = normalise_observations(moments, rows, largest=settings.largest_observation)
        return rollout.arrived._replace(rows=rows), moments

    def loss(predictor: Parameters, target: Parameters, seen: Observations):
        # Rows that repeat are predicted once, and weigh as much as they were visited.
        difference = network.apply(predictor, seen.rows) - network.apply(target, seen.rows)
        errors = jnp.mean(difference**2, axis=-1)
        return mean(errors, None if seen.row is None else visits_of(seen)), errors

    def count(state: RndState, errors: Float[Array, "time worlds"]) -> Normaliser:
        return update_normaliser(state.errors, errors, jnp.isfinite(errors), decay=settings.error_decay)

    def error(state: RndState, rollout: Rollout) -> tuple[Float[Array, "time worlds"], Normaliser]:
        seen, _ = see(state, rollout)
        errors = at_steps(seen, loss(state.predictor, state.target, seen)[1], rollout.reward.shape[1])
        return errors, count(state, errors)

    def step(state: RndState, rollout: Rollout) -> tuple[Float[Array, "time worlds"], RndState, Metrics]:
        seen, moments = see(state, rollout)
        gradient_of = jax.value_and_grad(loss, has_aux=True)
        (total, errors), gradient = gradient_of(state.predictor, state.target, seen)
        errors = at_steps(seen, errors, rollout.reward.shape[1])
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.predictor)
        state = RndState(
            target=state.target,
            predictor=optax.apply_updates(state.predictor, updates),
            optimiser=optimiser_state,
            observations=moments,
            errors=count(state, errors),
        )
        metrics = {
            "rnd_loss": total,
            "prediction_error_largest": jnp.max(errors),
            "prediction_error_deviation": deviation(state.errors),
        }
        return errors, state, metrics

    return Distillation(init, error, step)


def at_steps(
    observations: Observations, numbers: Float[Array, " rows"], num_worlds: int
) -> Float[Array, "time worlds"]:
    """A number of each row, laid out by time and world."""
    return spread(observations, numbers[:, None], num_worlds)[..., 0]


def visits_of(observations: Observations) -> Float[Array, " rows"]:
    """How often each row was visited."""
    num_rows = observations.rows.shape[0]
    if observations.row is None:
        return jnp.ones(num_rows)
    return jnp.zeros(num_rows).at[observations.row].add(1.0)


def init_moments(row: Float[Array, "*shape"]) -> Moments:
    """Nothing seen yet. The mean starts at an observation, without weight: entries that never change stay exact."""
    return Moments(row.astype(float), jnp.ones(row.shape), jnp.zeros(()))


def update_moments(
    moments: Moments, rows: Float[Array, "rows *shape"], visits: Float[Array, " rows"], *, decay: float
) -> Moments:
    """Takes in one batch, in which each row counts as often as it was visited. Every batch counts alike.

    Bias-corrected, as in `core.normaliser`: after one batch the moments are those of the batch.
    """
    differences = rows - moments.mean[None]
    # Not asked of the rows, which may be constants: XLA would take seconds to find out for itself.
    is_finite = jnp.isfinite(differences).all(axis=tuple(range(1, rows.ndim)))
    share = probability_of(jnp.where(is_finite, visits, 0.0))
    share = share.reshape((-1,) + (1,) * (rows.ndim - 1))
    # A mean of differences from the old mean: where nothing differs it is exactly zero.
    surprise = _sum(share, differences)
    batch_variance = _sum(share, (rows - (moments.mean + surprise)[None]) ** 2)
    weight = decay * moments.weight + 1.0
    step_size = 1.0 / weight
    updated = Moments(
        mean=moments.mean + step_size * surprise,
        variance=(1.0 - step_size) * (moments.variance + step_size * surprise**2)
        + step_size * batch_variance,
        weight=weight,
    )
    is_empty = ~jnp.any(share > 0)
    return Moments(*(jnp.where(is_empty, old, new) for old, new in zip(moments, updated, strict=True)))


def normalise_observations(
    moments: Moments, rows: Float[Array, "rows *shape"], *, largest: float
) -> Float[Array, "rows *shape"]:
    """`(x - μ) / σ`, cut at so many deviations. σ is never smaller than what rounding alone produces."""
    sigma = jnp.maximum(jnp.sqrt(moments.variance), 1e-6 + 1e-5 * jnp.abs(moments.mean))
    return jnp.clip((rows - moments.mean[None]) / sigma[None], -largest, largest)


def _sum(share: Float[Array, "rows *ones"], values: Float[Array, "rows *shape"]) -> Float[Array, "*shape"]:
    """The weighted sum over rows; what has no share may be anything."""
    return jnp.sum(jnp.where(share > 0, values, 0.0) * share, axis=0)

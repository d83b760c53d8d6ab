"""RND, random network distillation (Burda et al. 2018): the reward is the error of predicting random features.

`err(x) = mean over outputs of (f̂(x) - f(x))²`, where f is a network with random weights that never change, and f̂ learns
to predict it. The error is low where the agent has been often. The reward is transient by design.

The error is divided by a running standard deviation. Burda et al., section 2.4, take that of the intrinsic *return*,
`R ← γ R + err`, which runs on across episodes. The other reading is that of the error itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.core.expectation import mean
from gemax.core.moments import Moments, init_moments, std, update_moments, update_row_moments
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward, hide_feature
from gemax.rewards.config import RndDivisor
from gemax.rewards.running_std import MIN_RELATIVE_STD
from gemax.settings import Fraction, Positive, check_fields, check_nonnegative
from gemax.types import Metrics, Observations, Transition, Tree, gather


@dataclass(frozen=True)
class RndSettings:
    """Settings of RND's normalisation."""

    observation_decay: Fraction = 0.95
    """Decay of the running moments of the observations."""
    max_observation: Positive = 5.0
    """Observations are clipped at this many standard deviations."""
    error_decay: Fraction = 0.95
    """Decay of the running moments of the error."""
    divisor: RndDivisor = "return"
    """Divide the error by the standard deviation of the intrinsic return, or by its own."""
    return_discount: Fraction = 0.99
    """Discount γ of the intrinsic return."""
    return_decay: Fraction = 1.0
    """Decay of the running moments of the intrinsic return. Burda et al. have none, Guo et al. have 0.95."""


class DistillationState(NamedTuple):
    """The constant target network, and everything that changes when the predictor learns."""

    target: Parameters
    predictor: Parameters
    opt_state: Tree
    observations: Moments
    """Running moments of the next observations."""
    errors: Moments
    """Running moments of the prediction errors."""


class RndState(NamedTuple):
    """Everything that changes in RND."""

    distillation: DistillationState
    intrinsic_return: Float[Array, " envs"]
    """Discounted sum of the errors up to now."""
    return_moments: Moments
    """Running moments of the intrinsic return."""


class Distillation(NamedTuple):
    """The prediction error as pure functions, shared by RND and NGU+RND."""

    init: Callable[[PRNGKeyArray, Float[Array, "rows *shape"]], DistillationState]
    error: Callable[[DistillationState, Transition], tuple[Float[Array, "time envs"], Moments]]
    """Returns the error of each next observation, and the running moments with these errors included."""
    step: Callable[
        [DistillationState, Transition], tuple[Float[Array, "time envs"], DistillationState, Metrics]
    ]
    """Returns the same error, the state after learning from the rollout, and metrics."""


def rnd(
    network: Network,
    optimiser: optax.GradientTransformation,
    scale: float,
    settings: RndSettings,
    ignored_feature: int | None = None,
) -> IntrinsicReward:
    """Returns RND: the error over its divisor, times the scale.

    `network` is the architecture of target and predictor. They do not see the entry `ignored_feature` of observation
    vectors.
    """
    check_nonnegative("scale", scale)
    errors = distillation(network, optimiser, settings, ignored_feature)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> RndState:
        return RndState(errors.init(key, rows), jnp.zeros(num_envs), init_moments())

    def scaled(
        state: RndState, error: Float[Array, "time envs"], error_moments: Moments
    ) -> tuple[Float[Array, "time envs"], RndState]:
        """Returns the reward, and the state with the intrinsic return after the rollout."""
        moments = error_moments
        if settings.divisor == "return":
            is_finite = jnp.isfinite(error)
            returns = discounted_sums(
                state.intrinsic_return, jnp.where(is_finite, error, 0.0), settings.return_discount
            )
            # The moments include this rollout, as in the authors' code.
            moments = update_moments(state.return_moments, returns, is_finite, decay=settings.return_decay)
            state = state._replace(intrinsic_return=returns[-1], return_moments=moments)
        return scale * error / jnp.maximum(std(moments), MIN_RELATIVE_STD * moments.mean), state

    def reward(state: RndState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        return scaled(state, *errors.error(state.distillation, transitions))[0]

    def step(state: RndState, transitions: Transition, key: PRNGKeyArray):
        error, learned, metrics = errors.step(state.distillation, transitions)
        reward, state = scaled(state, error, learned.errors)
        if settings.divisor == "return":
            metrics = metrics | {"intrinsic_return_std": std(state.return_moments)}
        return reward, state._replace(distillation=learned), metrics

    return IntrinsicReward(init, reward, step)


def discounted_sums(
    start: Float[Array, " envs"], values: Float[Array, "time envs"], discount: float
) -> Float[Array, "time envs"]:
    """Returns the discounted sum of the values up to each step, `R_t = γ R_(t-1) + x_t`."""

    def add(total: Float[Array, " envs"], value: Float[Array, " envs"]):
        total = discount * total + value
        return total, total

    return jax.lax.scan(add, start, values)[1]


def distillation(
    network: Network,
    optimiser: optax.GradientTransformation,
    settings: RndSettings,
    ignored_feature: int | None = None,
) -> Distillation:
    """Returns the functions that compute the unscaled prediction error and train the predictor."""
    check_fields(settings)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> DistillationState:
        target_key, predictor_key = jax.random.split(key)
        rows = hide_feature(rows[:1], ignored_feature)
        predictor = network.init(predictor_key, rows)
        return DistillationState(
            target=network.init(target_key, rows),
            predictor=predictor,
            opt_state=optimiser.init(predictor),
            observations=init_row_moments(rows[0]),
            errors=init_moments(),
        )

    def normalised(state: DistillationState, transitions: Transition) -> tuple[Observations, Moments]:
        """Returns the normalised next observations, and the updated moments.

        The moments include this rollout. In the RND paper, a random agent initialises the moments instead.
        """
        observations = transitions.next_observation
        rows = hide_feature(observations.rows, ignored_feature)
        moments = update_row_moments(
            state.observations, rows, num_visits(observations), decay=settings.observation_decay
        )
        return observations._replace(rows=normalise_rows(moments, rows, settings.max_observation)), moments

    def loss(predictor: Parameters, target: Parameters, observations: Observations):
        # Distinct rows are predicted once and weighted by their visits.
        difference = network.apply(predictor, observations.rows) - network.apply(target, observations.rows)
        errors = jnp.mean(difference**2, axis=-1)
        return mean(errors, None if observations.row_index is None else num_visits(observations)), errors

    def updated_errors(state: DistillationState, errors: Float[Array, "time envs"]) -> Moments:
        return update_moments(state.errors, errors, jnp.isfinite(errors), decay=settings.error_decay)

    def error(state: DistillationState, transitions: Transition) -> tuple[Float[Array, "time envs"], Moments]:
        observations, _ = normalised(state, transitions)
        _, errors = loss(state.predictor, state.target, observations)
        errors = gather_scalars(observations, errors, transitions.reward.shape[1])
        return errors, updated_errors(state, errors)

    def step(
        state: DistillationState, transitions: Transition
    ) -> tuple[Float[Array, "time envs"], DistillationState, Metrics]:
        observations, moments = normalised(state, transitions)
        grad_fn = jax.value_and_grad(loss, has_aux=True)
        (total, errors), gradient = grad_fn(state.predictor, state.target, observations)
        errors = gather_scalars(observations, errors, transitions.reward.shape[1])
        updates, opt_state = optimiser.update(gradient, state.opt_state, state.predictor)
        state = state._replace(
            predictor=optax.apply_updates(state.predictor, updates),
            opt_state=opt_state,
            observations=moments,
            errors=updated_errors(state, errors),
        )
        metrics = {
            "rnd_loss": total,
            "prediction_error_max": jnp.max(errors),
            "prediction_error_std": std(state.errors),
        }
        return errors, state, metrics

    return Distillation(init, error, step)


def gather_scalars(
    observations: Observations, values: Float[Array, " rows"], num_envs: int
) -> Float[Array, "time envs"]:
    """Returns the value of each step's row. Like `gather`, for one number per row."""
    return gather(observations, values[:, None], num_envs)[..., 0]


def num_visits(observations: Observations) -> Float[Array, " rows"]:
    """Returns the number of visits to each row."""
    num_rows = observations.rows.shape[0]
    if observations.row_index is None:
        return jnp.ones(num_rows)
    return jnp.zeros(num_rows).at[observations.row_index].add(1.0)


def init_row_moments(row: Float[Array, "*shape"]) -> Moments:
    """Returns initial moments with this observation as mean, so that the mean of constant entries is exact."""
    return init_moments(row.shape)._replace(mean=row.astype(float))


def normalise_rows(
    moments: Moments, rows: Float[Array, "rows *shape"], max_observation: float
) -> Float[Array, "rows *shape"]:
    """Returns `(x - μ) / σ`, clipped at `max_observation`."""
    standardised = (rows - moments.mean[None]) / std(moments)[None]
    return jnp.clip(standardised, -max_observation, max_observation)

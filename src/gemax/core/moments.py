"""Running mean and variance, of rewards and of observations.

All updates are bias-corrected: after the first batch, the moments equal the moments of that batch. The three update
functions average a batch in different ways, with different rounding errors, and are therefore separate.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from gemax.core.checks import check_same_shape, check_weight
from gemax.core.expectation import probability_of
from gemax.settings import check_fraction
from gemax.types import tree_where

MAX_STANDARDISED = 10.0
"""`standardise` clips at this many standard deviations from the mean."""


class Moments(NamedTuple):
    """Exponential running moments. They carry their own weight, so the initial values are never mixed in."""

    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]
    weight: Float[Array, ""]
    """Sum of decay^age over all batches: 1 after the first batch, 1 / (1 - decay) in the long run."""


def init_moments(shape: tuple[int, ...] = ()) -> Moments:
    """Returns the moments before the first batch: mean 0, variance 1 and weight 0."""
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.zeros(()))


def update_moments(
    moments: Moments,
    values: Float[Array, "*shape"],
    mask: Bool[Array, "*shape"] | None = None,
    *,
    decay: float = 0.99,
) -> Moments:
    """Adds one batch of scalars to scalar moments. Inside `jit`, an empty mask leaves the moments unchanged.

    All batches have the same weight, whatever their size. The variance includes the drift of the batch means.
    """
    check_fraction("decay", decay)
    check_same_shape(values=values, mask=mask)
    if mask is None:
        mask = jnp.ones(values.shape, bool)
    check_weight(mask, "mask")
    share = mask / jnp.maximum(jnp.sum(mask), 1)
    values = jnp.where(mask, values, 0.0)
    batch_mean = jnp.sum(values * share)
    batch_variance = jnp.sum(share * (values - batch_mean) ** 2)
    updated = _merge(moments, batch_mean - moments.mean, batch_variance, decay)
    return tree_where(jnp.any(mask), updated, moments)


class RunningScale(NamedTuple):
    """Exponential running averages of the mean and of the standard deviation of batches.

    Unlike the variance of `Moments`, this standard deviation excludes the drift of the batch means.
    """

    mean: Float[Array, ""]
    std: Float[Array, ""]
    weight: Float[Array, ""]
    """Sum of decay^age over all batches."""


def init_scale() -> RunningScale:
    """Returns the averages before the first batch: mean 0, standard deviation 1 and weight 0."""
    return RunningScale(jnp.zeros(()), jnp.ones(()), jnp.zeros(()))


def update_scale(
    scale: RunningScale,
    values: Float[Array, "*shape"],
    mask: Bool[Array, "*shape"] | None = None,
    *,
    decay: float = 0.99,
) -> RunningScale:
    """Adds one batch. Inside `jit`, an empty mask leaves the averages unchanged."""
    batch = update_moments(init_moments(), values, mask)
    weight = decay * scale.weight + 1.0
    updated = RunningScale(
        scale.mean + (batch.mean - scale.mean) / weight,
        scale.std + (jnp.sqrt(batch.variance) - scale.std) / weight,
        weight,
    )
    return tree_where(batch.weight > 0, updated, scale)


def normalise(
    running: RunningScale, values: Float[Array, "*shape"], *, scale: float = 1.0, shift: float = 0.0
) -> Float[Array, "*shape"]:
    """Returns `(r - μ) / σ · s + m`. σ is at least the rounding error of the mean, so that noise is not amplified."""
    std = jnp.maximum(running.std, _min_std(running.mean))
    return (values - running.mean) / std * scale + shift


def update_row_moments(
    moments: Moments, rows: Float[Array, "rows *shape"], visits: Float[Array, " rows"], *, decay: float
) -> Moments:
    """Adds one batch of observations, each row weighted by its number of visits. Non-finite rows are left out.

    Entries that are the same in all rows keep their mean exactly.
    """
    differences = rows - moments.mean[None]
    # Computed from the differences: rows may be constants, and XLA would spend seconds on folding them.
    is_finite = jnp.isfinite(differences).all(axis=tuple(range(1, rows.ndim)))
    share = probability_of(jnp.where(is_finite, visits, 0.0))
    share = share.reshape((-1,) + (1,) * (rows.ndim - 1))
    # A mean of differences from the old mean is exactly zero for constant entries.
    shift = _weighted_sum(share, differences)
    batch_variance = _weighted_sum(share, (rows - (moments.mean + shift)[None]) ** 2)
    updated = _merge(moments, shift, batch_variance, decay)
    return tree_where(jnp.any(share > 0), updated, moments)


def update_observation_moments(moments: Moments, batch: Shaped[Array, "batch *shape"]) -> Moments:
    """Adds one batch of observations, entry by entry, without decay: all batches so far have the same weight."""
    batch = batch.astype(float)
    return _merge(moments, batch.mean(axis=0) - moments.mean, batch.var(axis=0), decay=1.0)


def table_moments(rows: Shaped[Array, "rows *shape"]) -> Moments:
    """Returns the moments of a table of all observations: the mean of each entry, and one variance for all entries."""
    rows = rows.astype(float)
    variance = jnp.mean(jnp.var(rows, axis=0))
    return Moments(rows.mean(axis=0), jnp.full(rows.shape[1:], variance), jnp.ones(()))


def std(moments: Moments) -> Float[Array, "*shape"]:
    """Returns σ, but at least the rounding error of the mean, so that a division by it does not amplify noise."""
    return jnp.maximum(jnp.sqrt(moments.variance), _min_std(moments.mean))


def standardise(moments: Moments, observations: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Returns observations with mean 0 and standard deviation 1, clipped. Any leading axes are batch axes.

    Without it, networks learn slowly from the images of a map, because these are almost equal to each other.
    """
    batch_axes = (1,) * (observations.ndim - moments.mean.ndim)
    mean = moments.mean.reshape(batch_axes + moments.mean.shape)
    sigma = jnp.sqrt(moments.variance + 1e-8).reshape(batch_axes + moments.mean.shape)
    return jnp.clip((observations.astype(float) - mean) / sigma, -MAX_STANDARDISED, MAX_STANDARDISED)


def _min_std(mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return 1e-6 + 1e-5 * jnp.abs(mean)


def _merge(
    moments: Moments, shift: Float[Array, "*shape"], batch_variance: Float[Array, "*shape"], decay: float
) -> Moments:
    """Returns the moments after a batch with mean `moments.mean + shift`: a step of 1 / weight towards the batch."""
    weight = decay * moments.weight + 1.0
    step_size = 1.0 / weight
    mean = moments.mean + step_size * shift
    variance = (1.0 - step_size) * (moments.variance + step_size * shift**2) + step_size * batch_variance
    # An absurd value, whose square overflows, would otherwise stay in the variance for good.
    is_finite = jnp.isfinite(mean) & jnp.isfinite(variance)
    return Moments(
        jnp.where(is_finite, mean, moments.mean),
        jnp.where(is_finite, variance, moments.variance),
        jnp.where(jnp.any(is_finite), weight, moments.weight),
    )


def _weighted_sum(
    share: Float[Array, "rows *ones"], values: Float[Array, "rows *shape"]
) -> Float[Array, "*shape"]:
    """Returns the sum over the rows. Rows with share 0 may be NaN."""
    return jnp.sum(jnp.where(share > 0, values, 0.0) * share, axis=0)

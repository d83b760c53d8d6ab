"""Running mean and deviation of a reward, to standardise it, then scale and shift it."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.core.checks import check_fraction, check_same_shape, check_weight


class Normaliser(NamedTuple):
    """Exponential running moments. Carries its own weight, so that no start value is ever mixed in."""

    mean: Float[Array, ""]
    variance: Float[Array, ""]
    weight: Float[Array, ""]
    """The sum of decay^age over the batches seen: 1 after the first, 1 / (1 - decay) in the long run."""


def init_normaliser() -> Normaliser:
    """Nothing seen yet: leaves values as they are."""
    return Normaliser(mean=jnp.zeros(()), variance=jnp.ones(()), weight=jnp.zeros(()))


def update_normaliser(
    normaliser: Normaliser,
    values: Float[Array, "*shape"],
    mask: Bool[Array, "*shape"] | None = None,
    *,
    decay: float = 0.99,
) -> Normaliser:
    """Takes in one batch; every batch counts alike, and inside `jit` an empty one not at all.

    The step size is 1 / weight, which makes the moments equal to bias-corrected moving averages: after one
    batch they are those of the batch. The variance includes how the mean of the batches moves.
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

    weight = decay * normaliser.weight + 1.0
    step_size = 1.0 / weight
    surprise = batch_mean - normaliser.mean
    updated = Normaliser(
        mean=normaliser.mean + step_size * surprise,
        variance=(1.0 - step_size) * (normaliser.variance + step_size * surprise**2)
        + step_size * batch_variance,
        weight=weight,
    )
    is_empty = ~jnp.any(mask)
    return Normaliser(*(jnp.where(is_empty, old, new) for old, new in zip(normaliser, updated, strict=True)))


def deviation(normaliser: Normaliser) -> Float[Array, ""]:
    """σ, never smaller than what rounding alone produces: a constant reward is not blown up into noise."""
    return jnp.maximum(jnp.sqrt(normaliser.variance), 1e-6 + 1e-5 * jnp.abs(normaliser.mean))


def normalise(
    normaliser: Normaliser, values: Float[Array, "*shape"], *, scale: float = 1.0, shift: float = 0.0
) -> Float[Array, "*shape"]:
    """`(r - μ) / σ · s + m`."""
    return (values - normaliser.mean) / deviation(normaliser) * scale + shift

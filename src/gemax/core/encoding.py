"""Soft one-hot encoding of numbers."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.settings import check_positive


def soft_one_hot(
    values: Float[Array, "*shape"], num_buckets: int, low: float, high: float
) -> Float[Array, "*shape num_buckets"]:
    """Returns `exp(-|b_i - n y|)` with y = (x - low) / (high - low) and bucket centres b = 0.5, 1.5 … n - 0.5.

    `alg:soft1h`, interpreted such that y and the buckets have the same scale (paper notes, row 9).
    """
    check_positive("num_buckets", num_buckets)
    if not low < high:
        raise ValueError(f"low must be less than high; got low {low} and high {high}.")
    position = num_buckets * (values - low) / (high - low)
    centres = jnp.arange(num_buckets) + 0.5
    return jnp.exp(-jnp.abs(jnp.subtract.outer(position, centres)))

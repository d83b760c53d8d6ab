"""Soft one-hot: a number as smooth bumps over buckets, which networks read more easily than the number."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_positive


def soft_one_hot(
    values: Float[Array, "*shape"], num_buckets: int, low: float, high: float
) -> Float[Array, "*shape num_buckets"]:
    """`exp(-|b_i - n y|)` with y = (x - low) / (high - low) and b = 0.5, 1.5 … n - 0.5.

    `alg:soft1h`, in the reading in which the scales of y and of the buckets agree (paper notes, row 9).
    """
    check_positive("num_buckets", num_buckets)
    if not low < high:
        raise ValueError(f"low must lie below high; got low {low} and high {high}.")
    position = num_buckets * (values - low) / (high - low)
    centres = jnp.arange(num_buckets) + 0.5
    return jnp.exp(-jnp.abs(jnp.subtract.outer(position, centres)))

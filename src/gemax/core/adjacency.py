"""The adjacency regulariser keeps consecutive states close in the embedding."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_same_shape
from gemax.core.expectation import mean
from gemax.core.similarity import safe_root
from gemax.settings import check_nonnegative, check_positive
from gemax.types import Weight


def adjacency_regulariser(
    embedding_t: Float[Array, "N D"],
    embedding_tp1: Float[Array, "N D"],
    weight: Weight | None = None,
    *,
    huber_offset: float = 1.0,
    huber_exponent: float = 4.0,
) -> Float[Array, ""]:
    """Returns a generalised pseudo-Huber loss of the distance between consecutive embeddings. To be minimised.

    `alg:arloss`:  mean of (δ^q + ‖f(x_t) - f(x_{t+1})‖^q)^(1/q)

    δ is the `huber_offset`: distances below it cost almost nothing. q is the `huber_exponent`. The weight masks
    pairs that are not consecutive, such as those across a reset or in padding.
    """
    check_nonnegative("huber_offset", huber_offset)
    check_positive("huber_exponent", huber_exponent)
    check_same_shape(embedding_t=embedding_t, embedding_tp1=embedding_tp1)
    distance = safe_root(jnp.sum((embedding_t - embedding_tp1) ** 2, axis=-1))
    check_same_shape(distance=distance, weight=weight)
    return mean(pseudo_huber(distance, huber_offset, huber_exponent), weight)


def pseudo_huber(
    distance: Float[Array, " N"], huber_offset: float, huber_exponent: float
) -> Float[Array, " N"]:
    """Returns `(δ^q + d^q)^(1/q)`, which is nearly constant for d < δ and nearly linear for d > δ."""
    if huber_offset < jnp.finfo(distance.dtype).tiny:
        return distance
    # Dividing by the larger of d and δ avoids overflow of d^q. It changes neither the value nor the gradient.
    larger = jax.lax.stop_gradient(jnp.maximum(distance, huber_offset))
    offset_power = (huber_offset / larger) ** huber_exponent
    positive = distance > 0
    distance_power = jnp.where(positive, (jnp.where(positive, distance, 1.0) / larger) ** huber_exponent, 0.0)
    return larger * (offset_power + distance_power) ** (1.0 / huber_exponent)

"""The adjacency regulariser: states one step apart in time stay close in the embedding."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_not_negative, check_positive, check_same_shape, check_weight
from gemax.core.expectation import mean
from gemax.core.similarity import safe_root
from gemax.types import Weight


def adjacency_regulariser(
    embedding_t: Float[Array, "N D"],
    embedding_tp1: Float[Array, "N D"],
    weight: Weight | None = None,
    *,
    huber_offset: float = 1.0,
    huber_exponent: float = 4.0,
) -> Float[Array, ""]:
    """How far the embedding pulls apart what time joins: a generalised pseudo-Huber loss, to be minimised.

    `alg:arloss`:  mean of (δ^q + ‖f(x_t) - f(x_{t+1})‖^q)^(1/q)

    δ is the `huber_offset`: steps shorter than it cost hardly anything. q is the `huber_exponent`. The weight
    masks pairs that are not a step: across a reset, or in padding.
    """
    check_not_negative("huber_offset", huber_offset)
    check_positive("huber_exponent", huber_exponent)
    check_same_shape(embedding_t=embedding_t, embedding_tp1=embedding_tp1)
    if weight is not None and weight.shape != embedding_t.shape[:1]:
        raise ValueError(
            f"weight must have one entry for each of {embedding_t.shape[0]} steps; got {weight.shape}."
        )
    check_weight(weight)
    distance = safe_root(jnp.sum((embedding_t - embedding_tp1) ** 2, axis=-1))
    return mean(pseudo_huber(distance, huber_offset, huber_exponent), weight)


def pseudo_huber(
    distance: Float[Array, " N"], huber_offset: float, huber_exponent: float
) -> Float[Array, " N"]:
    """`(δ^q + d^q)^(1/q)`: flat below δ, linear above it."""
    if huber_offset < jnp.finfo(distance.dtype).tiny:
        return distance
    # Dividing by the larger of the two keeps d^q in range, and changes neither the value nor the gradient.
    larger = jax.lax.stop_gradient(jnp.maximum(distance, huber_offset))
    offset_power = (huber_offset / larger) ** huber_exponent
    positive = distance > 0
    distance_power = jnp.where(positive, (jnp.where(positive, distance, 1.0) / larger) ** huber_exponent, 0.0)
    return larger * (offset_power + distance_power) ** (1.0 / huber_exponent)

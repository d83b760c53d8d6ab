"""Expectations over the states of a batch and over the negatives x' of each state.

The objective needs two expectations over the negatives of a state x: `E[k(x, x')]` and `E[k(x, x') g(x')]`. In the
exact form, every state of the other batch is a negative; this has no sampling noise and is a matrix product with a
histogram. In the sampled form, `n_neg` negatives are drawn per state, as in the paper.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.checks import check_same_shape, check_similarity, check_weight, is_concrete
from gemax.core.similarity_products import (
    exponential_product,
    exponential_product_among,
    exponential_products_between,
)
from gemax.types import Weight

OtherWeight: TypeAlias = Float[Array, " M"] | Bool[Array, " M"]
"""Like `Weight`, for the M states of the other batch."""


class Contrast(NamedTuple):
    """The expectations over the negatives x' of each state x."""

    similarity: Float[Array, " N"]
    """`E[k(x, x')]`: the similarity profile of the negatives, evaluated at x."""
    similarity_g: Float[Array, " N"]
    """`E[k(x, x') g(x')^(2-α)]`; α = 1 for Shannon. See `objective.g_power`."""


def mean(values: Float[Array, " N"], weight: Weight | None = None) -> Float[Array, ""]:
    """Returns the weighted mean. Inside `jit`, the result is 0 instead of NaN if all weights are zero."""
    if weight is None:
        return jnp.mean(values)
    check_same_shape(values=values, weight=weight)
    check_weight(weight)
    # Masked values may be infinite or NaN, so they are replaced before the product.
    return jnp.sum(jnp.where(weight > 0, values, 0.0) * probability_of(weight))


def probability_of(weight: Weight) -> Float[Array, " N"]:
    """Returns the weights scaled to sum to 1, or zeros if all are zero."""
    weight = weight.astype(float)
    return weight / jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)


def exact_contrast(
    similarity: Float[Array, "N M"], g_power: Float[Array, " M"], weight: OtherWeight | None = None
) -> Contrast:
    """Computes the expectations over all M states of the other batch, weighted by their number of visits.

    With K the similarity matrix and h the histogram: `E[k(x, x')] = K h` and `E[k(x, x') g(x')] = K (h·g)`.
    """
    _check_negatives(similarity.shape[1], g_power, weight)
    check_similarity(similarity)
    return _contrast(similarity @ _columns(g_power, weight))


def exact_contrast_of_points(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    g_power: Float[Array, " M"],
    weight: OtherWeight | None = None,
    *,
    similarity_scale: float = 1.0,
) -> Contrast:
    """Computes `exact_contrast` for the exponential similarity of points, without storing the N × M matrix."""
    _check_negatives(others.shape[0], g_power, weight)
    return _contrast(exponential_product(points, others, _columns(g_power, weight), scale=similarity_scale))


def exact_contrasts_among(
    points: Float[Array, "N D"],
    g_power: Float[Array, " N"],
    weights: Sequence[Weight],
    *,
    similarity_scale: float = 1.0,
) -> list[Contrast]:
    """Computes `exact_contrast` of points with themselves for several weights, using one similarity matrix."""
    for weight in weights:
        _check_negatives(points.shape[0], g_power, weight)
    columns = jnp.concatenate([_columns(g_power, weight) for weight in weights], axis=1)
    product = exponential_product_among(points, columns, scale=similarity_scale)
    return [_contrast(product[:, 2 * i : 2 * i + 2]) for i in range(len(weights))]


def exact_contrasts_between(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    g_powers: tuple[Float[Array, " N"], Float[Array, " M"]],
    *,
    similarity_scale: float = 1.0,
) -> tuple[Contrast, Contrast]:
    """Computes `exact_contrast` of two batches with each other, in both directions, using one similarity matrix."""
    for batch, g_power in zip((points, others), g_powers, strict=True):
        _check_negatives(batch.shape[0], g_power, None)
    columns = [_columns(g_power, None) for g_power in g_powers]
    products = exponential_products_between(points, others, *columns, scale=similarity_scale)
    return Contrast(*products[0]), Contrast(*products[1])


def sampled_contrast(
    similarity: Float[Array, "N n_neg"],
    g_power: Float[Array, "N n_neg"],
    mask: Bool[Array, "N n_neg"] | None = None,
) -> Contrast:
    """Computes the means over the negatives sampled for each state, `alg:taco`."""
    check_same_shape(similarity=similarity, g_power=g_power, mask=mask)
    check_similarity(similarity)
    if mask is None:
        mask = jnp.ones(similarity.shape, bool)
    elif is_concrete(mask) and not np.asarray(mask).any(axis=1).all():
        raise ValueError("mask must leave at least one negative for every state; got a row without any.")
    share = mask / jnp.maximum(mask.sum(axis=1, keepdims=True), 1)
    similarity = jnp.where(mask, similarity, 0.0)
    return Contrast(
        similarity=jnp.sum(similarity * share, axis=1),
        similarity_g=jnp.sum(similarity * jnp.where(mask, g_power, 0.0) * share, axis=1),
    )


def sample_negatives(
    key: PRNGKeyArray, shape: tuple[int, int], num_others: int, weight: OtherWeight | None = None
) -> Int[Array, "N n_neg"]:
    """Samples the indices of `n_neg` negatives in the other batch for each of N states, with replacement."""
    if weight is None:
        return jax.random.randint(key, shape, 0, num_others)
    if weight.shape != (num_others,):
        raise ValueError(f"weight must have {num_others} entries, one per state; got {weight.shape}.")
    check_weight(weight)
    return jax.random.choice(key, num_others, shape, p=probability_of(weight))


def _check_negatives(num_negatives: int, g_power: Float[Array, " M"], weight: OtherWeight | None) -> None:
    if g_power.shape[0] != num_negatives:
        raise ValueError(f"g_power must have {num_negatives} entries, one per negative; got {g_power.shape}.")
    check_same_shape(g_power=g_power, weight=weight)
    check_weight(weight)


def _columns(g_power: Float[Array, " M"], weight: OtherWeight | None) -> Float[Array, "M 2"]:
    """Returns h and h·g as columns. The similarity matrix times these columns is the `Contrast`."""
    probability = probability_of(jnp.ones(g_power.shape) if weight is None else weight)
    return jnp.stack([probability, jnp.where(probability > 0, probability * g_power, 0.0)], axis=1)


def _contrast(product: Float[Array, "N 2"]) -> Contrast:
    return Contrast(similarity=product[:, 0], similarity_g=product[:, 1])

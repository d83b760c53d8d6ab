"""Expectations: over the states of a batch, and over the negatives x' that each state is contrasted with.

The objective needs two numbers of the negatives of a state x, `E[k(x, x')]` and `E[k(x, x') g(x')]`. Either
every state of the other batch is a negative (exact: no sampling noise, and cheaper than it looks, a matrix
product with a histogram), or a few are drawn (sampled: `n_neg` of the paper).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.checks import check_same_shape, check_similarity, check_weight, is_known
from gemax.core.similarity import (
    exponential_product,
    exponential_product_among,
    exponential_products_between,
)
from gemax.types import Weight

OtherWeight: TypeAlias = Float[Array, " M"] | Bool[Array, " M"]
"""As `Weight`, for the M states of the other batch."""


class Contrast(NamedTuple):
    """What the negatives x' say about each state x."""

    similarity: Float[Array, " N"]
    """`E[k(x, x')]`: the similarity profile of the negatives, seen from x."""
    similarity_g: Float[Array, " N"]
    """`E[k(x, x') g(x')^(2-α)]`; α = 1 for Shannon. See `objective.g_power`."""


def mean(values: Float[Array, " N"], weight: Weight | None = None) -> Float[Array, ""]:
    """The average of the values, weighted. Inside `jit`, a weight that is zero everywhere gives zero, never NaN."""
    if weight is None:
        return jnp.mean(values)
    check_same_shape(values=values, weight=weight)
    check_weight(weight)
    # Masked values may be anything, infinity included: cut them before the product.
    return jnp.sum(jnp.where(weight > 0, values, 0.0) * probability_of(weight))


def probability_of(weight: Weight) -> Float[Array, " N"]:
    """Weights, scaled to sum to one; all zero where there is none."""
    weight = weight.astype(float)
    return weight / jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)


def exact_contrast(
    similarity: Float[Array, "N M"], g_power: Float[Array, " M"], weight: OtherWeight | None = None
) -> Contrast:
    """The expectation over all M states of the other batch, each weighted by how often it was visited.

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
    """`exact_contrast` for the exponential similarity of points, without ever holding the N × M matrix."""
    _check_negatives(others.shape[0], g_power, weight)
    return _contrast(exponential_product(points, others, _columns(g_power, weight), scale=similarity_scale))


def exact_contrasts_among(
    points: Float[Array, "N D"],
    g_power: Float[Array, " N"],
    weights: Sequence[Weight],
    *,
    similarity_scale: float = 1.0,
) -> list[Contrast]:
    """`exact_contrast` of points with themselves, for several weights at once: one similarity matrix serves all."""
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
    """`exact_contrast` of two batches with each other, for each of them: one similarity matrix serves both."""
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
    """The average over the negatives that were drawn for each state, `alg:taco`."""
    check_same_shape(similarity=similarity, g_power=g_power, mask=mask)
    check_similarity(similarity)
    if mask is None:
        mask = jnp.ones(similarity.shape, bool)
    elif is_known(mask) and not np.asarray(mask).any(axis=1).all():
        raise ValueError("mask must leave at least one negative for every state; got a row that is empty.")
    share = mask / jnp.maximum(mask.sum(axis=1, keepdims=True), 1)
    similarity = jnp.where(mask, similarity, 0.0)
    return Contrast(
        similarity=jnp.sum(similarity * share, axis=1),
        similarity_g=jnp.sum(similarity * jnp.where(mask, g_power, 0.0) * share, axis=1),
    )


def sample_negatives(
    key: PRNGKeyArray, shape: tuple[int, int], num_others: int, weight: OtherWeight | None = None
) -> Int[Array, "N n_neg"]:
    """Draws, for each of N states, the indices of `n_neg` negatives in the other batch, with replacement."""
    if weight is None:
        return jax.random.randint(key, shape, 0, num_others)
    if weight.shape != (num_others,):
        raise ValueError(f"weight must have one entry for each of {num_others} states; got {weight.shape}.")
    check_weight(weight)
    return jax.random.choice(key, num_others, shape, p=probability_of(weight))


def _check_negatives(num_negatives: int, g_power: Float[Array, " M"], weight: OtherWeight | None) -> None:
    if g_power.shape[0] != num_negatives:
        raise ValueError(
            f"g_power must have one entry for each of {num_negatives} negatives; got {g_power.shape}."
        )
    check_same_shape(g_power=g_power, weight=weight)
    check_weight(weight)


def _columns(g_power: Float[Array, " M"], weight: OtherWeight | None) -> Float[Array, "M 2"]:
    if weight is None:
        weight = jnp.ones(g_power.shape)
    probability = probability_of(weight)
    return jnp.stack([probability, jnp.where(probability > 0, probability * g_power, 0.0)], axis=1)


def _contrast(columns: Float[Array, "N 2"]) -> Contrast:
    return Contrast(similarity=columns[:, 0], similarity_g=columns[:, 1])

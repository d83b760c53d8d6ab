"""Similarities k(x, x') in [0, 1], and the similarity profile p_k.

Applied to states, `exponential_similarity` is a fixed kernel. Applied to embeddings f(x), it is the learned one.

Distances need care. `√` has no gradient at 0. Distances by matrix product are not exactly 0 between identical
states; an embedding that is trained to spread out would increase such a false distance without limit.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gemax.core.checks import check_similarity
from gemax.settings import check_positive

MAX_ROWS_BY_SUBTRACTION = 256
"""Distances between at most this many points on each side are computed by subtraction, which is exact."""


def indicator_similarity(states: Int[Array, " N"], others: Int[Array, " M"]) -> Float[Array, "N M"]:
    """Returns 1 where two states have the same index and 0 elsewhere. H_k is then the Shannon entropy."""
    return (states[:, None] == others[None, :]).astype(float)


def exponential_similarity(
    points: Float[Array, "N D"], others: Float[Array, "M D"], *, scale: float = 1.0, by_product: bool = False
) -> Float[Array, "N M"]:
    """Returns `k(x, x') = exp(-c ‖x - x'‖)` for all pairs, `sec:similarity`. The scale is c.

    `by_product` computes the distances of few points by matrix product too. For many such matrices at once it is faster
    than subtraction, and needs no memory for the differences.
    """
    check_positive("scale", scale)
    distance = distances_by_product(points, others) if by_product else distances(points, others)
    return jnp.exp(-scale * distance)


def exponential_similarity_of_pairs(
    points: Float[Array, "N D"], others: Float[Array, "N n_neg D"], *, scale: float = 1.0
) -> Float[Array, "N n_neg"]:
    """Returns `exp(-c ‖x - x'‖)` between each point and the negatives sampled for it."""
    check_positive("scale", scale)
    squared = jnp.sum((points[:, None, :] - others) ** 2, axis=-1)
    return jnp.exp(-scale * safe_root(squared))


def similarity_profile(
    similarity: Float[Array, "N M"], probability: Float[Array, " M"]
) -> Float[Array, " N"]:
    """Returns the probability of each state smoothed by the similarity: `p_k(x) = E[k(x, x')]`."""
    check_similarity(similarity)
    if similarity.shape[1] != probability.shape[0]:
        raise ValueError(
            f"similarity must have {probability.shape[0]} columns, one per state; got {similarity.shape}."
        )
    return similarity @ probability


def distances(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Returns the Euclidean distances of all pairs. Between identical points they are exactly 0, with gradient 0."""
    if max(points.shape[0], others.shape[0]) <= MAX_ROWS_BY_SUBTRACTION:
        return safe_root(jnp.sum((points[:, None, :] - others[None, :, :]) ** 2, axis=-1))
    return distances_by_product(points, others)


def distances_by_product(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Returns the distances of all pairs. They are 0, with gradient 0, if they are below their rounding error."""
    centre = midpoint(points, others)
    return safe_root(squared_distances_by_product(points - centre, others - centre))


def safe_root(squared: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns `√`, with gradient 0 at 0. The inner `where` keeps the infinite slope out of the chain rule."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def midpoint(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> Float[Array, "1 D"]:
    """Returns the midpoint of the two means.

    Subtracting it does not change distances, but reduces the rounding error of `squared_distances_by_product`.
    """
    means = jnp.mean(points, axis=0, keepdims=True) + jnp.mean(others, axis=0, keepdims=True)
    return jax.lax.stop_gradient(0.5 * means)


def squared_distances_by_product(
    points: Float[Array, "N D"], others: Float[Array, "M D"]
) -> Float[Array, "N M"]:
    """Returns ‖a‖² + ‖b‖² - 2 a·b, or 0 if it is below its own rounding error.

    The rounding error of a sum of D products is at most D · eps / 2 of the sum of their absolute values, in any
    order of summation. With a smaller bound, some identical points would get a positive distance: with a bound of
    1 eps, one seventh of them at D = 256.
    """
    multiply = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    # Sums would be computed again for every pair, because the compiler merges them with what follows.
    ones = jnp.ones((points.shape[1], 1), points.dtype)
    squared_norms = multiply(points**2, ones) + multiply(others**2, ones).T
    squared = squared_norms - 2.0 * multiply(points, others.T)
    rounding = points.shape[1] * jnp.finfo(points.dtype).eps * squared_norms
    return jnp.where(squared > rounding, squared, 0.0)

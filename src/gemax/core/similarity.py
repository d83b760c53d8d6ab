"""Similarities k(x, x') in [0, 1], and the similarity profile p_k.

`exponential_similarity` is a fixed kernel when it is given states, and the learned one when it is given their
embeddings f(x). Distances are what goes wrong here: `√` has no gradient at zero, and distances by matrix
product are not zero between identical states, which an embedding trained to spread out exploits without limit.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gemax.core.checks import check_positive, check_similarity

ROWS_BY_SUBTRACTION = 256
"""Up to this many points on either side, distances are taken by subtraction, which is exact."""

ENTRIES_AT_ONCE = 2**22
"""How many entries of a similarity matrix `exponential_product` holds at a time (16 MB in float32)."""


def indicator_similarity(states: Int[Array, " N"], others: Int[Array, " M"]) -> Float[Array, "N M"]:
    """1 where two states have the same index, 0 elsewhere: the entropy is then Shannon's."""
    return (states[:, None] == others[None, :]).astype(float)


def exponential_similarity(
    points: Float[Array, "N D"], others: Float[Array, "M D"], *, scale: float = 1.0
) -> Float[Array, "N M"]:
    """`k(x, x') = exp(-c ‖x - x'‖)` for all pairs, `sec:similarity`. The scale is c."""
    check_positive("scale", scale)
    return jnp.exp(-scale * distances(points, others))


def exponential_similarity_of_pairs(
    points: Float[Array, "N D"], others: Float[Array, "N n_neg D"], *, scale: float = 1.0
) -> Float[Array, "N n_neg"]:
    """The same, between each point and the negatives that were drawn for it."""
    check_positive("scale", scale)
    squared = jnp.sum((points[:, None, :] - others) ** 2, axis=-1)
    return jnp.exp(-scale * safe_root(squared))


def similarity_profile(
    similarity: Float[Array, "N M"], probability: Float[Array, " M"]
) -> Float[Array, " N"]:
    """The probability of a state, smoothed by the similarity: `p_k(x) = E[k(x, x')]`."""
    check_similarity(similarity)
    if similarity.shape[1] != probability.shape[0]:
        raise ValueError(
            f"similarity must have a column for each of {probability.shape[0]} states of probability; "
            f"got shape {similarity.shape}."
        )
    return similarity @ probability


def exponential_product(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns: Float[Array, "M C"],
    *,
    scale: float = 1.0,
) -> Float[Array, "N C"]:
    """The similarity matrix times some columns, in blocks of rows: memory stays bounded, also for gradients."""
    check_positive("scale", scale)
    num_rows = max(1, ENTRIES_AT_ONCE // max(1, others.shape[0]))
    if points.shape[0] <= num_rows:
        return exponential_similarity(points, others, scale=scale) @ columns
    centre = _centre(points, others)

    @jax.checkpoint
    def row(point: Float[Array, " D"]) -> Float[Array, " C"]:
        squared = _squared_distances_by_product(point[None] - centre, others - centre)
        return (jnp.exp(-scale * safe_root(squared)) @ columns)[0]

    return jax.lax.map(row, points, batch_size=num_rows)


def exponential_product_among(
    points: Float[Array, "N D"], columns: Float[Array, "N C"], *, scale: float = 1.0
) -> Float[Array, "N C"]:
    """`exponential_product` of points with themselves, its gradient in a third of the time of the chain rule's."""
    check_positive("scale", scale)
    # Few points are subtracted from each other, which keeps the gradient exact however close they are.
    if points.shape[0] <= ROWS_BY_SUBTRACTION or points.shape[0] ** 2 > ENTRIES_AT_ONCE:
        return exponential_product(points, points, columns, scale=scale)
    return _product_among(jnp.asarray(scale, points.dtype), points, columns)


def exponential_products_between(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns_of_points: Float[Array, "N C"],
    columns_of_others: Float[Array, "M C"],
    *,
    scale: float = 1.0,
) -> tuple[Float[Array, "C N"], Float[Array, "C M"]]:
    """`exponential_product` from both sides, each with the columns of the other, by one similarity matrix.

    The gradient takes half of the time of the chain rule's. Where the matrix is too large to be held, there are two.
    """
    check_positive("scale", scale)
    if points.shape[0] * others.shape[0] > ENTRIES_AT_ONCE:
        of_points = exponential_product(points, others, columns_of_others, scale=scale)
        return of_points.T, exponential_product(others, points, columns_of_points, scale=scale).T
    if max(points.shape[0], others.shape[0]) <= ROWS_BY_SUBTRACTION:
        similarity = exponential_similarity(points, others, scale=scale)
        return (similarity @ columns_of_others).T, (similarity.T @ columns_of_points).T
    return _products_between(
        jnp.asarray(scale, points.dtype), points, others, columns_of_points, columns_of_others
    )


@jax.custom_vjp
def _product_among(
    scale: Float[Array, ""], points: Float[Array, "N D"], columns: Float[Array, "N C"]
) -> Float[Array, "N C"]:
    return jnp.exp(-scale * distances(points, points)) @ columns


def _product_among_forward(
    scale: Float[Array, ""], points: Float[Array, "N D"], columns: Float[Array, "N C"]
):
    distance = distances(points, points)
    similarity = jnp.exp(-scale * distance)
    return similarity @ columns, (scale, points, columns, distance, similarity)


def _product_among_backward(kept: tuple[Array, ...], gradient: Float[Array, "N C"]):
    """`Σ_m w_nm (x_n - x_m)`, where w is symmetric, since a pair meets itself from both sides."""
    scale, points, columns, distance, similarity = kept
    weight = _slope(scale, distance, similarity) * _sum_of_products(
        [*gradient.T, *columns.T], [*columns.T, *gradient.T]
    )
    centred = points - _centre(points, points)
    sums = jnp.matmul(weight, _with_ones(centred), precision=jax.lax.Precision.HIGHEST)
    # The scale is a setting, not a weight.
    return None, sums[:, -1:] * centred - sums[:, :-1], similarity @ gradient


_product_among.defvjp(_product_among_forward, _product_among_backward)


@jax.custom_vjp
def _products_between(
    scale: Float[Array, ""],
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns_of_points: Float[Array, "N C"],
    columns_of_others: Float[Array, "M C"],
) -> tuple[Float[Array, "C N"], Float[Array, "C M"]]:
    return _products_between_forward(scale, points, others, columns_of_points, columns_of_others)[0]


def _products_between_forward(
    scale: Float[Array, ""],
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns_of_points: Float[Array, "N C"],
    columns_of_others: Float[Array, "M C"],
):
    distance = distances(points, others)
    similarity = jnp.exp(-scale * distance)
    # Columns come first: to turn so large a matrix round takes longer than the product.
    products = (
        jnp.tensordot(columns_of_others, similarity, (0, 1)),
        jnp.tensordot(columns_of_points, similarity, (0, 0)),
    )
    return products, (scale, points, others, columns_of_points, columns_of_others, distance, similarity)


def _products_between_backward(
    kept: tuple[Array, ...], gradients: tuple[Float[Array, "C N"], Float[Array, "C M"]]
):
    """`Σ_m w_nm (x_n - y_m)` for the points, and `Σ_n w_nm (y_m - x_n)` for the others."""
    scale, points, others, columns_of_points, columns_of_others, distance, similarity = kept
    of_points, of_others = gradients
    weight = _slope(scale, distance, similarity) * _sum_of_products(
        [*of_points, *columns_of_points.T], [*columns_of_others.T, *of_others]
    )
    centre = _centre(points, others)
    here, there = points - centre, others - centre
    highest = jax.lax.Precision.HIGHEST
    sums_of_there = jnp.matmul(weight, _with_ones(there), precision=highest)
    sums_of_here = jnp.tensordot(_with_ones(here), weight, (0, 0), precision=highest)
    return (
        None,
        sums_of_there[:, -1:] * here - sums_of_there[:, :-1],
        (sums_of_here[-1:] * there.T - sums_of_here[:-1]).T,
        jnp.tensordot(of_others, similarity, (1, 1)).T,
        jnp.tensordot(of_points, similarity, (1, 0)).T,
    )


_products_between.defvjp(_products_between_forward, _products_between_backward)


def _slope(
    scale: Float[Array, ""], distance: Float[Array, "N M"], similarity: Float[Array, "N M"]
) -> Float[Array, "N M"]:
    """The gradient of k(x, x') in x is the slope times x - x'; 0 between identical points."""
    apart = distance > 0
    return jnp.where(apart, -scale * similarity / jnp.where(apart, distance, 1.0), 0.0)


def _sum_of_products(
    lefts: Sequence[Float[Array, " N"]], rights: Sequence[Float[Array, " M"]]
) -> Float[Array, "N M"]:
    """`Σ_i left_i right_iᵀ`, in one pass with whatever it is multiplied with."""
    return functools.reduce(
        jnp.add, (left[:, None] * right[None, :] for left, right in zip(lefts, rights, strict=True))
    )


def _with_ones(points: Float[Array, "N D"]) -> Float[Array, "N D+1"]:
    """A product with the last column adds up the weights."""
    return jnp.concatenate([points, jnp.ones((points.shape[0], 1), points.dtype)], axis=1)


def distances(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Euclidean distances of all pairs; exactly zero, with gradient zero, between identical points."""
    if max(points.shape[0], others.shape[0]) <= ROWS_BY_SUBTRACTION:
        return safe_root(jnp.sum((points[:, None, :] - others[None, :, :]) ** 2, axis=-1))
    centre = _centre(points, others)
    return safe_root(_squared_distances_by_product(points - centre, others - centre))


def safe_root(squared: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`√`, with gradient 0 at 0. The inner `where` keeps the infinite slope out of the chain rule."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def _centre(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> Float[Array, "1 D"]:
    # Distances do not see a shift, rounding does: near the origin the products below are at their smallest.
    means = jnp.mean(points, axis=0, keepdims=True) + jnp.mean(others, axis=0, keepdims=True)
    return jax.lax.stop_gradient(0.5 * means)


def _squared_distances_by_product(
    points: Float[Array, "N D"], others: Float[Array, "M D"]
) -> Float[Array, "N M"]:
    """‖a‖² + ‖b‖² - 2 a·b, where what its own rounding error may have made counts as zero.

    Sums of D products err by up to D · eps / 2 of the sum of their sizes, whatever the order of summation. Only
    this bound makes identical points meet for certain: with one eps, a seventh of them stay apart at D = 256.
    """
    squared_norms = jnp.sum(points**2, axis=-1)[:, None] + jnp.sum(others**2, axis=-1)[None, :]
    product = jnp.matmul(points, others.T, precision=jax.lax.Precision.HIGHEST)
    squared = squared_norms - 2.0 * product
    rounding = points.shape[1] * jnp.finfo(points.dtype).eps * squared_norms
    return jnp.where(squared > rounding, squared, 0.0)

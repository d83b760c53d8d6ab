"""Products of the exponential similarity matrix with a few columns, in bounded memory and with fast gradients."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.similarity import (
    MAX_ROWS_BY_SUBTRACTION,
    distances,
    exponential_similarity,
    midpoint,
    safe_root,
    squared_distances_by_product,
)
from gemax.settings import check_positive

MAX_MATRIX_ENTRIES = 2**22
"""Largest number of entries of a similarity matrix that is stored at once (16 MB in float32)."""


def exponential_product(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns: Float[Array, "M C"],
    *,
    scale: float = 1.0,
) -> Float[Array, "N C"]:
    """Returns the similarity matrix times the columns, in blocks of rows, which bounds the memory of gradients too."""
    check_positive("scale", scale)
    num_rows = max(1, MAX_MATRIX_ENTRIES // max(1, others.shape[0]))
    if points.shape[0] <= num_rows:
        return _product_of_one_block(points, others, columns, scale)
    centre = midpoint(points, others)

    @jax.checkpoint
    def row(point: Float[Array, " D"]) -> Float[Array, " C"]:
        squared = squared_distances_by_product(point[None] - centre, others - centre)
        return (jnp.exp(-scale * safe_root(squared)) @ columns)[0]

    return jax.lax.map(row, points, batch_size=num_rows)


def _product_of_one_block(
    points: Float[Array, "N D"], others: Float[Array, "M D"], columns: Float[Array, "M C"], scale: float
) -> Float[Array, "N C"]:
    if max(points.shape[0], others.shape[0]) <= MAX_ROWS_BY_SUBTRACTION:
        return exponential_similarity(points, others, scale=scale) @ columns
    # Its gradient is faster than autodiff. There is nothing to compute in the other direction.
    no_columns = jnp.zeros((points.shape[0], 0), points.dtype)
    return _products_between(jnp.asarray(scale, points.dtype), points, others, no_columns, columns)[0].T


def exponential_product_among(
    points: Float[Array, "N D"], columns: Float[Array, "N C"], *, scale: float = 1.0
) -> Float[Array, "N C"]:
    """Returns `exponential_product` of points with themselves. Its gradient is three times faster than autodiff."""
    check_positive("scale", scale)
    # Distances between few points are computed by subtraction, so that the gradient is exact even for close points.
    if points.shape[0] <= MAX_ROWS_BY_SUBTRACTION or points.shape[0] ** 2 > MAX_MATRIX_ENTRIES:
        return exponential_product(points, points, columns, scale=scale)
    return _product_among(jnp.asarray(scale, points.dtype), points, columns)


def exponential_products_between(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    point_columns: Float[Array, "N C"],
    other_columns: Float[Array, "M C"],
    *,
    scale: float = 1.0,
) -> tuple[Float[Array, "C N"], Float[Array, "C M"]]:
    """Returns `exponential_product` in both directions, each with the other side's columns, using one matrix.

    Its gradient is twice as fast as autodiff. If the matrix is too large to be stored, each direction is computed
    separately.
    """
    check_positive("scale", scale)
    if points.shape[0] * others.shape[0] > MAX_MATRIX_ENTRIES:
        point_products = exponential_product(points, others, other_columns, scale=scale)
        return point_products.T, exponential_product(others, points, point_columns, scale=scale).T
    if max(points.shape[0], others.shape[0]) <= MAX_ROWS_BY_SUBTRACTION:
        similarity = exponential_similarity(points, others, scale=scale)
        return (similarity @ other_columns).T, (similarity.T @ point_columns).T
    return _products_between(jnp.asarray(scale, points.dtype), points, others, point_columns, other_columns)


@jax.custom_vjp
def _product_among(*arguments: Array) -> Array:
    return _among_forward(*arguments)[0]


def _among_forward(scale: Float[Array, ""], points: Float[Array, "N D"], columns: Float[Array, "N C"]):
    distance = distances(points, points)
    similarity = jnp.exp(-scale * distance)
    return similarity @ columns, (scale, points, columns, distance, similarity)


def _among_backward(residuals: tuple[Array, ...], gradient: Float[Array, "N C"]):
    """Computes `Σ_m w_nm (x_n - x_m)` for the points. w is symmetric, since each pair occurs in both orders."""
    scale, points, columns, distance, similarity = residuals
    factors = [*gradient.T, *columns.T], [*columns.T, *gradient.T]
    weight = _pair_weights(scale, distance, similarity, *factors)
    centred = points - midpoint(points, points)
    sums = jnp.matmul(weight, _with_ones(centred), precision=jax.lax.Precision.HIGHEST)
    # The scale is a constant and has no gradient.
    return None, sums[:, -1:] * centred - sums[:, :-1], similarity @ gradient


_product_among.defvjp(_among_forward, _among_backward)


@jax.custom_vjp
def _products_between(*arguments: Array) -> tuple[Array, Array]:
    return _between_forward(*arguments)[0]


def _between_forward(
    scale: Float[Array, ""],
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    point_columns: Float[Array, "N B"],
    other_columns: Float[Array, "M C"],
):
    distance = distances(points, others)
    similarity = jnp.exp(-scale * distance)
    # Contracting without a transpose: transposing a large matrix takes longer than the product.
    products = (
        jnp.tensordot(other_columns, similarity, (0, 1)),
        jnp.tensordot(point_columns, similarity, (0, 0)),
    )
    return products, (scale, points, others, point_columns, other_columns, distance, similarity)


def _between_backward(
    residuals: tuple[Array, ...], gradients: tuple[Float[Array, "C N"], Float[Array, "B M"]]
):
    """Computes `Σ_m w_nm (x_n - y_m)` for the points, and `Σ_n w_nm (y_m - x_n)` for the others."""
    scale, points, others, point_columns, other_columns, distance, similarity = residuals
    point_gradient, other_gradient = gradients
    factors = [*point_gradient, *point_columns.T], [*other_columns.T, *other_gradient]
    weight = _pair_weights(scale, distance, similarity, *factors)
    centre = midpoint(points, others)
    centred_points, centred_others = points - centre, others - centre
    highest = jax.lax.Precision.HIGHEST
    other_sums = jnp.matmul(weight, _with_ones(centred_others), precision=highest)
    point_sums = jnp.tensordot(_with_ones(centred_points), weight, (0, 0), precision=highest)
    return (
        None,
        other_sums[:, -1:] * centred_points - other_sums[:, :-1],
        (point_sums[-1:] * centred_others.T - point_sums[:-1]).T,
        jnp.tensordot(other_gradient, similarity, (1, 1)).T,
        jnp.tensordot(point_gradient, similarity, (1, 0)).T,
    )


_products_between.defvjp(_between_forward, _between_backward)


def _pair_weights(
    scale: Float[Array, ""],
    distance: Float[Array, "N M"],
    similarity: Float[Array, "N M"],
    lefts: Sequence[Float[Array, " N"]],
    rights: Sequence[Float[Array, " M"]],
) -> Float[Array, "N M"]:
    """Returns the factor w of (x - x') in the gradient with respect to x, for each pair; 0 for identical points."""
    apart = distance > 0
    slope = jnp.where(apart, -scale * similarity / jnp.where(apart, distance, 1.0), 0.0)
    # XLA fuses a sum of outer products with the product below; it does not fuse a matrix product.
    outer_products = (left[:, None] * right[None, :] for left, right in zip(lefts, rights, strict=True))
    return slope * functools.reduce(jnp.add, outer_products)


def _with_ones(points: Float[Array, "N D"]) -> Float[Array, "N D+1"]:
    """Appends a column of ones, so that a product with weights also returns their sums."""
    return jnp.concatenate([points, jnp.ones((points.shape[0], 1), points.dtype)], axis=1)

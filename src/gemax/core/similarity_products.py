"""Products of the exponential similarity matrix with a few columns, in bounded memory and with fast gradients."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from gemax.core.similarity import (
    MAX_ROWS_BY_SUBTRACTION,
    distances,
    exponential_similarity,
    midpoint,
)
from gemax.settings import check_positive

MAX_MATRIX_ENTRIES = 2**22
"""Largest similarity matrix of points with themselves that is stored at once (16 MB in float32)."""
MAX_BLOCK_ENTRIES = 2**19
"""Larger products between two sets of points are computed in blocks of rows of this size, 2 MB in float32, which stay
in the processor's cache. Gradients compute each block again, which is faster than reading it from memory."""


class Groups(NamedTuple):
    """Groups of the points on both sides. Pairs of the same group are left out of a product."""

    points: Int[Array, " N"]
    others: Int[Array, " M"]


def exponential_product(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    columns: Float[Array, "M C"],
    *,
    scale: float = 1.0,
    groups: Groups | None = None,
) -> Float[Array, "N C"]:
    """Returns the similarity matrix times the columns, in bounded memory. Pairs of the same group are left out."""
    no_columns = jnp.zeros((points.shape[0], 0), points.dtype)
    return exponential_products_between(points, others, no_columns, columns, scale=scale, groups=groups)[0].T


def exponential_product_among(
    points: Float[Array, "N D"], columns: Float[Array, "N C"], *, scale: float = 1.0
) -> Float[Array, "N C"]:
    """Returns `exponential_product` of points with themselves. Its gradient is three times faster than autodiff."""
    check_positive("scale", scale)
    # Distances between few points are computed by subtraction, so that the gradient is exact even for close points.
    if points.shape[0] <= MAX_ROWS_BY_SUBTRACTION or points.shape[0] ** 2 > MAX_MATRIX_ENTRIES:
        return exponential_product(points, points, columns, scale=scale)
    return _product_among(scale, points, columns)


def exponential_products_between(
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    point_columns: Float[Array, "N B"],
    other_columns: Float[Array, "M C"],
    *,
    scale: float = 1.0,
    groups: Groups | None = None,
) -> tuple[Float[Array, "C N"], Float[Array, "B M"]]:
    """Returns `exponential_product` in both directions, each with the other side's columns, using one matrix.

    Its gradient is twice as fast as autodiff.
    """
    check_positive("scale", scale)
    if max(points.shape[0], others.shape[0]) <= MAX_ROWS_BY_SUBTRACTION:
        similarity = without_groups(exponential_similarity(points, others, scale=scale), groups)
        return (similarity @ other_columns).T, (similarity.T @ point_columns).T
    return _products_between(scale, points, others, point_columns, other_columns, groups)


def without_groups(similarity: Float[Array, "N M"], groups: Groups | None) -> Float[Array, "N M"]:
    """Returns the similarity, and 0 for pairs of the same group."""
    if groups is None:
        return similarity
    return jnp.where(groups.points[:, None] == groups.others[None, :], 0.0, similarity)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product_among(scale: float, *arguments: Array) -> Array:
    return _among_forward(scale, *arguments)[0]


def _among_forward(scale: float, points: Float[Array, "N D"], columns: Float[Array, "N C"]):
    distance = distances(points, points)
    similarity = jnp.exp(-scale * distance)
    return similarity @ columns, (points, columns, distance, similarity)


def _among_backward(scale: float, residuals: tuple[Array, ...], gradient: Float[Array, "N C"]):
    """Computes `Σ_m w_nm (x_n - x_m)` for the points. w is symmetric, since each pair occurs in both orders."""
    points, columns, distance, similarity = residuals
    factors = [*gradient.T, *columns.T], [*columns.T, *gradient.T]
    weight = _pair_weights(scale, distance, similarity, *factors)
    centred = points - midpoint(points, points)
    sums = jnp.matmul(weight, _with_ones(centred), precision=jax.lax.Precision.HIGHEST)
    return sums[:, -1:] * centred - sums[:, :-1], similarity @ gradient


_product_among.defvjp(_among_forward, _among_backward)


class Block(NamedTuple):
    """Rows of the similarity matrix: points, with their columns, groups and gradient."""

    points: Float[Array, "*blocks rows D"]
    columns: Float[Array, "*blocks rows B"]
    group: Int[Array, "*blocks rows"] | None
    gradient: Float[Array, "*blocks rows C"] | None = None
    """Gradient of the products of the points."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _products_between(scale: float, *arguments: Any) -> tuple[Array, Array]:
    return _between_forward(scale, *arguments)[0]


def _between_forward(
    scale: float,
    points: Float[Array, "N D"],
    others: Float[Array, "M D"],
    point_columns: Float[Array, "N B"],
    other_columns: Float[Array, "M C"],
    groups: Groups | None,
):
    # Once for all blocks, so that the zeros that fill the last one do not move its centre.
    centre = midpoint(points, others)
    points, others = points - centre, others - centre

    def products(block: Block):
        distance, similarity = _matrices(scale, block, others, groups)
        # Contracting without a transpose: transposing a large matrix takes longer than the product.
        point_products = jnp.tensordot(other_columns, similarity, (0, 1))
        other_products = jnp.tensordot(block.columns, similarity, (0, 0))
        return (point_products, other_products), (distance, similarity)

    def add_products(other_products: Array, block: Block) -> tuple[Array, Array]:
        (point_products, part), _ = products(block)
        return other_products + part, point_products.T

    arguments = points, others, point_columns, other_columns, groups
    whole = Block(points, point_columns, None if groups is None else groups.points)
    num_blocks = _num_blocks(points, others)
    if num_blocks == 1:
        both_products, matrices = products(whole)
        return both_products, (arguments, matrices)
    dtype = jnp.result_type(points, point_columns, other_columns)
    empty = jnp.zeros((point_columns.shape[1], others.shape[0]), dtype)
    other_products, point_products = jax.lax.scan(add_products, empty, _split(whole, num_blocks))
    return (_join(point_products, points.shape[0]).T, other_products), (arguments, None)


def _between_backward(
    scale: float,
    residuals: tuple[tuple, tuple[Array, Array] | None],
    gradients: tuple[Float[Array, "C N"], Float[Array, "B M"]],
):
    """Computes `Σ_m w_nm (x_n - y_m)` for the points, and `Σ_n w_nm (y_m - x_n)` for the others."""
    (points, others, point_columns, other_columns, groups), matrices = residuals
    point_gradient, other_gradient = gradients
    highest = jax.lax.Precision.HIGHEST

    def sums(block: Block, matrices: tuple[Array, Array]):
        """Returns gradients of the points and their columns, and sums over the points for the others."""
        distance, similarity = matrices
        assert block.gradient is not None
        factors = [*block.gradient.T, *block.columns.T], [*other_columns.T, *other_gradient]
        weight = _pair_weights(scale, distance, similarity, *factors)
        other_sums = jnp.matmul(weight, _with_ones(others), precision=highest)
        of_points = (
            other_sums[:, -1:] * block.points - other_sums[:, :-1],
            jnp.tensordot(other_gradient, similarity, (1, 1)).T,
        )
        point_sums = jnp.tensordot(_with_ones(block.points), weight, (0, 0), precision=highest)
        return of_points, (point_sums, jnp.tensordot(block.gradient, similarity, (0, 0)))

    def add_sums(of_others: tuple[Array, Array], block: Block):
        # Computed again, which is faster than reading large matrices from memory.
        of_points, part = sums(block, _matrices(scale, block, others, groups))
        return jax.tree.map(jnp.add, of_others, part), of_points

    whole = Block(points, point_columns, None if groups is None else groups.points, point_gradient.T)
    if matrices is not None:
        of_points, of_others = sums(whole, matrices)
    else:
        shapes = (points.shape[1] + 1, len(others)), (len(point_gradient), len(others))
        dtype = jnp.result_type(points, point_columns, other_columns)
        empty = tuple(jnp.zeros(shape, dtype) for shape in shapes)
        of_others, of_points = jax.lax.scan(add_sums, empty, _split(whole, _num_blocks(points, others)))
        of_points = jax.tree.map(lambda leaf: _join(leaf, points.shape[0]), of_points)
    point_sums, column_gradient = of_others
    others_gradient = (point_sums[-1:] * others.T - point_sums[:-1]).T
    return of_points[0], others_gradient, of_points[1], column_gradient.T, None


_products_between.defvjp(_between_forward, _between_backward)


def _num_blocks(points: Float[Array, "N D"], others: Float[Array, "M D"]) -> int:
    rows = max(1, MAX_BLOCK_ENTRIES // max(1, others.shape[0]))
    return max(1, math.ceil(points.shape[0] / rows))


def _matrices(
    scale: float, block: Block, others: Float[Array, "M D"], groups: Groups | None
) -> tuple[Float[Array, "rows M"], Float[Array, "rows M"]]:
    """Returns distances and similarities of a block."""
    distance = distances(block.points, others)
    block_groups = None if groups is None or block.group is None else Groups(block.group, groups.others)
    return distance, without_groups(jnp.exp(-scale * distance), block_groups)


def _split(whole: Block, num_blocks: int) -> Block:
    """Returns blocks of equal size. Zeros fill the last one: they have no weight, and their products are dropped."""
    rows = math.ceil(whole.points.shape[0] / num_blocks)
    missing = num_blocks * rows - whole.points.shape[0]

    def split(leaf: Array) -> Array:
        filled = jnp.concatenate([leaf, jnp.zeros((missing, *leaf.shape[1:]), leaf.dtype)])
        return filled.reshape(num_blocks, rows, *leaf.shape[1:])

    return jax.tree.map(split, whole)


def _join(blocks: Shaped[Array, "blocks rows *F"], num_points: int) -> Shaped[Array, "N *F"]:
    num_blocks, rows, *size = blocks.shape
    return blocks.reshape(num_blocks * rows, *size)[:num_points]


def _pair_weights(
    scale: float,
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

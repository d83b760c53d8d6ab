from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.core import similarity as similarity_module
from gemax.core import similarity_products
from gemax.core.adjacency import adjacency_regulariser, pseudo_huber
from gemax.core.similarity import (
    distances,
    exponential_similarity,
    exponential_similarity_of_pairs,
    indicator_similarity,
    similarity_profile,
)
from gemax.core.similarity_products import (
    Groups,
    exponential_product,
    exponential_product_among,
    exponential_products_between,
)

ROWS = [3, similarity_module.MAX_ROWS_BY_SUBTRACTION + 44]


def gradients_are_finite(function, *arguments):
    value, gradients = jax.value_and_grad(function, tuple(range(len(arguments))))(*arguments)
    return bool(jnp.isfinite(value)) and all(bool(jnp.isfinite(gradient).all()) for gradient in gradients)


@pytest.mark.parametrize("rows", ROWS)
@given(size=st.floats(0, 1e4, width=32), seed=st.integers(0, 100), identical=st.booleans())
@pytest.mark.fault(19)
def test_similarities_have_finite_gradients_at_every_distance(rows, size, seed, identical):
    first, second = jax.random.split(jax.random.key(seed))
    points = size * jax.random.normal(first, (rows, 4)) / 4
    others = points if identical else points + size * jax.random.normal(second, (rows, 4)) / 4
    assert gradients_are_finite(lambda a, b: exponential_similarity(a, b).sum(), points, others)
    assert gradients_are_finite(
        lambda a, b: exponential_similarity_of_pairs(a, b[:, None]).sum(), points, others
    )
    assert gradients_are_finite(lambda a, b: distances(a, b).sum(), points, others)


@given(
    size=st.floats(0, 1e4, width=32),
    exponent=st.floats(0.1, 20.0),
    offset=st.floats(0, 100.0),
    identical=st.booleans(),
)
def test_adjacency_regulariser_has_finite_gradients_at_every_distance(size, exponent, offset, identical):
    points = size * jax.random.normal(jax.random.key(0), (5, 4)) / 4
    others = points if identical else jnp.zeros_like(points)

    def regulariser(a, b):
        return adjacency_regulariser(a, b, huber_offset=offset, huber_exponent=exponent)

    assert gradients_are_finite(regulariser, points, others)


@given(st.floats(0, 1e4), st.floats(1e-3, 10.0), st.sampled_from([1.0, 2.0, 4.0, 8.0]))
def test_pseudo_huber_equals_its_formula_in_float64(distance, offset, exponent):
    value, slope = jax.value_and_grad(lambda d: pseudo_huber(d, offset, exponent)[0])(
        jnp.asarray([distance], jnp.float32)
    )
    distance = float(np.float32(distance))
    expected = (offset**exponent + distance**exponent) ** (1 / exponent)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    if distance > 1e-3:
        expected_slope = (distance / expected) ** (exponent - 1)
        np.testing.assert_allclose(slope[0], expected_slope, rtol=1e-4, atol=1e-30)


def test_adjacency_regulariser_of_identical_states_is_the_offset():
    points = jnp.ones((3, 2))
    np.testing.assert_allclose(adjacency_regulariser(points, points, huber_offset=0.6), 0.6, rtol=1e-6)


def test_adjacency_regulariser_ignores_masked_pairs():
    here, there = jnp.zeros((2, 1)), jnp.asarray([[3.0], [1e6]])
    masked = adjacency_regulariser(
        here, there, jnp.asarray([True, False]), huber_offset=4.0, huber_exponent=2.0
    )
    np.testing.assert_allclose(masked, 5.0, rtol=1e-6)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.fault(19)
def test_identical_points_have_distance_zero_and_gradient_zero(rows, key):
    points = 100.0 + jax.random.normal(key, (rows, 16))
    matrix = distances(points, points)
    assert (jnp.diag(matrix) == 0).all()
    gradient = jax.grad(lambda a: jnp.diag(distances(a, points)).sum())(points)
    assert (gradient == 0).all()


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_distances_by_product_equal_those_by_subtraction(key, shift, monkeypatch):
    first, second = jax.random.split(key)
    points, others = shift + jax.random.normal(first, (300, 32)), shift + jax.random.normal(second, (280, 32))

    def objective(points):
        return jnp.sum(exponential_similarity(points, others) ** 2)

    by_product, gradient_by_product = jax.value_and_grad(objective)(points)
    monkeypatch.setattr(similarity_module, "MAX_ROWS_BY_SUBTRACTION", 1000)
    by_subtraction, gradient_by_subtraction = jax.value_and_grad(objective)(points)
    np.testing.assert_allclose(by_product, by_subtraction, rtol=1e-4)
    np.testing.assert_allclose(gradient_by_product, gradient_by_subtraction, rtol=1e-3, atol=1e-6)


def test_scaling_an_embedding_does_not_separate_identical_states(key):
    """False distances between identical states would reward an embedding that grows without limit."""
    points = jnp.repeat(jax.random.normal(key, (150, 8)), 2, axis=0)

    def mean_similarity(points, scale):
        matrix = exponential_similarity(scale * points, scale * points)
        return matrix[jnp.arange(0, 300, 2), jnp.arange(1, 300, 2)].mean()

    assert mean_similarity(points, 1.0) == mean_similarity(points, 1e3) == 1.0


def test_product_in_blocks_equals_the_product_with_the_whole_matrix(key, monkeypatch):
    first, second, third = jax.random.split(key, 3)
    points, others = jax.random.normal(first, (301, 4)), jax.random.normal(second, (270, 4))
    columns = jax.random.normal(third, (270, 2))

    def value(points, others):
        return jnp.sum(exponential_product(points, others, columns, scale=0.5) ** 2)

    whole = jax.value_and_grad(value, (0, 1))(points, others)
    monkeypatch.setattr(similarity_products, "MAX_BLOCK_ENTRIES", 2_000)
    in_blocks = jax.value_and_grad(value, (0, 1))(points, others)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), whole, in_blocks)


def test_the_last_block_is_as_precise_as_the_others_far_from_the_origin(key, monkeypatch):
    """Zeros fill the last block. 289 rows in blocks of at most 20 leave some for it."""
    keys = jax.random.split(key, 3)
    points, others = (jax.random.normal(k, (rows, 4)) for k, rows in zip(keys, (289, 300), strict=False))
    columns = jax.random.uniform(keys[2], (300, 2))

    def value(points, others):
        return jnp.sum(exponential_product(points, others, columns) ** 2)

    near = jax.value_and_grad(value, (0, 1))(points, others)
    monkeypatch.setattr(similarity_products, "MAX_BLOCK_ENTRIES", 20 * 300)
    far = jax.value_and_grad(value, (0, 1))(points + 256.0, others + 256.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-2), far, near)


@pytest.mark.parametrize("rows", ROWS)
def test_product_among_points_equals_the_matrix_product_with_its_gradients(rows, key):
    """Covers identical points, points far from the origin, and gradients of the columns."""
    keys = jax.random.split(key, 3)
    points = 3.0 * jax.random.normal(keys[0], (rows, 4)) + 5.0
    points = points.at[1].set(points[0])
    columns, target = jax.random.uniform(keys[1], (rows, 4)), jax.random.normal(keys[2], (rows, 4))

    def loss_and_gradient(product):
        return jax.jit(jax.value_and_grad(lambda *a: jnp.sum(target * jnp.sin(product(*a))), (0, 1)))(
            points, columns
        )

    ours = loss_and_gradient(lambda points, columns: exponential_product_among(points, columns, scale=0.7))
    truth = loss_and_gradient(
        lambda points, columns: exponential_similarity(points, points, scale=0.7) @ columns
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5), ours, truth)


def loss_and_gradients_between(products, rows, key):
    """Returns the loss and its gradients. One point is on both sides; all are far from the origin."""
    keys = jax.random.split(key, 6)
    points, others = (3.0 * jax.random.normal(key, (rows, 4)) + 5.0 for key in keys[:2])
    arguments = (
        points,
        others[:-1].at[1].set(points[0]),
        *(jax.random.uniform(k, (rows, 2)) for k in keys[2:4]),
    )
    targets = [jax.random.normal(key, (2, rows)) for key in keys[4:]]

    def loss(points, others, columns, other_columns):
        point_products, other_products = products(points, others, columns, other_columns[:-1])
        return jnp.sum(targets[0] * jnp.sin(point_products)) + jnp.sum(
            targets[1][:, :-1] * jnp.sin(other_products)
        )

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))(*arguments)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("in_blocks", [False, True])
def test_products_between_points_equal_the_matrix_products_with_their_gradients(
    rows, in_blocks, key, monkeypatch
):
    def truth(points, others, columns, other_columns):
        similarity = exponential_similarity(points, others, scale=0.7)
        return (similarity @ other_columns).T, (similarity.T @ columns).T

    expected = loss_and_gradients_between(truth, rows, key)
    if in_blocks:
        monkeypatch.setattr(similarity_products, "MAX_BLOCK_ENTRIES", rows * rows // 3)
    found = loss_and_gradients_between(partial(exponential_products_between, scale=0.7), rows, key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5), found, expected)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("in_blocks", [False, True])
def test_pairs_of_the_same_group_are_left_out_of_a_product_and_its_gradients(
    rows, in_blocks, key, monkeypatch
):
    groups = Groups(jnp.arange(rows) % 3, jnp.arange(rows - 1) % 4)

    def truth(points, others, columns, other_columns):
        is_other = groups.points[:, None] != groups.others[None, :]
        similarity = exponential_similarity(points, others, scale=0.7) * is_other
        return (similarity @ other_columns).T, (similarity.T @ columns).T

    expected = loss_and_gradients_between(truth, rows, key)
    if in_blocks:
        monkeypatch.setattr(similarity_products, "MAX_BLOCK_ENTRIES", rows * rows // 3)
    products = partial(exponential_products_between, scale=0.7, groups=groups)
    found = loss_and_gradients_between(products, rows, key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5), found, expected)


def test_products_between_points_have_finite_gradients_at_every_distance(key):
    points, columns = jax.random.normal(key, (300, 4)).at[1].set(0.0), jnp.ones((300, 2))

    @jax.jit
    def gradient(points):
        products = partial(exponential_products_between, point_columns=columns, other_columns=columns)
        return jax.grad(lambda a, b: sum(product.sum() for product in products(a, b)), (0, 1))(
            points, -points
        )

    for size in (0.0, 1e-30, 1e-6, 1.0, 1e2, 1e4):
        assert all(jnp.isfinite(slope).all() for slope in gradient(size * points))


def test_product_among_points_has_finite_gradients_at_every_distance(key):
    points = jax.random.normal(key, (300, 4)).at[1].set(0.0).at[2].set(0.0)
    gradient = jax.jit(jax.grad(lambda points: exponential_product_among(points, jnp.ones((300, 2))).sum()))
    for size in (0.0, 1e-30, 1e-6, 1.0, 1e2, 1e4):
        assert jnp.isfinite(gradient(size * points)).all()


def test_memory_of_a_product_in_blocks_is_bounded():
    """The differences of all pairs at once would take 25 GB."""
    points = jax.ShapeDtypeStruct((20_000, 16), jnp.float32)
    columns = jax.ShapeDtypeStruct((20_000, 2), jnp.float32)
    gradient = jax.grad(lambda a, b, c: exponential_product(a, b, c).sum(), (0, 1))
    memory = jax.jit(gradient).lower(points, points, columns).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 300e6, memory.temp_size_in_bytes


def test_indicator_similarity_compares_indices():
    np.testing.assert_array_equal(
        indicator_similarity(jnp.asarray([0, 2]), jnp.asarray([2, 0, 2])), [[0, 1, 0], [1, 0, 1]]
    )


def test_similarity_profile_is_the_smoothed_probability():
    profile = similarity_profile(jnp.asarray([[1.0, 0.5], [0.5, 1.0]]), jnp.asarray([0.25, 0.75]))
    np.testing.assert_allclose(profile, [0.625, 0.875])

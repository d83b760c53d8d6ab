import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.core.expectation import (
    Contrast,
    exact_contrast,
    exact_contrast_of_points,
    exact_contrasts_between,
    sample_negatives,
    sampled_contrast,
)
from gemax.core.objective import embedding_penalty, g_power, gem_objective, gem_reward, log_g_of
from gemax.core.similarity import exponential_similarity, exponential_similarity_of_pairs

LOG_G = st.floats(float(np.log(1e-8)), float(np.log(1e8)))
SIMILARITY = st.floats(0, 1)


def in_float64(log_g, similarity, alpha):
    """Evaluates the paper's formulas in float64: value, gradient with respect to ln g, and the largest term of each."""
    log_g, similarity = np.asarray(log_g, np.float64), np.asarray(similarity, np.float64)
    g = np.exp(log_g)
    if alpha == 1:
        terms = [np.ones_like(g), log_g, -similarity * g]
        gradient = 1 - similarity * g
        parts = [np.ones_like(g), similarity * g]
    else:
        factor = 1 - 1 / (alpha - 1)
        terms = [np.full_like(g, 1 / (alpha - 1)) + factor * g ** (1 - alpha), -similarity * g ** (2 - alpha)]
        gradient = (2 - alpha) * (g ** (1 - alpha) - similarity * g ** (2 - alpha))
        parts = [(2 - alpha) * g ** (1 - alpha), (2 - alpha) * similarity * g ** (2 - alpha)]
    return sum(terms), gradient, max(map(np.abs, terms)), max(map(np.abs, parts))


@given(LOG_G, SIMILARITY, st.floats(0.9, 1.1))
def test_tsallis_in_float32_is_within_1e_4_of_float64_near_shannon(log_g, similarity, alpha):
    """The tolerance is relative to the largest term of the objective."""
    log_g, similarity = jnp.float32(log_g)[None], jnp.float32(similarity)[None]
    value, gradient = jax.value_and_grad(lambda log_g: gem_objective(log_g, similarity, alpha=alpha))(log_g)
    true_value, true_gradient, size, gradient_size = in_float64(log_g, similarity, alpha)
    assert abs(value - true_value[0]) <= 1e-4 * max(size[0], 1.0)
    assert abs(gradient[0] - true_gradient[0]) <= 1e-4 * gradient_size[0]


@given(LOG_G, SIMILARITY, st.floats(-1e-6, 1e-6))
def test_tsallis_equals_shannon_for_alpha_within_1e_6_of_one(log_g, similarity, offset):
    log_g, similarity = jnp.float32(log_g)[None], jnp.float32(similarity)[None]
    contrast = Contrast(similarity, similarity)
    for function in (
        lambda a: gem_objective(log_g, similarity, alpha=a),
        lambda a: gem_reward(log_g, contrast, alpha=a)[0],
    ):
        np.testing.assert_allclose(function(1.0 + offset), function(1.0), rtol=1e-5)


@given(st.lists(st.tuples(LOG_G, SIMILARITY), min_size=1, max_size=8), st.floats(-20.0, 1.99))
def test_objective_and_reward_have_finite_values_and_gradients_for_all_g(pairs, alpha):
    log_g = jnp.asarray([pair[0] for pair in pairs], jnp.float32)
    similarity = jnp.asarray([pair[1] for pair in pairs], jnp.float32)

    def total(log_g, similarity):
        contrast = Contrast(similarity, similarity * g_power(log_g, alpha))
        return gem_objective(log_g, similarity, alpha=alpha) + jnp.mean(
            gem_reward(log_g, contrast, alpha=alpha)
        )

    value, gradients = jax.value_and_grad(total, (0, 1))(log_g, similarity)
    assert jnp.isfinite(value)
    assert all(jnp.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("output", [-1e4, -200.0, -20.0, 0.0, 20.0, 200.0, 1e4])
@pytest.mark.fault(21)
def test_log_g_is_finite_for_all_network_outputs(output):
    value, slope = jax.value_and_grad(lambda output: log_g_of(output)[0])(jnp.asarray([output]))
    assert jnp.isfinite(value)
    assert jnp.isfinite(slope).all()
    np.testing.assert_allclose(jnp.exp(value), np.logaddexp(output, 0) + 1e-8, rtol=1e-5)


def random_pairs(key, num_states=40, num_others=30, size=3):
    keys = jax.random.split(key, 4)
    points, others = (
        jax.random.normal(keys[0], (num_states, size)),
        jax.random.normal(keys[1], (num_others, size)),
    )
    log_g = jax.random.normal(keys[2], (num_others,))
    weight = jax.random.uniform(keys[3], (num_others,)) > 0.4
    return points, others, log_g, weight


def test_exact_contrast_equals_a_double_loop(key):
    points, others, log_g, weight = random_pairs(key)
    contrast = exact_contrast(exponential_similarity(points, others), g_power(log_g), weight)
    for i in range(len(points)):
        k = np.exp(-np.linalg.norm(np.asarray(points)[i] - np.asarray(others), axis=1))[np.asarray(weight)]
        g = np.exp(np.asarray(log_g))[np.asarray(weight)]
        np.testing.assert_allclose(contrast.similarity[i], k.mean(), rtol=1e-5)
        np.testing.assert_allclose(contrast.similarity_g[i], (k * g).mean(), rtol=1e-5)


def test_exact_contrast_of_points_equals_exact_contrast(key):
    points, others, log_g, weight = random_pairs(key)
    plain = exact_contrast(exponential_similarity(points, others, scale=2.0), g_power(log_g), weight)
    fused = exact_contrast_of_points(points, others, g_power(log_g), weight, similarity_scale=2.0)
    np.testing.assert_allclose(plain, fused, rtol=1e-6)


def test_contrasts_between_two_batches_equal_those_in_each_direction(key):
    points, others, log_g, _ = random_pairs(key)
    point_log_g = jnp.linspace(-1.0, 1.0, len(points))
    similarity = exponential_similarity(points, others, scale=2.0)
    plain = exact_contrast(similarity, g_power(log_g)), exact_contrast(similarity.T, g_power(point_log_g))
    powers = g_power(point_log_g), g_power(log_g)
    fused = exact_contrasts_between(points, others, powers, similarity_scale=2.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), plain, fused)


def test_sampled_contrast_converges_to_the_exact_one_and_ignores_masked_states(key):
    points, others, log_g, weight = random_pairs(key, num_states=5)
    sampled_index = sample_negatives(key, (len(points), 20_000), len(others), weight)
    assert weight[sampled_index].all()
    similarity = exponential_similarity_of_pairs(points, others[sampled_index])
    sampled = sampled_contrast(similarity, g_power(log_g)[sampled_index])
    exact = exact_contrast(exponential_similarity(points, others), g_power(log_g), weight)
    np.testing.assert_allclose(sampled, exact, rtol=0.03)


def test_negatives_without_weights_are_sampled_uniformly(key):
    sampled_index = sample_negatives(key, (100, 200), 4)
    assert sampled_index.shape == (100, 200)
    np.testing.assert_allclose(
        np.bincount(np.asarray(sampled_index).ravel()) / sampled_index.size, 0.25, atol=0.02
    )


def test_sampled_contrast_ignores_masked_negatives():
    similarity = jnp.asarray([[0.5, 0.7, jnp.nan]])
    mask = jnp.asarray([[True, True, False]])
    contrast = sampled_contrast(jnp.nan_to_num(similarity, nan=0.9), jnp.asarray([[1.0, 2.0, 3.0]]), mask)
    np.testing.assert_allclose(contrast.similarity, [0.6], rtol=1e-6)
    np.testing.assert_allclose(contrast.similarity_g, [(0.5 + 1.4) / 2], rtol=1e-6)


def test_an_integer_weight_equals_repeating_the_state():
    """This is why each distinct observation needs to be encoded only once."""
    log_g, similarity = jnp.asarray([0.3, -1.0]), jnp.asarray([0.2, 0.9])
    counted = gem_objective(log_g, similarity, jnp.asarray([3.0, 1.0]))
    repeated = gem_objective(log_g[jnp.asarray([0, 0, 0, 1])], similarity[jnp.asarray([0, 0, 0, 1])])
    np.testing.assert_allclose(counted, repeated, rtol=1e-6)


def test_masked_states_have_no_effect_even_if_infinite():
    log_g, similarity = jnp.asarray([0.5, jnp.inf]), jnp.asarray([0.5, 0.5])
    mask = jnp.asarray([True, False])
    value, gradient = jax.value_and_grad(lambda x: gem_objective(jnp.where(mask, x, 0.0), similarity, mask))(
        log_g
    )
    np.testing.assert_allclose(value, 1 + 0.5 - 0.5 * np.exp(0.5), rtol=1e-6)
    assert gradient[1] == 0


def test_an_empty_mask_gives_a_finite_value_inside_jit():
    value = jax.jit(gem_objective)(jnp.zeros(3), jnp.ones(3), jnp.zeros(3))
    assert jnp.isfinite(value)


def test_embedding_penalty_is_the_mean_squared_norm():
    np.testing.assert_allclose(embedding_penalty(jnp.asarray([[3.0, 4.0], [0.0, 1.0]])), 13.0)

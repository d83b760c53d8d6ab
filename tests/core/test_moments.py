import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.core.moments import (
    init_moments,
    init_scale,
    normalise,
    standardise,
    std,
    table_moments,
    update_moments,
    update_observation_moments,
    update_scale,
)

DECAY = 0.9


def test_moments_equal_bias_corrected_moving_averages_of_the_moments():
    batches = np.random.default_rng(0).normal(loc=3.0, scale=2.0, size=(12, 50)).astype(np.float32)
    moments = init_moments()
    mean = square = weight = 0.0
    for batch in batches:
        moments = update_moments(moments, jnp.asarray(batch), decay=DECAY)
        mean = DECAY * mean + (1 - DECAY) * batch.mean(dtype=np.float64)
        square = DECAY * square + (1 - DECAY) * (batch.astype(np.float64) ** 2).mean()
        weight = DECAY * weight + (1 - DECAY)
        true_mean, true_square = mean / weight, square / weight
        np.testing.assert_allclose(moments.mean, true_mean, rtol=1e-5)
        np.testing.assert_allclose(moments.variance, true_square - true_mean**2, rtol=1e-4)


def test_first_batch_is_standardised_then_scaled_and_shifted():
    batch = jnp.asarray([10.0, 20.0, 30.0])
    normalised = normalise(update_scale(init_scale(), batch), batch, scale=0.25, shift=0.7)
    np.testing.assert_allclose(normalised.mean(), 0.7, rtol=1e-5)
    np.testing.assert_allclose(normalised.std(), 0.25, rtol=1e-5)


@pytest.mark.fault(20)
def test_constant_and_single_rewards_stay_finite_and_small():
    for batch in (jnp.full(64, 1234.567), jnp.asarray([1e-3]), jnp.zeros(4), jnp.full(3, 1e12)):
        moments, scale = init_moments(), init_scale()
        for _ in range(4):
            moments, scale = update_moments(moments, batch), update_scale(scale, batch)
        assert jnp.abs(normalise(scale, batch)).max() < 1.0
        assert jnp.isfinite(std(moments))


def test_scale_is_the_moving_average_of_the_std_of_batches_without_the_drift_of_their_mean():
    random, scale = np.random.default_rng(0), init_scale()
    batches = [random.normal(loc=5.0 * i, scale=1.0 + i, size=40) for i in range(6)]
    for batch in batches:
        scale = update_scale(scale, jnp.asarray(batch), decay=DECAY)
    weights = [DECAY**age for age in range(len(batches))[::-1]]
    expected_std = np.average([batch.std() for batch in batches], weights=weights)
    np.testing.assert_allclose(scale.std, expected_std, rtol=1e-5)
    np.testing.assert_allclose(
        scale.mean, np.average([b.mean() for b in batches], weights=weights), rtol=1e-5
    )


def test_masked_values_do_not_count_and_an_empty_batch_changes_nothing():
    values, mask = jnp.asarray([1.0, jnp.nan, 3.0]), jnp.asarray([True, False, True])
    masked = update_moments(init_moments(), values, mask)
    np.testing.assert_allclose(masked, update_moments(init_moments(), jnp.asarray([1.0, 3.0])), rtol=1e-6)
    empty = jax.jit(update_moments)(masked, values, jnp.zeros(3, bool))
    np.testing.assert_array_equal(empty, masked)
    scale = update_scale(init_scale(), values, mask)
    np.testing.assert_allclose(scale, [2.0, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(jax.jit(update_scale)(scale, values, jnp.zeros(3, bool)), scale)


def test_initial_moments_leave_values_unchanged():
    np.testing.assert_array_equal(normalise(init_scale(), jnp.asarray([2.0, -3.0])), [2.0, -3.0])


def test_observation_moments_are_those_of_all_batches_together():
    batches = np.random.default_rng(0).normal(loc=[1.0, -5.0], scale=[2.0, 0.1], size=(6, 50, 2))
    moments = init_moments((2,))
    for batch in batches:
        moments = update_observation_moments(moments, jnp.asarray(batch))
    rows = batches.reshape(-1, 2)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-4)
    expected = np.clip((batches - rows.mean(axis=0)) / rows.std(axis=0), -10, 10)
    np.testing.assert_allclose(standardise(moments, jnp.asarray(batches)), expected, atol=1e-4)


def test_a_table_has_the_mean_of_each_entry_and_one_variance():
    rows = np.random.default_rng(0).integers(0, 255, size=(9, 4, 3))
    moments = table_moments(jnp.asarray(rows))
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, np.full((4, 3), rows.var(axis=0).mean()), rtol=1e-5)

import jax
import jax.numpy as jnp
import numpy as np

from gemax.core.normaliser import deviation, init_normaliser, normalise, update_normaliser

DECAY = 0.9


def test_moments_equal_bias_corrected_moving_averages_of_the_moments():
    batches = np.random.default_rng(0).normal(loc=3.0, scale=2.0, size=(12, 50)).astype(np.float32)
    normaliser = init_normaliser()
    mean = square = weight = 0.0
    for batch in batches:
        normaliser = update_normaliser(normaliser, jnp.asarray(batch), decay=DECAY)
        mean = DECAY * mean + (1 - DECAY) * batch.mean(dtype=np.float64)
        square = DECAY * square + (1 - DECAY) * (batch.astype(np.float64) ** 2).mean()
        weight = DECAY * weight + (1 - DECAY)
        true_mean, true_square = mean / weight, square / weight
        np.testing.assert_allclose(normaliser.mean, true_mean, rtol=1e-5)
        np.testing.assert_allclose(normaliser.variance, true_square - true_mean**2, rtol=1e-4)


def test_first_batch_comes_out_standardised_then_scaled_and_shifted():
    batch = jnp.asarray([10.0, 20.0, 30.0])
    normaliser = update_normaliser(init_normaliser(), batch)
    out = normalise(normaliser, batch, scale=0.25, shift=0.7)
    np.testing.assert_allclose(out.mean(), 0.7, rtol=1e-5)
    np.testing.assert_allclose(out.std(), 0.25, rtol=1e-5)


def test_constant_and_single_rewards_come_out_finite_and_not_blown_up():
    for batch in (jnp.full(64, 1234.567), jnp.asarray([1e-3]), jnp.zeros(4), jnp.full(3, 1e12)):
        normaliser = update_normaliser(init_normaliser(), batch)
        for _ in range(3):
            normaliser = update_normaliser(normaliser, batch)
        assert jnp.abs(normalise(normaliser, batch)).max() < 1.0
        assert jnp.isfinite(deviation(normaliser))


def test_masked_values_do_not_count_and_an_empty_batch_changes_nothing():
    values, mask = jnp.asarray([1.0, jnp.nan, 3.0]), jnp.asarray([True, False, True])
    masked = update_normaliser(init_normaliser(), values, mask)
    np.testing.assert_allclose(
        masked, update_normaliser(init_normaliser(), jnp.asarray([1.0, 3.0])), rtol=1e-6
    )
    empty = jax.jit(update_normaliser)(masked, values, jnp.zeros(3, bool))
    np.testing.assert_array_equal(empty, masked)


def test_normaliser_that_has_seen_nothing_leaves_values_as_they_are():
    np.testing.assert_array_equal(normalise(init_normaliser(), jnp.asarray([2.0, -3.0])), [2.0, -3.0])

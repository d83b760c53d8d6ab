import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rewards.references import Oracle

from gemax.rewards.oracle import OracleSettings, log_probability, oracle
from gemax.testing import example_rollout, part_of

WORLDS, SQUARES, STEPS, ROLLOUTS = 3, 15, 5, 5
SETTINGS = OracleSettings(scale=0.5, shift=0.2)


def rollouts():
    whole = example_rollout(1, jnp.eye(SQUARES), WORLDS, STEPS * ROLLOUTS, num_squares=SQUARES)
    return [part_of(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]


@pytest.fixture(scope="module")
def method():
    method = oracle(SQUARES, SETTINGS)
    return method._replace(step=jax.jit(method.step))


def test_rewards_are_those_of_the_paper(method, key):
    reference = Oracle(SQUARES, SETTINGS.scale, SETTINGS.shift)
    state = method.init(key, jnp.eye(SQUARES), WORLDS)
    for rollout in rollouts():
        paid, state, _ = method.step(state, rollout, key)
        np.testing.assert_allclose(paid, reference.step(np.asarray(rollout.square)), rtol=1e-5, atol=1e-5)


def test_probabilities_and_a_plain_moving_average_of_counts_differ_by_a_constant(method, key):
    """`-ln count(x)` to the letter, with an average that starts at zero: normalisation takes the constant away."""
    state, average = method.init(key, jnp.eye(SQUARES), WORLDS), np.zeros(SQUARES)
    for rollout in rollouts():
        _, state, _ = method.step(state, rollout, key)
        square = np.asarray(rollout.square).reshape(-1)
        average = 0.99 * average + 0.01 * np.bincount(square, minlength=SQUARES)
        difference = -np.log(average[square]) + np.asarray(log_probability(state.visits))[square]
        np.testing.assert_allclose(difference, difference[0], rtol=1e-5)


def test_the_raw_reward_of_an_even_walk_is_the_entropy_of_the_world(method, key):
    rollout = rollouts()[0]._replace(square=jnp.arange(SQUARES).reshape(STEPS, WORLDS))
    state = method.init(key, jnp.eye(SQUARES), WORLDS)
    paid, _, metrics = method.step(state, rollout, key)
    np.testing.assert_allclose(metrics["raw_reward"], np.log(SQUARES), rtol=1e-6)
    np.testing.assert_allclose(paid, SETTINGS.shift, atol=0.05 * SETTINGS.scale)


def test_squares_that_nobody_visited_have_a_finite_logarithm():
    np.testing.assert_allclose(log_probability(jnp.zeros(4)), 0.0)
    np.testing.assert_allclose(log_probability(jnp.asarray([0.0, 100.0])), [-np.log(100.0), 0.0], rtol=1e-6)


def test_bad_settings_are_refused_by_name():
    with pytest.raises(ValueError, match="num_squares must be at least 1"):
        oracle(0, SETTINGS)
    with pytest.raises(ValueError, match="count_decay"):
        oracle(4, OracleSettings(count_decay=1.5))

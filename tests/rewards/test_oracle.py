import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rewards.references import Oracle

from gemax.rewards.oracle import log_visitation, oracle
from gemax.testing import example_transitions, slice_steps

ENVS, STATES, STEPS, ROLLOUTS = 3, 15, 5, 5
SCALE, SHIFT = 0.5, 0.2


def rollouts():
    whole = example_transitions(1, jnp.eye(STATES), ENVS, STEPS * ROLLOUTS, num_states=STATES)
    return [slice_steps(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]


@pytest.fixture(scope="module")
def method():
    method = oracle(STATES, SCALE, SHIFT, 0.99)
    return method._replace(step=jax.jit(method.step))


def test_rewards_equal_the_reference(method, key):
    reference = Oracle(STATES, SCALE, SHIFT)
    state = method.init(key, jnp.eye(STATES), ENVS)
    for transitions in rollouts():
        reward, state, _ = method.step(state, transitions, key)
        np.testing.assert_allclose(
            reward, reference.step(np.asarray(transitions.state_index)), rtol=1e-5, atol=1e-5
        )


def test_probabilities_and_a_plain_moving_average_of_counts_differ_by_a_constant(method, key):
    """`-ln count(x)` of an average that starts at zero. Normalisation removes the constant."""
    state, average = method.init(key, jnp.eye(STATES), ENVS), np.zeros(STATES)
    for transitions in rollouts():
        _, state, _ = method.step(state, transitions, key)
        states = np.asarray(transitions.state_index).reshape(-1)
        average = 0.99 * average + 0.01 * np.bincount(states, minlength=STATES)
        difference = -np.log(average[states]) + np.asarray(log_visitation(state.visits))[states]
        np.testing.assert_allclose(difference, difference[0], rtol=1e-5)


def test_raw_reward_of_uniform_visits_is_the_entropy_of_the_environment(method, key):
    transitions = rollouts()[0]._replace(state_index=jnp.arange(STATES).reshape(STEPS, ENVS))
    state = method.init(key, jnp.eye(STATES), ENVS)
    reward, _, metrics = method.step(state, transitions, key)
    np.testing.assert_allclose(metrics["raw_reward"], np.log(STATES), rtol=1e-6)
    np.testing.assert_allclose(reward, SHIFT, atol=0.05 * SCALE)


@pytest.mark.fault(21)
def test_unvisited_states_have_a_finite_log_probability():
    np.testing.assert_allclose(log_visitation(jnp.zeros(4)), 0.0)
    np.testing.assert_allclose(log_visitation(jnp.asarray([0.0, 100.0])), [-np.log(100.0), 0.0], rtol=1e-6)


def test_visits_to_states_of_the_same_cell_count_separately(method, key):
    """In 16-Leaves a state is the cell and the position of the reward."""
    transitions = rollouts()[0]._replace(cell=jnp.zeros((STEPS, ENVS), int))
    _, state, _ = method.step(method.init(key, jnp.eye(STATES), ENVS), transitions, key)
    counts = np.bincount(np.asarray(transitions.state_index).reshape(-1), minlength=STATES)
    np.testing.assert_array_equal(state.visits, counts)


def test_bad_settings_are_refused_by_name():
    with pytest.raises(ValueError, match="num_states must be at least 1"):
        oracle(0, SCALE, SHIFT, 0.99)
    with pytest.raises(ValueError, match="count_decay"):
        oracle(4, SCALE, SHIFT, count_decay=1.5)

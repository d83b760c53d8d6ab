import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.agent.distributions import CATEGORICAL, SQUASHED_GAUSSIAN, distribution_of, multi_categorical
from gemax.networks import AgentInputs, InputTables, lstm_inputs
from gemax.types import ContinuousActions, FiniteActions


def test_multi_categorical_equals_a_categorical_over_all_combinations(key):
    sizes = (2, 3)
    outputs = jax.random.normal(key, (5,))
    joint = (jax.nn.log_softmax(outputs[:2])[:, None] + jax.nn.log_softmax(outputs[2:])[None]).reshape(-1)
    for index in range(6):
        action = jnp.asarray(np.unravel_index(index, sizes))
        log_prob, entropy = multi_categorical(sizes).log_prob_and_entropy(outputs, action)
        expected, joint_entropy = CATEGORICAL.log_prob_and_entropy(joint, jnp.asarray(index))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-5)
        np.testing.assert_allclose(entropy, joint_entropy, rtol=1e-5)


def test_multi_categorical_samples_have_the_frequencies_of_their_probabilities(key):
    distribution, outputs = multi_categorical((2, 3)), jnp.asarray([0.0, 1.0, 0.5, -1.0, 2.0])
    actions = np.asarray(distribution.sample(jnp.broadcast_to(outputs, (20_000, 5)), key))
    for action in np.ndindex(2, 3):
        share = np.mean((actions == action).all(axis=1))
        probability = np.exp(distribution.log_prob_and_entropy(outputs, jnp.asarray(action))[0])
        assert share == pytest.approx(probability, abs=0.012)
    assert distribution.mode(outputs).tolist() == [1, 2]


@pytest.mark.parametrize(("raw_mean", "raw_std"), [(0.0, 0.0), (0.8, -1.0), (-1.5, 1.0)])
def test_squashed_density_integrates_to_one_and_has_the_returned_entropy(raw_mean, raw_std):
    # Integrates over u = artanh(a), in which the density is smooth: da = (1 - a²) du.
    pre_tanh = np.linspace(-7.0, 7.0, 20_001)
    action = jnp.asarray(np.tanh(pre_tanh), jnp.float32)[:, None]
    outputs = jnp.broadcast_to(jnp.asarray([raw_mean, raw_std]), (len(pre_tanh), 2))
    log_density, entropy = (
        np.asarray(n, float) for n in SQUASHED_GAUSSIAN.log_prob_and_entropy(outputs, action)
    )
    mass = np.exp(log_density) * (1.0 - np.tanh(pre_tanh) ** 2)
    assert np.trapezoid(mass, pre_tanh) == pytest.approx(1.0, abs=2e-3)
    assert entropy[0] == pytest.approx(-np.trapezoid(mass * log_density, pre_tanh), abs=5e-3)


def test_squashed_samples_follow_the_density(key):
    outputs = jnp.broadcast_to(jnp.asarray([0.3, 0.2]), (50_000, 2))
    actions = np.asarray(SQUASHED_GAUSSIAN.sample(outputs, key))[:, 0]
    share, edges = np.histogram(actions, bins=10, range=(-0.9, 0.9))
    middle = jnp.asarray((edges[1:] + edges[:-1]) / 2, jnp.float32)[:, None]
    density = np.exp(SQUASHED_GAUSSIAN.log_prob_and_entropy(outputs[:10], middle)[0])
    np.testing.assert_allclose(share / len(actions) / np.diff(edges), density, atol=0.02)
    assert np.abs(actions).max() < 1.0


@pytest.mark.parametrize("mean", [-50.0, 0.0, 50.0])
def test_squashed_gradients_are_finite_even_at_the_bounds(mean, key):
    def loss(outputs):
        action = jax.lax.stop_gradient(SQUASHED_GAUSSIAN.sample(outputs, key))
        log_prob, entropy = SQUASHED_GAUSSIAN.log_prob_and_entropy(outputs, action)
        return jnp.sum(log_prob + entropy)

    value, gradient = jax.value_and_grad(loss)(jnp.asarray([[mean, 0.0], [mean, -30.0]]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_squashed_means_are_bounded_outside_the_flat_part_of_tanh():
    outputs = jnp.asarray([[1e6, -30.0], [-1e6, -30.0]])
    np.testing.assert_allclose(SQUASHED_GAUSSIAN.mode(outputs)[:, 0], [0.9866, -0.9866], atol=1e-3)
    log_density, _ = SQUASHED_GAUSSIAN.log_prob_and_entropy(outputs, jnp.zeros((2, 1)))
    assert (log_density > -320.0).all()


@pytest.mark.parametrize("spec", [FiniteActions((3,)), FiniteActions((2, 3)), ContinuousActions(2)])
def test_previous_action_input_equals_a_product_with_the_encoded_action(spec, key):
    table = jax.random.normal(key, (spec.num_inputs, 4))
    tables = InputTables(jnp.concatenate([table, jnp.zeros((1, 4))]), jnp.zeros(4), jnp.zeros((1, 4)))
    outputs = jax.random.normal(key, (5, spec.num_outputs))
    action = distribution_of(spec).sample(outputs, key)
    for previous, encoding in [
        (spec.as_input(action), encode(spec, np.asarray(action))),
        (spec.null_input(5), np.zeros((5, spec.num_inputs))),
    ]:
        inputs = AgentInputs(previous, jnp.zeros(5), jnp.zeros(5, int))
        term = lstm_inputs(tables, jnp.zeros((5, 4)), inputs)
        np.testing.assert_allclose(term, encoding @ np.asarray(table), atol=1e-6)
    assert spec.as_input(action).shape == spec.null_input(5).shape
    assert spec.as_input(action).dtype == spec.null_input(5).dtype


def encode(spec, action):
    if isinstance(spec, ContinuousActions):
        return action
    parts = action.reshape(len(action), -1)
    return np.concatenate([np.eye(size)[parts[:, i]] for i, size in enumerate(spec.sizes)], axis=1)

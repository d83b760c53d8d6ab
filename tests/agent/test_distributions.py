import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.agent.acting import action_before, no_action
from gemax.agent.distributions import CATEGORICAL, SQUASHED_GAUSSIAN, categoricals, distribution_of
from gemax.networks import Inputs, Tables, lstm_inputs
from gemax.types import ContinuousActions, FiniteActions


def test_several_choices_are_one_choice_of_their_combinations(key):
    sizes = (2, 3)
    outputs = jax.random.normal(key, (5,))
    joint = (jax.nn.log_softmax(outputs[:2])[:, None] + jax.nn.log_softmax(outputs[2:])[None]).reshape(-1)
    for number in range(6):
        action = jnp.asarray(np.unravel_index(number, sizes))
        log_probability, entropy = categoricals(sizes).judge(outputs, action)
        expected, joint_entropy = CATEGORICAL.judge(joint, jnp.asarray(number))
        np.testing.assert_allclose(log_probability, expected, rtol=1e-5)
        np.testing.assert_allclose(entropy, joint_entropy, rtol=1e-5)


def test_several_choices_are_drawn_as_often_as_they_are_likely(key):
    distribution, outputs = categoricals((2, 3)), jnp.asarray([0.0, 1.0, 0.5, -1.0, 2.0])
    actions = np.asarray(distribution.draw(jnp.broadcast_to(outputs, (20_000, 5)), key))
    for action in np.ndindex(2, 3):
        share = np.mean((actions == action).all(axis=1))
        probability = np.exp(distribution.judge(outputs, jnp.asarray(action))[0])
        assert share == pytest.approx(probability, abs=0.012)
    assert distribution.likeliest(outputs).tolist() == [1, 2]


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 0.0), (0.8, -1.0), (-1.5, 1.0)])
def test_squashed_densities_integrate_to_one_and_have_the_entropy_that_is_told(mean, spread):
    # Over u = artanh(a), where the density is smooth: da = (1 - a²) du.
    before = np.linspace(-7.0, 7.0, 20_001)
    action = jnp.asarray(np.tanh(before), jnp.float32)[:, None]
    outputs = jnp.broadcast_to(jnp.asarray([mean, spread]), (len(before), 2))
    log_density, entropy = (np.asarray(n, float) for n in SQUASHED_GAUSSIAN.judge(outputs, action))
    mass = np.exp(log_density) * (1.0 - np.tanh(before) ** 2)
    assert np.trapezoid(mass, before) == pytest.approx(1.0, abs=2e-3)
    assert entropy[0] == pytest.approx(-np.trapezoid(mass * log_density, before), abs=5e-3)


def test_squashed_actions_are_drawn_as_their_density_says(key):
    outputs = jnp.broadcast_to(jnp.asarray([0.3, 0.2]), (50_000, 2))
    actions = np.asarray(SQUASHED_GAUSSIAN.draw(outputs, key))[:, 0]
    share, edges = np.histogram(actions, bins=10, range=(-0.9, 0.9))
    middle = jnp.asarray((edges[1:] + edges[:-1]) / 2, jnp.float32)[:, None]
    density = np.exp(SQUASHED_GAUSSIAN.judge(outputs[:10], middle)[0])
    np.testing.assert_allclose(share / len(actions) / np.diff(edges), density, atol=0.02)
    assert np.abs(actions).max() < 1.0


@pytest.mark.parametrize("mean", [-50.0, 0.0, 50.0])
def test_squashed_actions_have_finite_gradients_even_at_the_ends(mean, key):
    def loss(outputs):
        action = jax.lax.stop_gradient(SQUASHED_GAUSSIAN.draw(outputs, key))
        log_probability, entropy = SQUASHED_GAUSSIAN.judge(outputs, action)
        return jnp.sum(log_probability + entropy)

    value, gradient = jax.value_and_grad(loss)(jnp.asarray([[mean, 0.0], [mean, -30.0]]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_means_that_run_away_are_held_where_actions_still_differ():
    outputs = jnp.asarray([[1e6, -30.0], [-1e6, -30.0]])
    np.testing.assert_allclose(SQUASHED_GAUSSIAN.likeliest(outputs)[:, 0], [0.9866, -0.9866], atol=1e-3)
    log_density, _ = SQUASHED_GAUSSIAN.judge(outputs, jnp.zeros((2, 1)))
    assert (log_density > -320.0).all()


@pytest.mark.parametrize("spec", [FiniteActions((3,)), FiniteActions((2, 3)), ContinuousActions(2)])
def test_actions_enter_the_network_as_their_encoding_would(spec, key):
    table = jax.random.normal(key, (spec.num_inputs, 4))
    tables = Tables(jnp.concatenate([table, jnp.zeros((1, 4))]), jnp.zeros(4), jnp.zeros((1, 4)))
    outputs = jax.random.normal(key, (5, spec.num_outputs))
    action = distribution_of(spec).draw(outputs, key)
    for previous, encoding in [
        (action_before(spec, action), _encoded(spec, np.asarray(action))),
        (no_action(spec, 5), np.zeros((5, spec.num_inputs))),
    ]:
        inputs = Inputs(previous, jnp.zeros(5), jnp.zeros(5, int))
        term = lstm_inputs(tables, jnp.zeros((5, 4)), inputs)
        np.testing.assert_allclose(term, encoding @ np.asarray(table), atol=1e-6)
    assert action_before(spec, action).shape == no_action(spec, 5).shape
    assert action_before(spec, action).dtype == no_action(spec, 5).dtype


def _encoded(spec, action):
    if isinstance(spec, ContinuousActions):
        return action
    parts = action.reshape(len(action), -1)
    return np.concatenate([np.eye(size)[parts[:, i]] for i, size in enumerate(spec.sizes)], axis=1)

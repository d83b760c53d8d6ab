import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.rewards.references import E3b, at_steps, dense_layers

from gemax.networks import mlp
from gemax.rewards.e3b import E3bSettings, e3b, elliptical_bonus, empty_memory
from gemax.testing import example_transitions, slice_steps, without_table

ENVS, ROWS, STEPS, ROLLOUTS, ACTIONS, RATE, SCALE, RIDGE = 3, 9, 7, 4, 4, 0.1, 0.5, 0.1
NETWORK = mlp((6, 4))
SETTINGS = E3bSettings(hidden_size=8)
METHOD = e3b(NETWORK, ACTIONS, optax.sgd(RATE), SCALE, SETTINGS)
METHOD = METHOD._replace(
    reward=jax.jit(METHOD.reward), step=jax.jit(METHOD.step), remember=jax.jit(METHOD.remember)
)
ALL = jnp.ones(ENVS, bool)


def rows_of():
    return jax.random.normal(jax.random.key(7), (ROWS, 3))


def rollouts(is_padded=False):
    """Returns rollouts with episodes that start and end anywhere. Padding is random, also at starts of episodes."""
    whole = example_transitions(1, rows_of(), ENVS, STEPS * ROLLOUTS, num_actions=ACTIONS)
    padding = np.random.default_rng(0).random((STEPS * ROLLOUTS, ENVS)) < (0.3 if is_padded else 0.0)
    whole = whole._replace(is_valid=jnp.asarray(~padding))
    return [slice_steps(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]


def to_numpy(transitions):
    observations = [
        at_steps(observation, ENVS) for observation in (transitions.observation, transitions.next_observation)
    ]
    others = (transitions.action, transitions.is_first, transitions.is_valid)
    return *observations, *(np.asarray(field) for field in others)


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("table", [True, False])
def test_rewards_and_learning_equal_algorithm_1(table, is_padded, key):
    state = METHOD.init(key, rows_of(), ENVS)
    reference = E3b(state.parameters, ENVS, RATE, ridge=RIDGE, scale=SCALE)
    for transitions in rollouts(is_padded):
        given = transitions if table else without_table(transitions)
        reward, state, _ = METHOD.step(state, given, key)
        np.testing.assert_allclose(reward, reference.step(*to_numpy(transitions)), rtol=1e-4, atol=1e-6)
        assert ((np.asarray(reward) > 0) == np.asarray(transitions.is_valid)).all()
    for name, layers in (("embedding", reference.f), ("action", reference.h)):
        for found, expected in zip(dense_layers(state.parameters[name]), layers, strict=True):
            for weight, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)


def test_rewards_per_step_equal_those_of_the_whole_rollout(key):
    first, second, *_ = rollouts(is_padded=True)
    _, state, _ = METHOD.step(METHOD.init(key, rows_of(), ENVS), first, key)
    whole, after, _ = METHOD.step(state, second, key)
    for t in range(STEPS):
        step = slice_steps(second, t, t + 1)
        np.testing.assert_allclose(METHOD.reward(state, step, key)[0], whole[t], rtol=1e-5)
        # The argument or the transitions tell which steps are padding.
        is_valid = step.is_valid[0] if t % 2 else ALL
        state = METHOD.remember(state, step._replace(is_valid=None) if t % 2 else step, is_valid)
    np.testing.assert_allclose(state.memory.root, after.memory.root, rtol=1e-5, atol=1e-6)


compiled_bonus = jax.jit(elliptical_bonus, static_argnames="ridge")


def walk(embedding, starts=()):
    """Returns the bonus of embeddings [time, D] of one environment, with episodes that start at 0 and at `starts`."""
    embedding = jnp.asarray(embedding, float)[:, None]
    is_first = np.isin(np.arange(len(embedding)), [0, *starts])[:, None]
    memory = empty_memory(1, embedding.shape[-1], RIDGE)
    return compiled_bonus(memory, embedding, jnp.asarray(is_first), jnp.ones_like(is_first), RIDGE)


def test_the_bonus_of_one_hot_states_is_an_inverse_count():
    """The counts start again after the reset."""
    bonus, _ = walk(np.eye(3)[[0, 0, 1, 0, 0, 1, 1, 1]], starts=(4,))
    visits = np.asarray([0, 1, 0, 2, 0, 0, 1, 2])
    np.testing.assert_allclose(bonus[:, 0], 1 / (RIDGE + visits), rtol=1e-5)


def test_the_root_is_that_of_the_inverse_covariance_of_the_episode(key):
    embedding = np.asarray(jax.random.normal(key, (8, 3)), np.float64)
    _, memory = walk(embedding, starts=(4,))
    covariance = RIDGE * np.eye(3) + embedding[4:].T @ embedding[4:]
    np.testing.assert_allclose(memory.root[0] @ memory.root[0].T, np.linalg.inv(covariance), rtol=1e-4)


@pytest.mark.parametrize("norm", [1e2, 1e4])
def test_the_bonus_is_accurate_for_large_embeddings(norm):
    """In float32, the rounding error of C⁻¹ itself would exceed its smallest eigenvalue, and b could be negative."""
    direction = np.asarray([0.6, 0.8, 0.0])
    bonus, _ = walk(norm * np.tile(direction, (6, 1)))
    np.testing.assert_allclose(bonus[1:, 0], 1 / np.arange(1, 6), rtol=1e-2)


def test_a_non_finite_embedding_is_not_remembered():
    bonus, memory = walk([[1.0, 0.0], [np.nan, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(bonus[[0, 2], 0], [1 / RIDGE, 1 / (RIDGE + 1)], rtol=1e-5)
    assert np.isfinite(memory.root).all()


def test_rewards_are_in_units_of_the_deviation_of_earlier_rollouts(key):
    """A rollout with another spread does not change the unit of its own rewards."""
    first, second, *_ = rollouts()
    state = METHOD.init(key, rows_of(), ENVS)
    reward, state, metrics = METHOD.step(state, first, key)
    np.testing.assert_allclose(np.std(reward), SCALE, rtol=1e-4)
    _, _, later = METHOD.step(state, second, key)
    ratio = float(later["elliptical_bonus"] / metrics["elliptical_bonus_std"])
    np.testing.assert_allclose(np.mean(METHOD.reward(state, second, key)), SCALE * ratio, rtol=1e-4)


def test_bad_settings_are_refused_by_name():
    for name, settings in {
        "ridge": E3bSettings(ridge=0.0),
        "hidden_size": E3bSettings(hidden_size=0),
        "bonus_decay": E3bSettings(bonus_decay=2.0),
    }.items():
        with pytest.raises(ValueError, match=name):
            e3b(NETWORK, ACTIONS, optax.sgd(RATE), SCALE, settings)
    with pytest.raises(ValueError, match="scale"):
        e3b(NETWORK, ACTIONS, optax.sgd(RATE), -1.0, SETTINGS)
    with pytest.raises(ValueError, match="num_actions"):
        e3b(NETWORK, 0, optax.sgd(RATE), SCALE, SETTINGS)

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.rewards.references import Rnd, at_steps, dense_layers

from gemax.core.moments import update_row_moments
from gemax.networks import mlp
from gemax.rewards.config import RndDivisor
from gemax.rewards.rnd import RndSettings, init_row_moments, normalise_rows, rnd
from gemax.testing import example_transitions, slice_steps, without_table

ENVS, ROWS, STEPS, ROLLOUTS, RATE, SCALE = 4, 11, 5, 4, 0.05, 0.02


def compiled(divisor, return_decay=1.0):
    settings = RndSettings(divisor=divisor, return_decay=return_decay)
    method = rnd(mlp((5,)), optax.sgd(RATE), SCALE, settings)
    return method._replace(step=jax.jit(method.step))


METHODS = {divisor: compiled(divisor) for divisor in get_args(RndDivisor)}
METHOD = METHODS["return"]
DECAYING = compiled("return", return_decay=0.95)


def rows_of(seed=0):
    """Returns observations, one of them so large that it is clipped."""
    return (
        (jax.random.normal(jax.random.key(seed), (ROWS, 3)) * jnp.asarray([[0.1, 1.0, 9.0]])).at[0].mul(40.0)
    )


def rollouts(table):
    whole = example_transitions(1, rows_of(), ENVS, STEPS * ROLLOUTS)
    parts = [slice_steps(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]
    return parts if table else [without_table(part) for part in parts]


@pytest.mark.parametrize(
    ("divisor", "table", "return_decay"),
    [("return", True, 1.0), ("return", False, 1.0), ("return", True, 0.95), ("error", True, 1.0)],
)
def test_rewards_and_learning_equal_the_reference(divisor, table, return_decay, key):
    method = METHODS[divisor] if return_decay == 1.0 else DECAYING
    state = method.init(key, rows_of(), ENVS)
    reference = Rnd(state.distillation.target, state.distillation.predictor, RATE, return_decay)
    for transitions in rollouts(table):
        reward, state, metrics = method.step(state, transitions, key)
        error = reference.step(at_steps(transitions.next_observation, ENVS))
        np.testing.assert_allclose(reward, reference.reward(error, SCALE, divisor), rtol=1e-5)
        np.testing.assert_allclose(metrics["rnd_loss"], error.mean(), rtol=1e-5)
    if divisor == "return":
        np.testing.assert_allclose(metrics["intrinsic_return_std"], reference.return_std(), rtol=1e-5)
    state = state.distillation
    for found, expected in zip(dense_layers(state.predictor)[0], reference.predictor, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state.observations.mean, reference.observations.mean, rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(state.observations.variance), reference.observations.std, rtol=1e-5)


def test_frequent_observations_have_low_rewards_and_the_target_stays(key):
    """The agent visits three of the rows 100 times, then all of them."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, 3)), float)
    transitions = example_transitions(0, rows, ENVS, STEPS)

    def visiting(num_rows):
        row = jnp.asarray(np.arange(STEPS * ENVS).reshape(STEPS, ENVS) % num_rows, int)
        return transitions._replace(next_observation=transitions.next_observation._replace(row_index=row))

    start = METHOD.init(key, rows, ENVS)
    state, familiar = start, visiting(3)
    for _ in range(100):
        _, state, _ = METHOD.step(state, familiar, key)
    reward, state, _ = METHOD.step(state, visiting(ROWS), key)
    reward, is_familiar = np.asarray(reward), np.asarray(visiting(ROWS).next_observation.row_index) < 3
    assert reward[is_familiar].mean() < 0.2 * reward[~is_familiar].mean()
    jax.tree.map(np.testing.assert_array_equal, start.distillation.target, state.distillation.target)


@jax.jit
def update_and_normalise(moments, rows, visits):
    moments = update_row_moments(moments, rows, visits, decay=0.95)
    return moments, normalise_rows(moments, rows, 5.0)


def test_observations_are_standardised_and_clipped_at_five():
    rows = np.concatenate([np.random.default_rng(0).normal(3.0, 7.0, (200, 2)), np.full((1, 2), 1e6)])
    rows, visits = jnp.asarray(rows), jnp.asarray(np.arange(201.0) < 200, float)
    _, normalised = update_and_normalise(init_row_moments(rows[0]), rows, visits)
    normalised = np.asarray(normalised)
    np.testing.assert_allclose(normalised[:-1].mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(normalised[:-1].std(axis=0), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(normalised[-1], 5.0)


def test_a_constant_entry_is_normalised_to_exactly_zero():
    rows = jnp.asarray(np.tile([[0.1, 1e6]], (201, 1)))
    moments = init_row_moments(rows[0])
    for visits in (np.arange(201.0), np.full(201, 1 / 3)):
        moments, normalised = update_and_normalise(moments, rows, jnp.asarray(visits))
        np.testing.assert_array_equal(normalised, 0.0)


@pytest.fixture
def equal_errors(key):
    """A rollout of equal observations, and a state whose predictor is wrong about them."""
    state = METHOD.init(key, rows_of(), ENVS)
    predictor = jax.tree.map(lambda leaf: leaf + 1.0, state.distillation.predictor)
    state = state._replace(distillation=state.distillation._replace(predictor=predictor))
    return state, example_transitions(0, jnp.ones((ROWS, 3)), ENVS, STEPS)


def test_equal_errors_give_a_reward_of_a_hundred_times_the_scale(equal_errors, key):
    reward, _, _ = METHODS["error"].step(*equal_errors, key)
    np.testing.assert_allclose(reward, 100 * SCALE, rtol=1e-4)


def test_the_return_of_equal_errors_grows_over_the_steps(equal_errors, key):
    """Divided by its standard deviation, an error that stays the same gives a reward independent of its size."""
    growing = np.cumsum(0.99 ** np.arange(STEPS))
    reward, state, _ = METHOD.step(*equal_errors, key)
    np.testing.assert_allclose(reward, SCALE / growing.std(), rtol=1e-4)
    share = np.asarray(state.return_moments.mean / state.intrinsic_return)
    np.testing.assert_allclose(share, growing.mean() / growing[-1], rtol=1e-5)


def test_both_networks_do_not_see_an_ignored_feature(key):
    method = rnd(mlp((5,)), optax.sgd(RATE), SCALE, RndSettings(), ignored_feature=1)
    transitions = example_transitions(0, rows_of(), ENVS, STEPS)
    later = transitions._replace(
        next_observation=transitions.next_observation._replace(rows=rows_of().at[:, 1].multiply(3.0))
    )
    state = method.init(key, rows_of(), ENVS)
    reward = jax.jit(method.reward)
    np.testing.assert_array_equal(reward(state, transitions, key), reward(state, later, key))


def test_bad_settings_are_refused_by_name():
    for name, settings in {
        "observation_decay": RndSettings(observation_decay=1.1),
        "error_decay": RndSettings(error_decay=-0.1),
        "max_observation": RndSettings(max_observation=0.0),
        "return_discount": RndSettings(return_discount=1.1),
    }.items():
        with pytest.raises(ValueError, match=name):
            rnd(mlp((5,)), optax.sgd(RATE), SCALE, settings)
    with pytest.raises(ValueError, match="scale"):
        rnd(mlp((5,)), optax.sgd(RATE), -1.0, RndSettings())

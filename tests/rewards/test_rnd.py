import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.rewards.references import Rnd, at_steps, dense_layers

from gemax.networks import mlp
from gemax.rewards.rnd import RndSettings, init_moments, normalise_observations, rnd, update_moments
from gemax.testing import example_rollout, part_of, without_table

WORLDS, ROWS, STEPS, ROLLOUTS, RATE = 4, 11, 5, 4, 0.05
SETTINGS = RndSettings(scale=0.02)
METHOD = rnd(mlp((5,)), optax.sgd(RATE), SETTINGS)
METHOD = METHOD._replace(step=jax.jit(METHOD.step))


def rows_of(seed=0):
    """One of them so far out that it is cut."""
    return (
        (jax.random.normal(jax.random.key(seed), (ROWS, 3)) * jnp.asarray([[0.1, 1.0, 9.0]])).at[0].mul(40.0)
    )


def rollouts(table):
    whole = example_rollout(1, rows_of(), WORLDS, STEPS * ROLLOUTS)
    parts = [part_of(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]
    return parts if table else [without_table(part) for part in parts]


@pytest.mark.parametrize("table", [True, False])
def test_rewards_and_learning_are_those_of_the_paper(table, key):
    state = METHOD.init(key, rows_of(), WORLDS)
    reference = Rnd(state.target, state.predictor, RATE)
    for rollout in rollouts(table):
        paid, state, metrics = METHOD.step(state, rollout, key)
        error = reference.step(at_steps(rollout.arrived, WORLDS))
        np.testing.assert_allclose(paid, reference.reward(error, SETTINGS.scale), rtol=1e-5)
        np.testing.assert_allclose(metrics["rnd_loss"], error.mean(), rtol=1e-5)
    for found, expected in zip(dense_layers(state.predictor)[0], reference.predictor, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state.observations.mean, reference.observations.mean, rtol=1e-5)
    np.testing.assert_allclose(
        np.sqrt(state.observations.variance), reference.observations.deviation, rtol=1e-5
    )


def test_what_is_often_seen_becomes_familiar_and_the_target_stays(key):
    """The agent keeps to three of the rows, then looks at all of them."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, 3)), float)
    rollout = example_rollout(0, rows, WORLDS, STEPS)

    def going_through(num_rows):
        row = jnp.asarray(np.arange(STEPS * WORLDS).reshape(STEPS, WORLDS) % num_rows, int)
        return rollout._replace(arrived=rollout.arrived._replace(row=row))

    start = METHOD.init(key, rows, WORLDS)
    state, at_home = start, going_through(3)
    for _ in range(100):
        _, state, _ = METHOD.step(state, at_home, key)
    paid, state, _ = METHOD.step(state, going_through(ROWS), key)
    paid, is_home = np.asarray(paid), np.asarray(going_through(ROWS).arrived.row) < 3
    assert paid[is_home].mean() < 0.2 * paid[~is_home].mean()
    jax.tree.map(np.testing.assert_array_equal, start.target, state.target)


@jax.jit
def count_and_normalise(moments, rows, visits):
    moments = update_moments(moments, rows, visits, decay=0.95)
    return moments, normalise_observations(moments, rows, largest=5.0)


def test_observations_have_mean_zero_and_deviation_one_and_are_cut_at_five():
    rows = np.concatenate([np.random.default_rng(0).normal(3.0, 7.0, (200, 2)), np.full((1, 2), 1e6)])
    rows, visits = jnp.asarray(rows), jnp.asarray(np.arange(201.0) < 200, float)
    _, normalised = count_and_normalise(init_moments(rows[0]), rows, visits)
    normalised = np.asarray(normalised)
    np.testing.assert_allclose(normalised[:-1].mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(normalised[:-1].std(axis=0), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(normalised[-1], 5.0)


def test_an_entry_that_never_changes_is_exactly_zero_whatever_its_size():
    rows = jnp.asarray(np.tile([[0.1, 1e6]], (201, 1)))
    moments = init_moments(rows[0])
    for visits in (np.arange(201.0), np.full(201, 1 / 3)):
        moments, normalised = count_and_normalise(moments, rows, jnp.asarray(visits))
        np.testing.assert_array_equal(normalised, 0.0)


def test_errors_that_are_all_the_same_pay_a_hundred_scales_and_no_more(key):
    rollout = example_rollout(0, jnp.ones((ROWS, 3)), WORLDS, STEPS)
    state = METHOD.init(key, rows_of(), WORLDS)
    state = state._replace(predictor=jax.tree.map(lambda leaf: leaf + 1.0, state.predictor))
    np.testing.assert_allclose(METHOD.step(state, rollout, key)[0], 100 * SETTINGS.scale, rtol=1e-4)


def test_time_can_be_kept_from_both_networks(key):
    method = rnd(mlp((5,)), optax.sgd(RATE), SETTINGS, hidden_feature=1)
    rollout = example_rollout(0, rows_of(), WORLDS, STEPS)
    later = rollout._replace(arrived=rollout.arrived._replace(rows=rows_of().at[:, 1].multiply(3.0)))
    state = method.init(key, rows_of(), WORLDS)
    reward = jax.jit(method.reward)
    np.testing.assert_array_equal(reward(state, rollout, key), reward(state, later, key))


def test_bad_settings_are_refused_by_name():
    for name, settings in {
        "scale": RndSettings(scale=-1.0),
        "observation_decay": RndSettings(observation_decay=1.1),
        "error_decay": RndSettings(error_decay=-0.1),
        "largest_observation": RndSettings(largest_observation=0.0),
    }.items():
        with pytest.raises(ValueError, match=name):
            rnd(mlp((5,)), optax.sgd(RATE), settings)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rewards.references import Re3, at_steps

from gemax.networks import mlp
from gemax.rewards.re3 import Re3Settings, mean_nearest_distance, re3
from gemax.testing import example_transitions, slice_steps, without_table

ENVS, ROWS, STEPS, ROLLOUTS, SCALE, CAPACITY = 3, 9, 7, 4, 0.5, 15
NETWORK = mlp((6, 4))
SETTINGS = Re3Settings(memory_size=CAPACITY)


def compiled(**changes):
    method = re3(NETWORK, SCALE, SETTINGS, **changes)
    remember = jax.jit(method.remember) if method.remember else None
    return method._replace(reward=jax.jit(method.reward), step=jax.jit(method.step), remember=remember)


METHODS = {False: compiled(), True: compiled(has_memory=True)}


def rows_of(num_rows=ROWS):
    return jax.random.normal(jax.random.key(7), (num_rows, 3))


def rollouts(num_rows=ROWS, is_padded=False):
    whole = example_transitions(1, rows_of(num_rows), ENVS, STEPS * ROLLOUTS)
    padding = np.random.default_rng(0).random((STEPS * ROLLOUTS, ENVS)) < (0.3 if is_padded else 0.0)
    whole = whole._replace(is_valid=jnp.asarray(~padding))
    return [slice_steps(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]


# A table that is smaller than a rollout, one that is larger, and no table.
@pytest.mark.parametrize(("num_rows", "table"), [(ROWS, True), (40, True), (ROWS, False)])
@pytest.mark.parametrize("has_memory", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
def test_rewards_equal_the_reference(num_rows, table, has_memory, is_padded, key):
    method = METHODS[has_memory]
    state = start = method.init(key, rows_of(num_rows), ENVS)
    reference = Re3(state.encoder, k=3, scale=SCALE, capacity=CAPACITY if has_memory else None)
    for transitions in rollouts(num_rows, is_padded):
        reward, state, _ = method.step(state, transitions if table else without_table(transitions), key)
        expected = reference.step(
            at_steps(transitions.next_observation, ENVS), np.asarray(transitions.is_valid)
        )
        np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-6)
        assert (np.asarray(reward) > 0).any()
    jax.tree.map(np.testing.assert_array_equal, start.encoder, state.encoder)


def test_rewards_per_step_equal_those_of_the_whole_rollout(key):
    method = METHODS[True]
    first, second, *_ = rollouts(is_padded=True)
    _, state, _ = method.step(method.init(key, rows_of(), ENVS), first, key)
    whole, after, _ = method.step(state, second, key)
    for t in range(STEPS):
        step = slice_steps(second, t, t + 1)
        np.testing.assert_allclose(method.reward(state, step, key)[0], whole[t], rtol=1e-5, atol=1e-7)
        # The argument or the transitions tell which steps are padding.
        is_valid = step.is_valid[0] if t % 2 else jnp.ones(ENVS, bool)
        state = method.remember(state, step._replace(is_valid=None) if t % 2 else step, is_valid)
    jax.tree.map(np.testing.assert_array_equal, state.memory, after.memory)


@pytest.mark.fault(21)
def test_the_first_step_has_no_neighbours_in_the_memory_and_no_reward(key):
    method = METHODS[True]
    reward = method.reward(method.init(key, rows_of(), ENVS), rollouts()[0], key)
    assert not reward[0].any()
    assert reward[1:].any()


def test_states_that_are_visited_more_often_than_k_have_no_reward(key):
    """Row 0 is visited four times: each visit has three neighbours at distance zero. Row 1 is visited three times."""
    row = np.asarray([[0, 0, 0], [0, 1, 1], [1, 2, 3], [4, 5, 6], [7, 8, 2], [3, 4, 5], [6, 7, 8]])
    transitions = rollouts()[0]
    transitions = transitions._replace(
        next_observation=transitions.next_observation._replace(row_index=jnp.asarray(row))
    )
    method = METHODS[False]
    reward, _, metrics = method.step(method.init(key, rows_of(), ENVS), transitions, key)
    np.testing.assert_array_equal(np.asarray(reward) == 0, row == 0)
    np.testing.assert_allclose(metrics["zero_distance_share"], 4 / 21, rtol=1e-5)


def test_distances_of_many_points_equal_those_pair_by_pair():
    """So many that they are compared in blocks, by a matrix product. Every tenth point has a copy."""
    num_points = 2100
    points = np.random.default_rng(0).normal(5.0, 1.0, (num_points, 3)).astype(np.float32)
    points[::10] = points[1::10]
    index = jnp.arange(num_points)
    found, exists = jax.jit(
        lambda points: mean_nearest_distance(points, index, points, lambda own: 1.0 - (index == own), 3)
    )(jnp.asarray(points))
    assert exists.all()
    checked = np.arange(0, num_points, 7)
    pairs = np.linalg.norm(points[checked, None].astype(np.float64) - points[None], axis=-1)
    np.testing.assert_allclose(
        found[checked], np.sort(pairs, axis=1)[:, 1:4].mean(axis=1), rtol=1e-3, atol=1e-4
    )


def test_an_ignored_feature_has_no_effect(key):
    method = compiled(ignored_feature=1)
    transitions = rollouts()[0]
    later = transitions._replace(
        next_observation=transitions.next_observation._replace(rows=rows_of().at[:, 1].multiply(3.0))
    )
    state = method.init(key, rows_of(), ENVS)
    np.testing.assert_array_equal(method.reward(state, transitions, key), method.reward(state, later, key))


def test_bad_settings_are_refused_by_name():
    for name, settings in {
        "num_neighbours": Re3Settings(num_neighbours=0),
        "memory_size": Re3Settings(memory_size=0),
        "distance_decay": Re3Settings(distance_decay=-0.1),
    }.items():
        with pytest.raises(ValueError, match=name):
            re3(NETWORK, SCALE, settings)
    with pytest.raises(ValueError, match="scale"):
        re3(NETWORK, -1.0, SETTINGS)

"""GEM with negatives from this and earlier rollouts of other environments."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards import negatives_earlier
from gemax.rewards.build import RewardInputs, build_gem
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_earlier import earlier_steps, is_remembered
from gemax.testing import example_transitions, slice_steps
from gemax.types import Observations

SIZE, ENVS, STEPS = 4, 6, 12
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
CONFIG = IntrinsicConfig(
    intrinsic_scale=1.0, normalise_reward=False, embedding_size=SIZE, negative_memory_period=1
)
ROWS = jax.random.normal(jax.random.key(0), (10, 3))
TRANSITIONS = example_transitions(3, ROWS, ENVS, STEPS)
KEY = jax.random.key(0)


def build(negatives, config=CONFIG, learning_rate=0.1):
    method = gem(NETWORK, optax.sgd(learning_rate), config, (Term(negatives),))
    return method._replace(reward=jax.jit(method.reward), step=jax.jit(method.step))


def initial_state(method):
    return method.init(jax.random.key(1), ROWS, ENVS)


def reference(parameters, transitions, first_step: int):
    """Returns the reward of the steps from `first_step` on, pair by pair in NumPy.

    The negatives are all steps, also earlier ones, of the other environments.
    """
    outputs = np.asarray(NETWORK.apply(parameters, ROWS))
    g = np.exp(np.asarray(log_g_of(jnp.asarray(outputs[:, SIZE]))))
    row = np.asarray(transitions.next_observation.row_index)
    reward = np.zeros(row.shape)
    for t, env in np.ndindex(row.shape):
        x = row[t, env]
        others = np.delete(row, env, axis=1).reshape(-1)
        k = [np.exp(-np.linalg.norm(outputs[x, :SIZE] - outputs[y, :SIZE])) for y in others]
        reward[t, env] = 1 + np.log(g[x]) - np.mean(np.asarray(k) * (g[x] + g[others]))
    return reward[first_step:]


def test_reward_equals_the_paper_with_the_steps_of_this_and_earlier_rollouts_as_negatives():
    method = build(earlier_steps(CONFIG, capacity=20), learning_rate=0.0)
    state = initial_state(method)
    first, state, _ = method.step(state, slice_steps(TRANSITIONS, 0, 5), KEY)
    later, _, _ = method.step(state, slice_steps(TRANSITIONS, 5, STEPS), KEY)
    expected = reference(state.parameters, slice_steps(TRANSITIONS, 0, 5), 0)
    np.testing.assert_allclose(first, expected, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(later, reference(state.parameters, TRANSITIONS, 5), rtol=2e-5, atol=1e-5)


def test_steps_beyond_the_capacity_are_forgotten():
    method = build(earlier_steps(CONFIG, capacity=3), learning_rate=0.0)
    _, state, _ = method.step(initial_state(method), slice_steps(TRANSITIONS, 0, 8), KEY)
    later, _, _ = method.step(state, slice_steps(TRANSITIONS, 8, STEPS), KEY)
    expected = reference(state.parameters, slice_steps(TRANSITIONS, 5, STEPS), 3)
    np.testing.assert_allclose(later, expected, rtol=2e-5, atol=1e-5)


def test_only_one_of_several_steps_is_remembered_if_episodes_overlap(monkeypatch):
    """The negatives of the second rollout are its steps, and the last remembered ones of the first."""
    monkeypatch.setattr(negatives_earlier, "MIN_OVERLAP", 0.0)
    config = dataclasses.replace(CONFIG, negative_memory_period=3)
    method = build(earlier_steps(config, capacity=2), config, learning_rate=0.0)
    _, state, _ = method.step(initial_state(method), slice_steps(TRANSITIONS, 0, 9), KEY)
    later, _, _ = method.step(state, slice_steps(TRANSITIONS, 9, STEPS), KEY)
    kept = np.flatnonzero(is_remembered(jnp.arange(9), 3))
    assert kept.tolist() == [0, 2, 5, 7]
    index = jnp.concatenate([kept[-2:], jnp.arange(9, STEPS)])
    row = TRANSITIONS.next_observation.row_index[index]
    remembered = TRANSITIONS._replace(next_observation=TRANSITIONS.next_observation._replace(row_index=row))
    expected = reference(state.parameters, remembered, 2)
    np.testing.assert_allclose(later, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("overlap", "kept"), [(0.95, [2, 5, 7, 10]), (0.85, [8, 9, 10, 11]), (np.nan, [2, 5, 7, 10])]
)
def test_every_step_is_remembered_if_layouts_differ(monkeypatch, overlap, kept):
    monkeypatch.setattr(negatives_earlier, "overlap_of_steps", lambda *arguments: jnp.asarray(overlap))
    config = dataclasses.replace(CONFIG, negative_memory_period=3)
    method = build(earlier_steps(config, capacity=4), config)
    state = method.step(initial_state(method), TRANSITIONS, KEY)[1]
    expected = ROWS[TRANSITIONS.next_observation.row_index[jnp.asarray(kept)]]
    np.testing.assert_array_equal(state.terms[0].memory.rows, expected)
    # It stays like that when the policy has learned to solve all layouts, and episodes overlap again.
    monkeypatch.setattr(negatives_earlier, "overlap_of_steps", lambda *arguments: jnp.asarray(1.0))
    later = build(earlier_steps(config, capacity=4), config).step(state, TRANSITIONS, KEY)[1]
    np.testing.assert_array_equal(later.terms[0].memory.period, 1 if overlap == 0.85 else 3)


@pytest.mark.parametrize("period", [1, 2, 16, 100])
def test_the_share_of_remembered_steps_is_the_same_at_every_step_of_an_episode(period):
    times = jnp.arange(200_000)
    found = np.asarray(is_remembered(times, period))
    for episode_length in (16, 20, 32, 100):
        by_step = found[: len(found) // episode_length * episode_length].reshape(-1, episode_length)
        np.testing.assert_allclose(by_step.mean(axis=0), 1 / period, rtol=0.1)
    # Also in a few consecutive steps there are neither too many nor too few.
    counts = np.convolve(found, np.ones(4 * period), mode="valid")
    assert (counts.min(), counts.max()) >= (3, 3)
    assert counts.max() <= 5


def objective_of_pairs(parameters, observations):
    """`eq:taco.kernel.obj` of observations [time, envs, D], with k of every pair of different environments."""
    num_steps, num_envs, size = observations.shape
    outputs = NETWORK.apply(parameters, observations.reshape(-1, size))
    embedding, log_g = outputs[:, :SIZE], log_g_of(outputs[:, SIZE])
    env = jnp.arange(num_steps * num_envs) % num_envs
    is_pair = env[:, None] != env[None]
    difference = jnp.where(is_pair[..., None], embedding[:, None] - embedding[None], 1.0)
    k = jnp.where(is_pair, jnp.exp(-jnp.linalg.norm(difference, axis=-1)), 0.0)
    similarity = k.sum(axis=1) / (num_steps * (num_envs - 1))
    return jnp.mean(log_g - similarity * jnp.exp(log_g)) + 1


def test_objective_and_gradient_equal_those_of_all_pairs_of_different_environments(key):
    config = dataclasses.replace(CONFIG, adjacency_scale=0.0, embedding_penalty=0.0)
    # Different states, because the reference has no gradient for the distance of equal ones.
    rows = jax.random.normal(key, (STEPS * ENVS, 3))
    transitions = example_transitions(3, rows, ENVS, STEPS)
    observations = Observations(rows, None)
    transitions = transitions._replace(observation=observations, next_observation=observations)
    method = build(earlier_steps(config, capacity=4), config, learning_rate=1.0)
    state = method.init(jax.random.key(1), rows, ENVS)
    _, learned, metrics = method.step(state, transitions, KEY)
    by_time = rows.reshape(STEPS, ENVS, 3)
    expected, gradient = jax.value_and_grad(objective_of_pairs)(state.parameters, by_time)
    np.testing.assert_allclose(metrics["gem_objective"], expected, rtol=1e-5)
    moved = jax.tree.map(lambda new, old: new - old, learned.parameters, state.parameters)
    for found, wanted in zip(jax.tree.leaves(moved), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("period", "capacity"), [(1, 7), (3, 7), (3, 2)])
def test_remembering_step_by_step_gives_the_memory_of_the_rollout(period, capacity, monkeypatch):
    """The period is that of the rollout before."""
    monkeypatch.setattr(negatives_earlier, "MIN_OVERLAP", 0.0)
    config = dataclasses.replace(CONFIG, negative_memory_period=period)
    method = build(earlier_steps(config, capacity=capacity), config)
    assert method.remember is not None
    _, state, _ = method.step(initial_state(method), slice_steps(TRANSITIONS, 0, 4), KEY)
    np.testing.assert_array_equal(state.terms[0].memory.period, period)
    remembered, is_valid = state, jnp.ones(ENVS, bool)
    for time in range(4, STEPS):
        remembered = method.remember(remembered, slice_steps(TRANSITIONS, time, time + 1), is_valid)
    _, learned, _ = method.step(state, slice_steps(TRANSITIONS, 4, STEPS), KEY)
    for name in ("rows", "length", "time"):
        np.testing.assert_array_equal(
            getattr(remembered.terms[0].memory, name), getattr(learned.terms[0].memory, name)
        )


def test_environments_that_took_no_step_are_not_remembered():
    method = build(earlier_steps(CONFIG, capacity=7))
    state = initial_state(method)
    assert method.remember is not None
    is_valid = jnp.arange(ENVS) != 2
    remembered = method.remember(state, slice_steps(TRANSITIONS, 0, 1), is_valid).terms[0].memory
    np.testing.assert_array_equal(remembered.length, is_valid.astype(int))
    np.testing.assert_array_equal(remembered.time, is_valid.astype(int))
    np.testing.assert_array_equal(remembered.rows[:, 2], state.terms[0].memory.rows[:, 2])


def test_the_memory_of_large_observations_is_smaller(monkeypatch):
    monkeypatch.setattr(negatives_earlier, "MAX_MEMORY_SIZE", 5 * ENVS * 3)
    memory = initial_state(build(earlier_steps(CONFIG, capacity=20))).terms[0].memory
    assert memory.rows.shape == (5, ENVS, 3)


@pytest.mark.parametrize("num_steps", [STEPS, 60], ids=["few states", "many states"])
def test_a_state_that_is_not_finite_does_not_affect_the_rewards_of_others(num_steps):
    transitions = example_transitions(3, ROWS, ENVS, num_steps)
    row = np.asarray(transitions.next_observation.row_index)
    method = build(earlier_steps(CONFIG, capacity=20))
    state = initial_state(method)
    # One step has a row of its own, which is not finite.
    bad_row = jnp.asarray(row).at[2, 4].set(10)
    rows = jnp.concatenate([ROWS, jnp.full((1, 3), jnp.nan)])
    observation = transitions.next_observation._replace(rows=rows, row_index=bad_row)
    reward = method.reward(state, transitions._replace(next_observation=observation), KEY)
    is_bad = np.asarray(bad_row) == 10
    np.testing.assert_array_equal(np.isfinite(reward), ~is_bad)
    # The others have one negative less.
    whole = method.reward(state, transitions, KEY)
    np.testing.assert_allclose(reward[~is_bad], whole[~is_bad], atol=0.1)


def test_many_states_have_the_rewards_of_the_paper():
    transitions = example_transitions(3, ROWS, ENVS, 60)
    method = build(earlier_steps(CONFIG, capacity=20))
    state = initial_state(method)
    expected = reference(state.parameters, transitions, 0)
    np.testing.assert_allclose(method.reward(state, transitions, KEY), expected, rtol=1e-4, atol=1e-4)


def test_sampled_negatives_come_from_the_current_rollout():
    inputs = RewardInputs(optax.sgd(0.1), torso_size=8, head_size=8, horizon=5)
    config = dataclasses.replace(CONFIG, negative_memory_size=4, episodic_weight=0.0)
    for num_negatives, has_memory in ((0, True), (3, False)):
        method = build_gem(dataclasses.replace(config, num_negatives=num_negatives), inputs)
        assert (method.remember is not None) == has_memory


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        earlier_steps(CONFIG, capacity=0)
    method = build(earlier_steps(CONFIG, capacity=2))
    with pytest.raises(ValueError, match="num_envs must be at least 2"):
        method.init(jax.random.key(1), ROWS, 1)
    with pytest.raises(ValueError, match=r"num_envs must be smaller .* or negative_memory_size 0"):
        jax.eval_shape(
            lambda rows: method.init(KEY, rows, ENVS), jax.ShapeDtypeStruct((1, 40_000_000), float)
        )

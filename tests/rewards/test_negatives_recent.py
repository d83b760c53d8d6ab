"""GEM with negatives from recent episodes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_recent import NO_EPISODE, episode_indices, recent_episodes
from gemax.testing import example_transitions, slice_steps

SIZE, CAPACITY = 4, 200
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
CONFIG = IntrinsicConfig(intrinsic_scale=1.0, normalise_reward=False, embedding_size=SIZE)
ROWS = jax.random.normal(jax.random.key(0), (10, 3))
ALL = jnp.ones(2, bool)


def build(config=CONFIG, capacity=CAPACITY, learning_rate=0.1):
    negatives = recent_episodes(config, capacity=capacity)
    method = gem(NETWORK, optax.sgd(learning_rate), config, (Term(negatives),))
    return method._replace(
        reward=jax.jit(method.reward), step=jax.jit(method.step), remember=jax.jit(method.remember)
    )


def initial_state(method, num_envs=2):
    return method.init(jax.random.key(1), ROWS, num_envs)


def reference(parameters, transitions):
    """Returns the reward of each step, pair by pair in NumPy, with negatives from the rollout alone."""
    outputs = np.asarray(NETWORK.apply(parameters, ROWS))
    g = np.exp(np.asarray(log_g_of(jnp.asarray(outputs[:, SIZE]))))
    row, is_first = np.asarray(transitions.next_observation.row_index), np.asarray(transitions.is_first)
    episode = np.cumsum(is_first, axis=0) * 100 + np.arange(row.shape[1])
    reward = np.zeros(row.shape)
    for t, w in np.ndindex(row.shape):
        x = row[t, w]
        others = [row[i] for i in np.ndindex(row.shape) if episode[i] != episode[t, w]]
        k = np.asarray([np.exp(-np.linalg.norm(outputs[x, :SIZE] - outputs[y, :SIZE])) for y in others])
        reward[t, w] = 1 + np.log(g[x]) - np.mean(k * (g[x] + g[others]))
    return reward


@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_reward_equals_the_paper_with_all_other_episodes_as_negatives(num_envs):
    method, transitions = build(), example_transitions(3, ROWS, num_envs, 12)
    state = initial_state(method, num_envs)
    reward = method.reward(state, transitions, jax.random.key(0))
    np.testing.assert_allclose(reward, reference(state.parameters, transitions), rtol=2e-5, atol=1e-5)


def test_earlier_rollouts_provide_negatives():
    method, transitions = build(learning_rate=0.0), example_transitions(3, ROWS, 2, 12)
    state = initial_state(method)
    _, after, _ = method.step(state, slice_steps(transitions, 0, 5), jax.random.key(0))
    later = method.reward(after, slice_steps(transitions, 5, 12), jax.random.key(0))
    whole = reference(state.parameters, transitions)
    np.testing.assert_allclose(later, whole[5:], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("capacity", [CAPACITY, 7])
def test_remember_gives_the_same_memory_as_step(capacity):
    method, transitions = build(capacity=capacity), example_transitions(3, ROWS, 2, 12)
    state = remembered = initial_state(method)
    _, learned, _ = method.step(state, transitions, jax.random.key(0))
    for t in range(12):
        remembered = method.remember(remembered, slice_steps(transitions, t, t + 1), ALL)
    for name in ("rows", "episode", "position", "current_episode"):
        np.testing.assert_array_equal(
            getattr(remembered.terms[0].memory, name), getattr(learned.terms[0].memory, name)
        )


def test_invalid_steps_are_not_remembered():
    method, transitions = build(), example_transitions(3, ROWS, 2, 1)
    state = initial_state(method)
    both = method.remember(state, transitions, ALL)
    one = method.remember(state, transitions, jnp.asarray([True, False]))
    none = method.remember(state, transitions, jnp.asarray([False, False]))
    jax.tree.map(np.testing.assert_array_equal, none.terms[0].memory, state.terms[0].memory)
    assert [int(jnp.sum(after.terms[0].memory.episode != NO_EPISODE)) for after in (both, one, none)] == [
        2,
        1,
        0,
    ]
    assert one.terms[0].memory.current_episode[1] == state.terms[0].memory.current_episode[1]


def test_first_episode_of_a_single_environment_gets_the_mean_and_changes_no_parameters():
    config = dataclasses.replace(
        CONFIG, normalise_reward=True, intrinsic_shift=0.3, adjacency_scale=0.0, embedding_penalty=0.0
    )
    method, transitions = build(config), example_transitions(3, ROWS, 1, 4)
    transitions = transitions._replace(is_first=jnp.asarray([[True], [False], [False], [False]]))
    state = initial_state(method, 1)
    reward, after, _ = method.step(state, transitions, jax.random.key(0))
    np.testing.assert_allclose(reward, 0.3)
    jax.tree.map(np.testing.assert_array_equal, after.parameters, state.parameters)


def test_episode_indices_are_unique_over_environments():
    is_first = jax.random.bernoulli(jax.random.key(0), 0.3, (20, 5))
    current, episode = episode_indices(jnp.arange(5), is_first, jnp.ones(5, bool))
    envs_of = {}
    for t, w in np.ndindex(20, 5):
        envs_of.setdefault(int(episode[t, w]), set()).add(w)
    assert all(len(envs) == 1 for envs in envs_of.values())
    np.testing.assert_array_equal(current, episode[-1])


def test_learning_raises_the_objective():
    method, transitions = build(learning_rate=0.01), example_transitions(3, ROWS, 2, 30)
    state, objectives = initial_state(method), []
    for _ in range(60):
        _, state, metrics = method.step(state, transitions, jax.random.key(0))
        objectives.append(float(metrics["gem_objective"]))
    assert objectives[-1] > objectives[0] + 0.1


def test_a_capacity_below_two_is_refused():
    with pytest.raises(ValueError, match="capacity must be at least 2"):
        recent_episodes(CONFIG, capacity=1)

"""GEM with recent observations as negatives: whatever is from another episode, and nothing else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.gem import GemSettings
from gemax.rewards.gem_recent import NO_EPISODE, episodes_of, gem_recent
from gemax.testing import example_rollout, part_of

SIZE, CAPACITY = 4, 200
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
PLAIN = GemSettings(scale=1.0, normalise=False)
ROWS = jax.random.normal(jax.random.key(0), (10, 3))
ALL = jnp.ones(2, bool)


def build(settings=PLAIN, capacity=CAPACITY, learning_rate=0.1):
    module = gem_recent(NETWORK, SIZE, optax.sgd(learning_rate), settings, capacity=capacity)
    return module._replace(
        reward=jax.jit(module.reward), step=jax.jit(module.step), remember=jax.jit(module.remember)
    )


def state_of(module, num_worlds=2):
    return module.init(jax.random.key(1), ROWS, num_worlds)


def reference(parameters, rollout):
    """The reward of every step, pair by pair in NumPy, with the rollout alone to draw negatives from."""
    outputs = np.asarray(NETWORK.apply(parameters, ROWS))
    g = np.exp(np.asarray(log_g_of(jnp.asarray(outputs[:, SIZE]))))
    row, is_first = np.asarray(rollout.arrived.row), np.asarray(rollout.is_first)
    episode = np.cumsum(is_first, axis=0) * 100 + np.arange(row.shape[1])
    paid = np.zeros(row.shape)
    for t, w in np.ndindex(row.shape):
        x = row[t, w]
        others = [row[i] for i in np.ndindex(row.shape) if episode[i] != episode[t, w]]
        k = np.asarray([np.exp(-np.linalg.norm(outputs[x, :SIZE] - outputs[y, :SIZE])) for y in others])
        paid[t, w] = 1 + np.log(g[x]) - np.mean(k * (g[x] + g[others]))
    return paid


@pytest.mark.parametrize("num_worlds", [1, 2, 5])
def test_the_reward_is_the_papers_with_all_other_episodes_as_negatives(num_worlds):
    module, rollout = build(), example_rollout(3, ROWS, num_worlds, 12)
    state = state_of(module, num_worlds)
    paid = module.reward(state, rollout, jax.random.key(0))
    np.testing.assert_allclose(paid, reference(state.parameters, rollout), rtol=2e-5, atol=1e-5)


def test_what_was_seen_earlier_counts_as_well():
    module, rollout = build(learning_rate=0.0), example_rollout(3, ROWS, 2, 12)
    state = state_of(module)
    _, after, _ = module.step(state, part_of(rollout, 0, 5), jax.random.key(0))
    later = module.reward(after, part_of(rollout, 5, 12), jax.random.key(0))
    whole = reference(state.parameters, rollout)
    np.testing.assert_allclose(later, whole[5:], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("capacity", [CAPACITY, 7])
def test_to_remember_step_by_step_leads_to_the_same_memory_as_to_learn(capacity):
    module, rollout = build(capacity=capacity), example_rollout(3, ROWS, 2, 12)
    state = remembered = state_of(module)
    _, learned, _ = module.step(state, rollout, jax.random.key(0))
    for t in range(12):
        remembered = module.remember(remembered, part_of(rollout, t, t + 1), ALL)
    for name in ("rows", "episode", "position", "current"):
        ring, other = getattr(remembered.recent, name), getattr(learned.recent, name)
        np.testing.assert_array_equal(ring, other)


def test_a_step_that_was_none_leaves_no_trace():
    module, rollout = build(), example_rollout(3, ROWS, 2, 1)
    state = state_of(module)
    both = module.remember(state, rollout, ALL)
    one = module.remember(state, rollout, jnp.asarray([True, False]))
    none = module.remember(state, rollout, jnp.asarray([False, False]))
    jax.tree.map(np.testing.assert_array_equal, none.recent, state.recent)
    assert [int(jnp.sum(ring.recent.episode != NO_EPISODE)) for ring in (both, one, none)] == [2, 1, 0]
    assert one.recent.current[1] == state.recent.current[1]


def test_the_first_episode_of_a_lone_world_is_paid_the_mean_and_moves_neither_f_nor_g():
    settings = dataclasses.replace(PLAIN, normalise=True, shift=0.3, adjacency_scale=0.0, regularisation=0.0)
    module, rollout = build(settings), example_rollout(3, ROWS, 1, 4)
    rollout = rollout._replace(is_first=jnp.asarray([[True], [False], [False], [False]]))
    state = state_of(module, 1)
    paid, after, _ = module.step(state, rollout, jax.random.key(0))
    np.testing.assert_allclose(paid, 0.3)
    jax.tree.map(np.testing.assert_array_equal, after.parameters, state.parameters)


def test_no_two_worlds_share_the_number_of_an_episode():
    is_first = jax.random.bernoulli(jax.random.key(0), 0.3, (20, 5))
    current, episode = episodes_of(jnp.arange(5), is_first, jnp.ones(5, bool))
    worlds_of = {}
    for t, w in np.ndindex(20, 5):
        worlds_of.setdefault(int(episode[t, w]), set()).add(w)
    assert all(len(worlds) == 1 for worlds in worlds_of.values())
    np.testing.assert_array_equal(current, episode[-1])


def test_learning_raises_the_objective():
    module, rollout = build(learning_rate=0.01), example_rollout(3, ROWS, 2, 30)
    state, objectives = state_of(module), []
    for _ in range(60):
        _, state, metrics = module.step(state, rollout, jax.random.key(0))
        objectives.append(float(metrics["gem_objective"]))
    assert objectives[-1] > objectives[0] + 0.1


def test_a_ring_too_small_to_hold_a_pair_is_refused():
    with pytest.raises(ValueError, match="capacity must be at least 2"):
        gem_recent(NETWORK, SIZE, optax.sgd(0.1), PLAIN, capacity=1)

"""GEM within episodes: each visit is contrasted with those of its own episode so far, and with nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.gem import GemSettings
from gemax.rewards.gem_episodic import gem_episodic
from gemax.testing import example_rollout, part_of, without_table

SIZE, CAPACITY, TIME = 4, 20, 12
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
PLAIN = GemSettings(scale=1.0, normalise=False)
ROWS = jax.random.normal(jax.random.key(0), (10, 3))
KEY = jax.random.key(0)


def build(settings=PLAIN, capacity=CAPACITY, learning_rate=0.1):
    module = gem_episodic(NETWORK, SIZE, optax.sgd(learning_rate), settings, capacity=capacity)
    return module._replace(
        reward=jax.jit(module.reward), step=jax.jit(module.step), remember=jax.jit(module.remember)
    )


def state_of(module, num_worlds=2):
    return module.init(jax.random.key(1), ROWS, num_worlds)


def reference(parameters, rollout, capacity=CAPACITY):
    """The reward of every visit, pair by pair in NumPy."""
    outputs = np.asarray(NETWORK.apply(parameters, ROWS))
    g = np.exp(np.asarray(log_g_of(jnp.asarray(outputs[:, SIZE]))))
    row, is_first = np.asarray(rollout.arrived.row), np.asarray(rollout.is_first)
    paid = np.zeros(row.shape)
    for world in range(row.shape[1]):
        visits = []
        for time in range(row.shape[0]):
            x = row[time, world]
            visits = [*([] if is_first[time, world] else visits), x][-capacity:]
            k = np.exp(-np.linalg.norm(outputs[x, :SIZE] - outputs[visits, :SIZE], axis=1))
            paid[time, world] = 1 + np.log(g[x]) - np.mean(k * (g[x] + g[visits]))
    return paid


@pytest.mark.parametrize("capacity", [CAPACITY, 3])
def test_the_reward_is_the_papers_with_the_episode_so_far_as_negatives(capacity):
    module, rollout = build(capacity=capacity), example_rollout(3, ROWS, 5, TIME)
    state = state_of(module, 5)
    expected = reference(state.parameters, rollout, capacity)
    np.testing.assert_allclose(module.reward(state, rollout, KEY), expected, rtol=2e-5, atol=1e-5)
    plain = module.reward(state, without_table(rollout), KEY)
    np.testing.assert_allclose(plain, expected, rtol=2e-5, atol=1e-5)


def test_however_an_episode_is_cut_into_rollouts_its_visits_are_paid_the_same():
    module, rollout = build(learning_rate=0.0), example_rollout(3, ROWS, 2, TIME)
    state = state_of(module)
    whole = module.reward(state, rollout, KEY)
    first, after, _ = module.step(state, part_of(rollout, 0, 5), KEY)
    then = module.reward(after, part_of(rollout, 5, TIME), KEY)
    np.testing.assert_allclose(jnp.concatenate([first, then]), whole, rtol=1e-5, atol=1e-6)
    one_by_one = []
    for time in range(TIME):
        one_by_one.append(module.reward(state, part_of(rollout, time, time + 1), KEY))
        state = module.remember(state, part_of(rollout, time, time + 1), jnp.ones(2, bool))
    np.testing.assert_allclose(jnp.concatenate(one_by_one), whole, rtol=1e-5, atol=1e-6)


def test_to_remember_step_by_step_leads_to_the_same_memory_as_to_learn():
    module, rollout = build(learning_rate=0.0, capacity=7), example_rollout(3, ROWS, 2, TIME)
    state = remembered = state_of(module)
    _, learned, _ = module.step(state, rollout, KEY)
    for time in range(TIME):
        remembered = module.remember(remembered, part_of(rollout, time, time + 1), jnp.ones(2, bool))
    np.testing.assert_array_equal(remembered.memory.rows, learned.memory.rows)
    np.testing.assert_array_equal(remembered.memory.length, learned.memory.length)
    np.testing.assert_allclose(remembered.memory.views.log_g, learned.memory.views.log_g, atol=1e-5)


def test_a_step_that_was_none_leaves_no_trace():
    module, rollout = build(), example_rollout(3, ROWS, 2, 1)
    state = state_of(module)
    after = module.remember(state, rollout, jnp.asarray([True, False]))
    assert after.memory.length.tolist() == [1, 0]
    np.testing.assert_array_equal(after.memory.rows[1], state.memory.rows[1])


def test_what_happens_in_one_world_is_nothing_to_another():
    module, rollout = build(), example_rollout(3, ROWS, 2, TIME)
    state = state_of(module)
    moved = rollout._replace(arrived=rollout.arrived._replace(row=rollout.arrived.row.at[:, 1].set(0)))
    paid, other = (module.reward(state, one, KEY) for one in (rollout, moved))
    np.testing.assert_array_equal(paid[:, 0], other[:, 0])
    assert not np.allclose(paid[:, 1], other[:, 1])


def test_episodes_that_go_round_are_paid_more_than_those_that_stand_still():
    module, rollout = build(learning_rate=0.01), example_rollout(3, ROWS, 2, 10)
    row = jnp.stack([jnp.arange(10), jnp.zeros(10, int)], axis=1)
    is_first = jnp.zeros((10, 2), bool).at[0].set(True)
    rollout = rollout._replace(arrived=rollout.arrived._replace(row=row), is_first=is_first)
    state = state_of(module)
    for _ in range(100):
        paid, state, _ = module.step(state, rollout, KEY)
    round_trip, stand_still = paid[1:].mean(axis=0)
    assert round_trip > stand_still + 0.5


def test_memories_that_no_machine_would_like_are_refused():
    with pytest.raises(
        ValueError, match=r"episode_memory must be at most 1048 for 32 worlds with .* \(1000,\)"
    ):
        build(capacity=1049).init(KEY, jnp.zeros((1, 1000)), 32)


def test_no_room_for_a_single_visit_is_refused():
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        gem_episodic(NETWORK, SIZE, optax.sgd(0.1), PLAIN, capacity=0)

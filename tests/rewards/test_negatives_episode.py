"""GEM with negatives from the same episode."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_episode import own_episode
from gemax.rewards.negatives_episode_rows import own_episode_rows
from gemax.testing import example_transitions, slice_steps, without_table

SIZE, CAPACITY, TIME = 4, 20, 12
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
CONFIG = IntrinsicConfig(intrinsic_scale=1.0, normalise_reward=False, embedding_size=SIZE)
ROWS = jax.random.normal(jax.random.key(0), (10, 3))
KEY = jax.random.key(0)


def build(capacity=CAPACITY, learning_rate=0.1):
    method = gem(NETWORK, optax.sgd(learning_rate), CONFIG, (Term(own_episode(CONFIG, capacity=capacity)),))
    return method._replace(
        reward=jax.jit(method.reward), step=jax.jit(method.step), remember=jax.jit(method.remember)
    )


def initial_state(method, num_envs=2):
    return method.init(jax.random.key(1), ROWS, num_envs)


def reference(parameters, transitions, capacity=CAPACITY):
    """Returns the reward of each step, pair by pair in NumPy."""
    outputs = np.asarray(NETWORK.apply(parameters, ROWS))
    g = np.exp(np.asarray(log_g_of(jnp.asarray(outputs[:, SIZE]))))
    row, is_first = np.asarray(transitions.next_observation.row_index), np.asarray(transitions.is_first)
    reward = np.zeros(row.shape)
    for env in range(row.shape[1]):
        visits = []
        for time in range(row.shape[0]):
            x = row[time, env]
            visits = [*([] if is_first[time, env] else visits), x][-capacity:]
            k = np.exp(-np.linalg.norm(outputs[x, :SIZE] - outputs[visits, :SIZE], axis=1))
            reward[time, env] = 1 + np.log(g[x]) - np.mean(k * (g[x] + g[visits]))
    return reward


@pytest.mark.parametrize("capacity", [CAPACITY, TIME, 5, 3, 1])
def test_reward_equals_the_paper_with_the_episode_so_far_as_negatives(capacity):
    method, transitions = build(capacity=capacity), example_transitions(3, ROWS, 5, TIME)
    state = initial_state(method, 5)
    expected = reference(state.parameters, transitions, capacity)
    np.testing.assert_allclose(method.reward(state, transitions, KEY), expected, rtol=2e-5, atol=1e-5)
    plain = method.reward(state, without_table(transitions), KEY)
    np.testing.assert_allclose(plain, expected, rtol=2e-5, atol=1e-5)


def test_rewards_do_not_depend_on_how_an_episode_is_cut_into_rollouts():
    method, transitions = build(learning_rate=0.0), example_transitions(3, ROWS, 2, TIME)
    state = initial_state(method)
    whole = method.reward(state, transitions, KEY)
    first, after, _ = method.step(state, slice_steps(transitions, 0, 5), KEY)
    then = method.reward(after, slice_steps(transitions, 5, TIME), KEY)
    np.testing.assert_allclose(jnp.concatenate([first, then]), whole, rtol=1e-5, atol=1e-6)
    one_by_one = []
    for time in range(TIME):
        one_by_one.append(method.reward(state, slice_steps(transitions, time, time + 1), KEY))
        state = method.remember(state, slice_steps(transitions, time, time + 1), jnp.ones(2, bool))
    np.testing.assert_allclose(jnp.concatenate(one_by_one), whole, rtol=1e-5, atol=1e-6)


def test_remember_gives_the_same_memory_as_step():
    method, transitions = build(learning_rate=0.0, capacity=7), example_transitions(3, ROWS, 2, TIME)
    state = remembered = initial_state(method)
    _, learned, _ = method.step(state, transitions, KEY)
    for time in range(TIME):
        remembered = method.remember(remembered, slice_steps(transitions, time, time + 1), jnp.ones(2, bool))
    np.testing.assert_array_equal(remembered.terms[0].memory.rows, learned.terms[0].memory.rows)
    np.testing.assert_array_equal(remembered.terms[0].memory.length, learned.terms[0].memory.length)
    np.testing.assert_allclose(
        remembered.terms[0].memory.outputs.log_g, learned.terms[0].memory.outputs.log_g, atol=1e-5
    )


def test_invalid_steps_are_not_remembered():
    method, transitions = build(), example_transitions(3, ROWS, 2, 1)
    state = initial_state(method)
    after = method.remember(state, transitions, jnp.asarray([True, False]))
    assert after.terms[0].memory.length.tolist() == [1, 0]
    np.testing.assert_array_equal(after.terms[0].memory.rows[1], state.terms[0].memory.rows[1])


def test_environments_are_independent():
    method, transitions = build(), example_transitions(3, ROWS, 2, TIME)
    state = initial_state(method)
    moved = transitions._replace(
        next_observation=transitions.next_observation._replace(
            row_index=transitions.next_observation.row_index.at[:, 1].set(0)
        )
    )
    before, after = (method.reward(state, steps, KEY) for steps in (transitions, moved))
    np.testing.assert_array_equal(before[:, 0], after[:, 0])
    assert not np.allclose(before[:, 1], after[:, 1])


def test_episodes_with_many_states_have_higher_rewards_than_episodes_that_stay_in_one():
    method, transitions = build(learning_rate=0.01), example_transitions(3, ROWS, 2, 10)
    row = jnp.stack([jnp.arange(10), jnp.zeros(10, int)], axis=1)
    is_first = jnp.zeros((10, 2), bool).at[0].set(True)
    transitions = transitions._replace(
        next_observation=transitions.next_observation._replace(row_index=row), is_first=is_first
    )
    state = initial_state(method)
    for _ in range(100):
        reward, state, _ = method.step(state, transitions, KEY)
    many_states, one_state = reward[1:].mean(axis=0)
    assert many_states > one_state + 0.5


def test_the_memory_is_limited_to_128_mb():
    shapes = jax.eval_shape(lambda rows: build(capacity=1049).init(KEY, rows, 32), jnp.zeros((1, 1000)))
    assert shapes.terms[0].memory.rows.shape == (32, 1048, 1000)
    with pytest.raises(ValueError, match=r"num_envs must be smaller .* shape \(40000000,\)"):
        jax.eval_shape(lambda rows: build().init(KEY, rows, 32), jax.ShapeDtypeStruct((1, 40_000_000), float))


@pytest.mark.parametrize("capacity", [CAPACITY, 4])
def test_a_state_that_is_not_finite_does_not_affect_the_rewards_of_others(capacity):
    method, transitions = build(capacity=capacity), example_transitions(3, ROWS, 2, TIME)
    state = initial_state(method)
    # One step has a row of its own, which is not finite. The steps after it begin a new episode.
    row = transitions.next_observation.row_index.at[3, 0].set(10)
    is_first = transitions.is_first.at[4, 0].set(True)
    rows = jnp.concatenate([ROWS, jnp.full((1, 3), jnp.nan)])
    observation = transitions.next_observation._replace(rows=rows, row_index=row)
    transitions = transitions._replace(is_first=is_first)
    expected = reference(state.parameters, transitions, capacity)
    reward = method.reward(state, without_table(transitions._replace(next_observation=observation)), KEY)
    is_bad = np.asarray(row) == 10
    np.testing.assert_array_equal(np.isfinite(reward), ~is_bad)
    np.testing.assert_allclose(reward[~is_bad], expected[~is_bad], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("negatives", [own_episode, own_episode_rows])
def test_memory_grows_linearly_with_the_length_of_a_rollout(negatives):
    """All pairs of steps of each environment at once would take 13 GB."""
    method = gem(NETWORK, optax.sgd(0.1), CONFIG, (Term(negatives(CONFIG, capacity=128)),))

    def step(num_steps):
        transitions = example_transitions(3, ROWS, 8, num_steps)
        if negatives is own_episode:
            transitions = without_table(transitions)
        arguments = initial_state(method, 8), transitions, KEY
        return jax.jit(method.step).lower(*arguments).compile().memory_analysis().temp_size_in_bytes

    assert step(20_000) < 12 * step(2_000) < 2e9


def test_a_network_with_other_heads_is_refused():
    method = gem(torso_and_heads(16, 8, (SIZE + 1,)), optax.sgd(0.1), CONFIG, (Term(own_episode(CONFIG)),))
    with pytest.raises(ValueError, match=r"heads of 4 outputs for f and 1 for g; got \[5\]"):
        initial_state(method)


def test_a_capacity_below_one_is_refused():
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        own_episode(CONFIG, capacity=0)


@pytest.mark.parametrize("capacity", [7, 40], ids=["full memory", "few remembered steps"])
@pytest.mark.parametrize("num_rows", [10, 40], ids=["fewer pairs of rows", "fewer pairs of entries"])
def test_a_memory_of_rows_gives_the_same_rewards_and_learns_the_same_as_a_memory_of_observations(
    num_rows, capacity
):
    rows = jax.random.normal(jax.random.key(0), (num_rows, 3))
    methods = [
        gem(NETWORK, optax.sgd(0.1), CONFIG, (Term(negatives(CONFIG, capacity=capacity)),))
        for negatives in (own_episode, own_episode_rows)
    ]
    states = [method.init(jax.random.key(1), rows, 2) for method in methods]
    steps = [jax.jit(method.step) for method in methods]
    for seed in range(4):
        transitions = example_transitions(seed, rows, 2, 5)
        # Episodes of earlier rollouts go on, so that the memory matters.
        transitions = transitions._replace(is_first=transitions.is_first.at[0].set(seed == 0))
        results = [step(state, transitions, KEY) for step, state in zip(steps, states, strict=True)]
        states = [result[1] for result in results]
        np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    for leaf, other in zip(*(jax.tree.leaves(state.parameters) for state in states), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=1e-6)


def test_a_memory_of_rows_remembers_single_steps_and_ignores_invalid_ones():
    negatives = own_episode_rows(CONFIG, capacity=7)
    method = gem(NETWORK, optax.sgd(0.0), CONFIG, (Term(negatives),))
    transitions = example_transitions(3, ROWS, 2, TIME)
    state = remembered = initial_state(method)
    _, learned, _ = jax.jit(method.step)(state, transitions, KEY)
    remember = jax.jit(method.remember)
    for time in range(TIME):
        remembered = remember(remembered, slice_steps(transitions, time, time + 1), jnp.ones(2, bool))
    np.testing.assert_array_equal(remembered.terms[0].memory.row, learned.terms[0].memory.row)
    np.testing.assert_array_equal(remembered.terms[0].memory.length, learned.terms[0].memory.length)
    after = remember(state, slice_steps(transitions, 0, 1), jnp.asarray([True, False]))
    assert after.terms[0].memory.length.tolist() == [1, 0]


def test_a_memory_of_rows_needs_a_table():
    method = gem(NETWORK, optax.sgd(0.1), CONFIG, (Term(own_episode_rows(CONFIG)),))
    with pytest.raises(ValueError, match="needs an observation table"):
        method.step(initial_state(method), without_table(example_transitions(3, ROWS, 2, 5)), KEY)

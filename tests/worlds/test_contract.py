"""What every world keeps, whichever it is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemax.worlds.base import is_last, random_rollout, step_and_reset
from gemax.worlds.registry import WORLDS, make_world


@functools.cache
def short(name):
    """A world with a pixel a square. Made when it is asked for: collecting tests would wait for all of them."""
    return make_world(name, observation="squares")


@pytest.fixture(scope="module", params=list(WORLDS))
def world(request):
    return short(request.param)


@pytest.fixture(scope="module")
def rollout(world):
    """A compiled drive through many episodes: everything that was told, step by step."""

    def one_step(state, inputs):
        key, action = inputs
        following, transition = step_and_reset(world, key, state, action)
        return following, (transition, state, following)

    @jax.jit
    def drive(key, actions):
        reset_key, steps_key = jax.random.split(key)
        state, first = world.reset(reset_key)
        keys = jax.random.split(steps_key, len(actions))
        return state, first, keys, jax.lax.scan(one_step, state, (keys, actions))[1]

    return drive


@settings(max_examples=2)
@given(seed=st.integers(0, 1000))
def test_ends_arrive_exactly_once_with_their_observation_reward_and_flags(world, rollout, seed):
    """Under automatic resets, against the world stepped by hand without any."""
    num_steps = 2 * world.horizon + 7
    actions = jax.random.randint(jax.random.key(seed), (num_steps,), 0, world.num_actions)
    state, _, keys, (transitions, _, _) = rollout(jax.random.key(seed), actions)
    step, reset = jax.jit(world.step), jax.jit(world.reset)
    step_keys, reset_keys = jax.vmap(jax.random.split)(keys).T
    arrived, current, is_over = [], [], []
    for t, (step_key, action) in enumerate(zip(step_keys, np.asarray(actions), strict=True)):
        state, timestep = step(step_key, state, action)
        arrived.append(timestep)
        is_over.append(bool(is_last(timestep)))
        if is_over[-1]:
            state, timestep = reset(reset_keys[t])
            assert timestep.reward == 0
            assert not is_last(timestep)
        current.append(timestep)
    assert_same(transitions.arrived, one_after_the_other(arrived))
    assert_same(transitions.current, one_after_the_other(current))
    assert not (transitions.arrived.terminated & transitions.arrived.truncated).any()
    np.testing.assert_array_equal(transitions.is_first, is_over)
    assert sum(is_over) >= 2


def one_after_the_other(timesteps):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *timesteps)


def assert_same(told, expected):
    for one, other in zip(told, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), atol=1e-5)


def test_observations_lie_in_their_box_with_its_shape_and_type(world, rollout):
    actions = jax.random.randint(jax.random.key(1), (300,), 0, world.num_actions)
    _, first, _, (transitions, _, _) = rollout(jax.random.key(1), actions)
    seen = np.asarray(transitions.arrived.observation)
    assert first.observation.shape == seen.shape[1:] == world.observation.shape
    assert first.observation.dtype == seen.dtype == world.observation.dtype
    assert (seen >= world.observation.low).all()
    assert (seen <= world.observation.high).all()
    assert np.isfinite(world.observation.low).all()
    assert np.isfinite(world.observation.high).all()


def test_worlds_are_pure_and_side_by_side_they_do_not_touch(world):
    keys = jax.random.split(jax.random.key(0), 3)
    states, _ = jax.vmap(world.reset)(keys)
    actions = jnp.asarray([0, 1, 2])
    together = jax.jit(jax.vmap(world.step))(keys, states, actions)
    for i in range(3):
        alone = jax.jit(world.step)(keys[i], jax.tree.map(lambda leaf, i=i: leaf[i], states), actions[i])
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(
                np.asarray(a[i], float), np.asarray(b, float), rtol=1e-6
            ),
            together,
            alone,
        )


def test_state_keeps_its_types_over_a_step_so_that_it_can_be_scanned(world):
    state, timestep = jax.eval_shape(world.reset, jax.random.key(0))
    following, later = jax.eval_shape(
        world.step, jax.random.key(0), state, jax.ShapeDtypeStruct((), jnp.int32)
    )
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, timestep)) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), (following, later)
    )


def test_pictures_are_for_people(world):
    picture = world.picture(world.reset(jax.random.key(0))[0])
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert min(picture.shape[:2]) >= 100
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3


@pytest.mark.parametrize("name", ["two-rooms", "sixteen-leaves", "two-keys"])
def test_a_random_policy_practically_never_finds_the_reward(name):
    """The floor that learning is measured from; `benchmarks/random_policy.py` has it over 100,000 episodes."""
    world = short(name)
    keys = jax.random.split(jax.random.key(0), 500)
    states, _ = jax.vmap(world.reset)(keys)
    rewards, ends = jax.jit(jax.vmap(lambda key, state: random_rollout(world, key, state, 300)[1:]))(
        keys, states
    )
    assert ends.sum() > 4500
    assert rewards.sum() / ends.sum() < 0.01


def test_indices_of_finite_worlds_stay_in_their_ranges():
    for world in map(short, WORLDS):
        if world.finite is None:
            continue
        facts = world.finite
        states, _ = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), 50))
        assert jax.vmap(facts.state_index)(states).max() < facts.num_states
        assert jax.vmap(facts.square_index)(states).max() < len(facts.square_positions)
        assert jax.vmap(facts.observation_index)(states).max() < len(facts.observation_table)


def test_places_of_continuous_worlds_are_bins_of_a_plane():
    world = short("mountain-car")
    state = world.reset(jax.random.key(0))[0]
    for position, velocity, place in (
        (-1.2, -0.07, 0),
        (0.6, 0.07, 899),
        (-1.2, 0.07, 29),
        (0.6, -0.07, 870),
    ):
        state = state._replace(position=jnp.asarray(position), velocity=jnp.asarray(velocity))
        assert int(world.places.index_of(state)) == place
    world = short("cartpole-swingup")
    state = world.reset(jax.random.key(0))[0]
    for theta, theta_dot, place in ((0.0, -99.0, 0), (6.28, 99.0, 899), (3.2, 0.1, 15 * 30 + 15)):
        state = state._replace(theta=jnp.asarray(theta), theta_dot=jnp.asarray(theta_dot))
        assert int(world.places.index_of(state)) == place
    assert world.places.number == 900


def test_no_episode_is_shorter_than_the_world_says(world, rollout):
    """Holding one action is the fastest way out of a track; the ways through maps are counted exactly."""
    num_steps = 2 * world.horizon + 7
    for action in range(world.num_actions):
        *_, (transitions, _, _) = rollout(jax.random.key(action), jnp.full(num_steps, action))
        ends = np.flatnonzero(np.asarray(transitions.is_first))
        assert np.diff(ends, prepend=-1).min() >= world.shortest_episode > 1

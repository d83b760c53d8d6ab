"""The contract of JAX environments, tested with every environment."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemax.envs.base import is_last, random_rollout, step_and_reset
from gemax.envs.registry import ENVS, make_env


@functools.cache
def cells_env(name):
    """Makes an environment with one pixel per cell. Called in tests, not while pytest collects them."""
    return make_env(name, observation="cells")


@pytest.fixture(scope="module", params=list(ENVS))
def env(request):
    return cells_env(request.param)


@pytest.fixture(scope="module")
def run_steps(env):
    """Returns a compiled function that takes many steps, and returns everything step by step."""

    def one_step(state, inputs):
        key, action = inputs
        following, transition = step_and_reset(env, key, state, action)
        return following, (transition, state, following)

    @jax.jit
    def run(key, actions):
        reset_key, steps_key = jax.random.split(key)
        state, first = env.reset(reset_key)
        keys = jax.random.split(steps_key, len(actions))
        return state, first, keys, jax.lax.scan(one_step, state, (keys, actions))[1]

    return run


@settings(max_examples=2)
@given(seed=st.integers(0, 1000))
def test_automatic_resets_return_every_timestep_exactly_once(env, run_steps, seed):
    """Compares `step_and_reset` with calls of `step` and `reset`."""
    num_steps = 2 * env.spec.horizon + 7
    actions = jax.random.randint(jax.random.key(seed), (num_steps,), 0, env.spec.num_actions)
    state, _, keys, (transitions, _, _) = run_steps(jax.random.key(seed), actions)
    step, reset = jax.jit(env.step), jax.jit(env.reset)
    step_keys, reset_keys = jax.vmap(jax.random.split)(keys).T
    timesteps, current, is_over = [], [], []
    for t, (step_key, action) in enumerate(zip(step_keys, np.asarray(actions), strict=True)):
        state, timestep = step(step_key, state, action)
        timesteps.append(timestep)
        is_over.append(bool(is_last(timestep)))
        if is_over[-1]:
            state, timestep = reset(reset_keys[t])
            assert timestep.reward == 0
            assert not is_last(timestep)
        current.append(timestep)
    assert_same(transitions.timestep, stack(timesteps))
    assert_same(transitions.current, stack(current))
    assert not (transitions.timestep.terminated & transitions.timestep.truncated).any()
    np.testing.assert_array_equal(transitions.is_first, is_over)
    assert sum(is_over) >= 2


def stack(timesteps):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *timesteps)


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), atol=1e-5)


def test_observations_have_the_declared_shape_type_and_bounds(env, run_steps):
    actions = jax.random.randint(jax.random.key(1), (300,), 0, env.spec.num_actions)
    _, first, _, (transitions, _, _) = run_steps(jax.random.key(1), actions)
    observation = np.asarray(transitions.timestep.observation)
    assert first.observation.shape == observation.shape[1:] == env.spec.observation.shape
    assert first.observation.dtype == observation.dtype == env.spec.observation.dtype
    assert (observation >= env.spec.observation.low).all()
    assert (observation <= env.spec.observation.high).all()
    assert np.isfinite(env.spec.observation.low).all()
    assert np.isfinite(env.spec.observation.high).all()


def test_vectorised_steps_equal_single_steps(env):
    keys = jax.random.split(jax.random.key(0), 3)
    states, _ = jax.vmap(env.reset)(keys)
    actions = jnp.asarray([0, 1, 2])
    together = jax.jit(jax.vmap(env.step))(keys, states, actions)
    for i in range(3):
        alone = jax.jit(env.step)(keys[i], jax.tree.map(lambda leaf, i=i: leaf[i], states), actions[i])
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(
                np.asarray(a[i], float), np.asarray(b, float), rtol=1e-6
            ),
            together,
            alone,
        )


def test_shapes_and_types_do_not_change_over_a_step(env):
    state, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    following, later = jax.eval_shape(env.step, jax.random.key(0), state, jax.ShapeDtypeStruct((), jnp.int32))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, timestep)) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), (following, later)
    )


def test_rendered_images_are_large_and_coloured(env):
    render = env.render(env.reset(jax.random.key(0))[0])
    assert render.dtype == np.uint8
    assert render.shape[2] == 3
    assert min(render.shape[:2]) >= 100
    assert len(np.unique(render.reshape(-1, 3), axis=0)) > 3


@pytest.mark.parametrize("name", ["two-rooms", "sixteen-leaves", "two-keys"])
def test_a_random_policy_rarely_finds_the_reward(name):
    """`benchmarks/random_policy.py` measures this over 100,000 episodes."""
    env = cells_env(name)
    keys = jax.random.split(jax.random.key(0), 500)
    states, _ = jax.vmap(env.reset)(keys)
    rewards, ends = jax.jit(jax.vmap(lambda key, state: random_rollout(env, key, state, 300)[1:]))(
        keys, states
    )
    assert ends.sum() > 4500
    assert rewards.sum() / ends.sum() < 0.01


def test_indices_of_finite_environments_are_in_range():
    for env in map(cells_env, ENVS):
        if env.finite is None:
            continue
        finite = env.finite
        states, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 50))
        assert jax.vmap(finite.state_index)(states).max() < finite.num_states
        assert jax.vmap(finite.cell_index)(states).max() < len(finite.cell_positions)
        assert jax.vmap(finite.observation_index)(states).max() < len(finite.observation_table)


def test_cells_of_continuous_environments_are_bins_of_two_variables():
    env = cells_env("mountain-car")
    state = env.reset(jax.random.key(0))[0]
    for position, velocity, cell in (
        (-1.2, -0.07, 0),
        (0.6, 0.07, 899),
        (-1.2, 0.07, 29),
        (0.6, -0.07, 870),
    ):
        state = state._replace(position=jnp.asarray(position), velocity=jnp.asarray(velocity))
        assert int(env.cell_index(state)) == cell
    env = cells_env("cartpole-swingup")
    state = env.reset(jax.random.key(0))[0]
    for theta, theta_dot, cell in ((0.0, -99.0, 0), (6.28, 99.0, 899), (3.2, 0.1, 15 * 30 + 15)):
        state = state._replace(theta=jnp.asarray(theta), theta_dot=jnp.asarray(theta_dot))
        assert int(env.cell_index(state)) == cell
    assert env.spec.num_cells == 900


def test_no_episode_is_shorter_than_declared(env, run_steps):
    """Repeating one action is the fastest way off a track. Paths through maps are counted exactly."""
    num_steps = 2 * env.spec.horizon + 7
    for action in range(env.spec.num_actions):
        *_, (transitions, _, _) = run_steps(jax.random.key(action), jnp.full(num_steps, action))
        ends = np.flatnonzero(np.asarray(transitions.is_first))
        assert np.diff(ends, prepend=-1).min() >= env.spec.min_episode_steps > 1

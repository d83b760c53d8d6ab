"""The car obeys bsuite's physics, step by step and over whole episodes."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments.mountain_car import MountainCar
from scipy import stats

from gemax.types import Timestep
from gemax.worlds.base import is_last, step_and_reset
from gemax.worlds.mountain_car import GOAL, HORIZON, LEFT_WALL, MountainCarState, mountain_car

WORLD = mountain_car()
STEP = jax.jit(WORLD.step)
STEP_ALL = jax.jit(jax.vmap(WORLD.step, in_axes=(None, 0, 0)))
KEY = jax.random.key(0)
TOLERANCE = 1e-5
LEFT, COAST, RIGHT = 0, 1, 2


class Outcome(NamedTuple):
    """What bsuite answers to one action."""

    position: float
    velocity: float
    observation: np.ndarray
    reward: float
    is_last: bool


def bsuite_step(env: MountainCar, action: int) -> Outcome:
    timestep = env.step(action)
    return Outcome(
        float(env._position), float(env._velocity), timestep.observation[0], timestep.reward, timestep.last()
    )


def put(env: MountainCar, position: float, velocity: float, steps: int) -> None:
    """bsuite offers no way to choose a state, hence the private fields."""
    env._position, env._velocity, env._timestep = float(position), float(velocity), int(steps)
    env._reset_next_step = False


def random_states(rng: np.random.Generator, size: int) -> MountainCarState:
    """All over the reachable range, and often near the wall, near the goal and near the end of the time."""
    region = rng.integers(0, 4, size)
    low = np.choose(region, [LEFT_WALL, LEFT_WALL, LEFT_WALL, GOAL - 0.07])
    high = np.choose(region, [GOAL, GOAL, LEFT_WALL + 0.07, GOAL])
    steps = np.where(rng.random(size) < 0.1, HORIZON - 1, rng.integers(0, HORIZON, size))
    return MountainCarState(
        jnp.asarray(rng.uniform(low, high), jnp.float32),
        jnp.asarray(rng.uniform(-0.07, 0.07, size), jnp.float32),
        jnp.asarray(steps, jnp.int32),
    )


def bsuite_outcomes(states: MountainCarState, actions: np.ndarray) -> Outcome:
    """The same states put into bsuite one by one, and its answers as arrays."""
    env = MountainCar()
    outcomes = []
    for position, velocity, steps, action in zip(
        *(np.asarray(leaf) for leaf in states), actions, strict=True
    ):
        put(env, position, velocity, steps)
        outcomes.append(bsuite_step(env, int(action)))
    return Outcome(*(np.array(column) for column in zip(*outcomes, strict=True)))


def is_near_a_threshold(position: np.ndarray) -> np.ndarray:
    """Where float32 and float64 may fall on different sides of the goal, or of the inside of the wall."""
    at_wall = np.isclose(position, LEFT_WALL, rtol=0, atol=1e-7)
    by_wall = (np.abs(position - LEFT_WALL) < TOLERANCE) & ~at_wall
    return by_wall | (np.abs(position - GOAL) < TOLERANCE)


def test_ten_thousand_single_steps_equal_bsuite():
    rng = np.random.default_rng(0)
    states, actions = random_states(rng, 10_000), rng.integers(0, 3, 10_000)
    ours, timestep = STEP_ALL(KEY, states, jnp.asarray(actions))
    theirs = bsuite_outcomes(states, actions)

    excepted = is_near_a_threshold(np.asarray(ours.position)) | is_near_a_threshold(theirs.position)
    assert excepted.mean() < 0.001
    kept = ~excepted
    at_goal = theirs.position >= GOAL
    # All cases are seen: goal, wall, time-out, and a goal in the very last step.
    assert min((at_goal & kept).sum(), (ours.position == LEFT_WALL).sum()) > 500
    assert min(timestep.truncated.sum(), (at_goal & (ours.steps == HORIZON)).sum()) > 50

    np.testing.assert_allclose(ours.position[kept], theirs.position[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours.velocity[kept], theirs.velocity[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(timestep.observation[kept], theirs.observation[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(timestep.reward, theirs.reward)
    np.testing.assert_array_equal(timestep.terminated[kept], at_goal[kept])
    np.testing.assert_array_equal(is_last(timestep)[kept], theirs.is_last[kept])
    assert not (timestep.terminated & timestep.truncated).any()


def test_time_entry_is_that_of_bsuite_but_for_the_last_bit():
    steps = np.arange(HORIZON)
    states = MountainCarState(jnp.full(HORIZON, -0.5), jnp.zeros(HORIZON), jnp.asarray(steps))
    actions = np.full(HORIZON, COAST)
    _, timestep = STEP_ALL(KEY, states, jnp.asarray(actions))
    theirs = bsuite_outcomes(states, actions).observation
    assert WORLD.time_feature == 2
    # XLA divides by multiplying with the reciprocal.
    np.testing.assert_array_max_ulp(np.asarray(timestep.observation[:, 2]), theirs[:, 2], maxulp=1)


def pump(velocity: float, _time: int) -> int:
    """Pushes the way the car rolls, which adds energy at every step."""
    return RIGHT if velocity >= 0 else LEFT


SCRIPTS = {
    "always left": lambda _velocity, _time: LEFT,
    "always coast": lambda _velocity, _time: COAST,
    "always right": lambda _velocity, _time: RIGHT,
    "fast swinging": lambda _velocity, time: RIGHT if time % 10 < 5 else LEFT,
    "swinging in tune with the valley": lambda _velocity, time: RIGHT if time % 84 < 42 else LEFT,
    "energy pumping": pump,
    "random": lambda _velocity, time: int(np.random.default_rng(time).integers(0, 3)),
}
REACHES_GOAL = {"swinging in tune with the valley", "energy pumping"}


def bsuite_episode(script, seed: int) -> tuple[MountainCarState, np.ndarray, Outcome]:
    """Start, actions and outcomes of an episode of bsuite. It starts where a float32 can be."""
    env = MountainCar(seed=seed)
    start = np.float32(env.reset().observation[0, 0])
    put(env, start, 0, 0)
    actions, outcomes = [], []
    while not (outcomes and outcomes[-1].is_last):
        actions.append(script(env._velocity, env._timestep))
        outcomes.append(bsuite_step(env, actions[-1]))
    state = MountainCarState(jnp.asarray(start), jnp.zeros(()), jnp.zeros((), jnp.int32))
    return state, np.array(actions), Outcome(*(np.array(column) for column in zip(*outcomes, strict=True)))


def play(state: MountainCarState, actions: np.ndarray) -> Timestep:
    """Our outcomes of the same actions."""

    timesteps = []
    for action in actions:
        state, timestep = STEP(KEY, state, action)
        timesteps.append(timestep)
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *timesteps)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripted_episodes_have_the_length_and_the_end_of_bsuite(name):
    state, actions, theirs = bsuite_episode(SCRIPTS[name], seed=3)
    ours = play(state, actions)
    reached = theirs.position[-1] >= GOAL
    assert reached == (name in REACHES_GOAL)

    # The car is no chaotic system: paths stay closer to each other than they come to the goal's edge.
    gap = np.abs(ours.observation[:, 0] - theirs.position).max()
    assert gap < min(1e-4, np.abs(theirs.position - GOAL).min())
    np.testing.assert_array_equal(is_last(ours), theirs.is_last)
    assert bool(ours.terminated[-1]) == reached
    assert bool(ours.truncated[-1]) == (not reached)
    assert len(actions) <= WORLD.horizon
    assert reached or len(actions) == WORLD.horizon
    np.testing.assert_allclose(ours.observation[-1], theirs.observation[-1], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(ours.reward, theirs.reward)


def test_goal_in_the_last_step_terminates_and_does_not_truncate():
    state = MountainCarState(jnp.asarray(0.49), jnp.asarray(0.05), jnp.asarray(HORIZON - 1))
    _, timestep = STEP(KEY, state, jnp.asarray(RIGHT))
    assert timestep.terminated
    assert not timestep.truncated


def test_observation_at_the_goal_is_the_terminal_one_although_the_next_episode_starts():
    state = MountainCarState(jnp.asarray(0.49), jnp.asarray(0.05), jnp.asarray(10))
    state, transition = jax.jit(partial(step_and_reset, WORLD))(KEY, state, jnp.asarray(RIGHT))
    assert transition.arrived.observation[0] >= GOAL
    assert transition.is_first
    assert transition.current.observation[0] < -0.4 + 1e-6
    assert state.steps == 0


def test_starts_are_distributed_as_in_bsuite():
    state, timestep = jax.vmap(WORLD.reset)(jax.random.split(KEY, 20_000))
    env = MountainCar(seed=0)
    theirs = np.array([env.reset().observation[0] for _ in range(5_000)])
    assert state.position.min() >= np.float32(-0.6)
    assert state.position.max() <= np.float32(-0.4)
    # The standard error of the mean of a uniform variable on 0.2 is 0.0004.
    assert abs(state.position.mean() + 0.5) < 0.002
    assert stats.ks_2samp(np.asarray(state.position), theirs[:, 0]).pvalue > 0.01
    np.testing.assert_array_equal(timestep.observation[:, 0], state.position)
    np.testing.assert_array_equal(timestep.observation[:, 1:], 0)
    assert not (is_last(timestep) | (timestep.reward != 0)).any()


def follow(policy, num_cars: int, num_steps: int) -> Timestep:
    """What many cars arrive at, episode after episode, all by one policy of (key, state)."""

    def one_step(state, key):
        action_key, world_key = jax.random.split(key)
        state, transition = step_and_reset(WORLD, world_key, state, policy(action_key, state))
        return state, transition.arrived

    def one_car(key):
        reset_key, run_key = jax.random.split(key)
        return jax.lax.scan(one_step, WORLD.reset(reset_key)[0], jax.random.split(run_key, num_steps))[1]

    return jax.jit(jax.vmap(one_car))(jax.random.split(KEY, num_cars))


def uniform(key, _state):
    return jax.random.randint(key, (), 0, 3)


def pump_in_jax(_key, state):
    return jnp.where(state.velocity >= 0, RIGHT, LEFT)


def pump_to_the_left(_key, state):
    """Gathers all the energy there is, but brakes on the way to the goal: to hit the wall, again and again."""
    return jnp.where((state.velocity < 0) | (state.position > 0.2), LEFT, RIGHT)


def is_in_the_box(observation) -> bool:
    box = WORLD.observation
    assert observation.dtype == box.dtype
    return bool(((observation >= box.low) & (observation <= box.high)).all())


def test_random_policy_stays_in_the_box_and_never_reaches_the_goal():
    timestep = follow(uniform, num_cars=10, num_steps=3 * HORIZON)
    assert is_in_the_box(np.asarray(timestep.observation))
    assert not timestep.terminated.any()
    assert timestep.truncated.sum() == 30


def test_energy_pumping_stays_in_the_box_and_reaches_the_goal_in_every_episode():
    timestep = follow(pump_in_jax, num_cars=10, num_steps=HORIZON)
    assert is_in_the_box(np.asarray(timestep.observation))
    assert not timestep.truncated.any()
    assert timestep.terminated.sum() > 60


def test_car_at_the_wall_stays_in_the_box_and_stands():
    observation = np.asarray(follow(pump_to_the_left, num_cars=10, num_steps=HORIZON).observation)
    assert is_in_the_box(observation)
    at_wall = observation[..., 0] == np.float32(LEFT_WALL)
    assert at_wall.sum() > 20
    assert (observation[at_wall, 1] == 0).all()


def test_reported_facts_equal_bsuite():
    env = MountainCar()
    assert WORLD.num_actions == env.action_spec().num_values
    assert WORLD.observation.shape == env.observation_spec().shape[1:]


def test_picture_shows_where_the_car_is():
    def picture(position):
        return WORLD.picture(MountainCarState(jnp.asarray(position), jnp.zeros(()), jnp.zeros((), jnp.int32)))

    left, right = picture(-1.0), picture(0.3)
    assert left.shape == (300, 400, 3)
    assert left.dtype == np.uint8
    # The car moves from the left half of the picture to the right half.
    changed = (left != right).any(axis=(0, 2))
    assert changed[:200].any()
    assert changed[200:].any()
    np.testing.assert_array_equal(left, picture(-1.0))

"""Mountain Car equals bsuite's, in single steps and over whole episodes."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments.mountain_car import MountainCar
from scipy import stats

from gemax.envs.base import is_last, step_and_reset
from gemax.envs.mountain_car import GOAL, HORIZON, LEFT_WALL, MountainCarState, mountain_car
from gemax.types import Timestep

ENV = mountain_car()
STEP = jax.jit(ENV.step)
STEP_ALL = jax.jit(jax.vmap(ENV.step, in_axes=(None, 0, 0)))
KEY = jax.random.key(0)
TOLERANCE = 1e-5
LEFT, COAST, RIGHT = 0, 1, 2


class Outcome(NamedTuple):
    """Result of one action in bsuite."""

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
    """Sets the state through private fields, because bsuite has no function for it."""
    env._position, env._velocity, env._timestep = float(position), float(velocity), int(steps)
    env._reset_next_step = False


def random_states(rng: np.random.Generator, size: int) -> MountainCarState:
    """Samples the reachable range, with many states near the wall, the goal and the time limit."""
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
    """Takes the same steps in bsuite."""
    env = MountainCar()
    outcomes = []
    for position, velocity, steps, action in zip(
        *(np.asarray(leaf) for leaf in states), actions, strict=True
    ):
        put(env, position, velocity, steps)
        outcomes.append(bsuite_step(env, int(action)))
    return Outcome(*(np.array(column) for column in zip(*outcomes, strict=True)))


def is_near_a_threshold(position: np.ndarray) -> np.ndarray:
    """Whether float32 and float64 may fall on different sides of the goal or of the wall."""
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
    # All cases occur: goal, wall, time-out, and the goal in the last step.
    assert min((at_goal & kept).sum(), (ours.position == LEFT_WALL).sum()) > 500
    assert min(timestep.truncated.sum(), (at_goal & (ours.steps == HORIZON)).sum()) > 50

    np.testing.assert_allclose(ours.position[kept], theirs.position[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours.velocity[kept], theirs.velocity[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(timestep.observation[kept], theirs.observation[kept], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(timestep.reward, theirs.reward)
    np.testing.assert_array_equal(timestep.terminated[kept], at_goal[kept])
    np.testing.assert_array_equal(is_last(timestep)[kept], theirs.is_last[kept])
    assert not (timestep.terminated & timestep.truncated).any()


def test_the_time_feature_equals_bsuite_up_to_rounding():
    steps = np.arange(HORIZON)
    states = MountainCarState(jnp.full(HORIZON, -0.5), jnp.zeros(HORIZON), jnp.asarray(steps))
    actions = np.full(HORIZON, COAST)
    _, timestep = STEP_ALL(KEY, states, jnp.asarray(actions))
    theirs = bsuite_outcomes(states, actions).observation
    assert ENV.spec.time_feature == 2
    # XLA multiplies with the reciprocal instead of dividing.
    np.testing.assert_array_max_ulp(np.asarray(timestep.observation[:, 2]), theirs[:, 2], maxulp=1)


def pump(velocity: float, _time: int) -> int:
    """Pushes in the direction of motion, which adds energy at every step."""
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
    """Returns start, actions and outcomes of an episode of bsuite. The start is rounded to float32."""
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
    """Takes the same actions in our environment."""
    timesteps = []
    for action in actions:
        state, timestep = STEP(KEY, state, action)
        timesteps.append(timestep)
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *timesteps)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripted_episodes_end_as_in_bsuite(name):
    state, actions, theirs = bsuite_episode(SCRIPTS[name], seed=3)
    ours = play(state, actions)
    reached = theirs.position[-1] >= GOAL
    assert reached == (name in REACHES_GOAL)

    # Rounding cannot decide the end: the paths are closer to each other than to the goal threshold.
    gap = np.abs(ours.observation[:, 0] - theirs.position).max()
    assert gap < min(1e-4, np.abs(theirs.position - GOAL).min())
    np.testing.assert_array_equal(is_last(ours), theirs.is_last)
    assert bool(ours.terminated[-1]) == reached
    assert bool(ours.truncated[-1]) == (not reached)
    assert len(actions) <= ENV.spec.horizon
    assert reached or len(actions) == ENV.spec.horizon
    np.testing.assert_allclose(ours.observation[-1], theirs.observation[-1], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(ours.reward, theirs.reward)


def test_goal_in_the_last_step_terminates_and_does_not_truncate():
    state = MountainCarState(jnp.asarray(0.49), jnp.asarray(0.05), jnp.asarray(HORIZON - 1))
    _, timestep = STEP(KEY, state, jnp.asarray(RIGHT))
    assert timestep.terminated
    assert not timestep.truncated


def test_the_automatic_reset_keeps_the_terminal_observation():
    state = MountainCarState(jnp.asarray(0.49), jnp.asarray(0.05), jnp.asarray(10))
    state, outcome = jax.jit(partial(step_and_reset, ENV))(KEY, state, jnp.asarray(RIGHT))
    assert outcome.timestep.observation[0] >= GOAL
    assert outcome.is_first
    assert outcome.current.observation[0] < -0.4 + 1e-6
    assert state.steps == 0


def test_starts_are_distributed_as_in_bsuite():
    state, timestep = jax.vmap(ENV.reset)(jax.random.split(KEY, 20_000))
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
    """Steps many cars with a policy of (key, state). Returns the timesteps."""

    def one_step(state, key):
        action_key, env_key = jax.random.split(key)
        state, outcome = step_and_reset(ENV, env_key, state, policy(action_key, state))
        return state, outcome.timestep

    def one_car(key):
        reset_key, run_key = jax.random.split(key)
        return jax.lax.scan(one_step, ENV.reset(reset_key)[0], jax.random.split(run_key, num_steps))[1]

    return jax.jit(jax.vmap(one_car))(jax.random.split(KEY, num_cars))


def uniform(key, _state):
    return jax.random.randint(key, (), 0, 3)


def pump_in_jax(_key, state):
    return jnp.where(state.velocity >= 0, RIGHT, LEFT)


def pump_to_the_left(_key, state):
    """Gains energy but brakes before the goal, so that the car hits the wall again and again."""
    return jnp.where((state.velocity < 0) | (state.position > 0.2), LEFT, RIGHT)


def is_in_bounds(observation) -> bool:
    box = ENV.spec.observation
    assert observation.dtype == box.dtype
    return bool(((observation >= box.low) & (observation <= box.high)).all())


def test_a_random_policy_stays_in_bounds_and_never_reaches_the_goal():
    timestep = follow(uniform, num_cars=10, num_steps=3 * HORIZON)
    assert is_in_bounds(np.asarray(timestep.observation))
    assert not timestep.terminated.any()
    assert timestep.truncated.sum() == 30


def test_energy_pumping_stays_in_bounds_and_reaches_the_goal_in_every_episode():
    timestep = follow(pump_in_jax, num_cars=10, num_steps=HORIZON)
    assert is_in_bounds(np.asarray(timestep.observation))
    assert not timestep.truncated.any()
    assert timestep.terminated.sum() > 60


def test_a_car_that_hits_the_wall_stays_in_bounds_and_stops():
    observation = np.asarray(follow(pump_to_the_left, num_cars=10, num_steps=HORIZON).observation)
    assert is_in_bounds(observation)
    at_wall = observation[..., 0] == np.float32(LEFT_WALL)
    assert at_wall.sum() > 20
    assert (observation[at_wall, 1] == 0).all()


def test_the_spec_equals_bsuite():
    env = MountainCar()
    assert ENV.spec.num_actions == env.action_spec().num_values
    assert ENV.spec.observation.shape == env.observation_spec().shape[1:]


def test_the_image_shows_the_position_of_the_car():
    def render(position):
        return ENV.render(MountainCarState(jnp.asarray(position), jnp.zeros(()), jnp.zeros((), jnp.int32)))

    left, right = render(-1.0), render(0.3)
    assert left.shape == (300, 400, 3)
    assert left.dtype == np.uint8
    # The car moves from the left half of the image to the right half.
    changed = (left != right).any(axis=(0, 2))
    assert changed[:200].any()
    assert changed[200:].any()
    np.testing.assert_array_equal(left, render(-1.0))

"""Cartpole swing-up equals bsuite's, in single steps and over whole episodes, in each of its twenty settings."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments import cartpole
from bsuite.experiments.cartpole_swingup import sweep
from bsuite.experiments.cartpole_swingup.cartpole_swingup import CartpoleSwingup
from scipy import stats

from gemax.envs import cartpole_swingup as module
from gemax.envs.base import JaxEnv, is_last, step_and_reset
from gemax.envs.cartpole_swingup import HORIZON, CartpoleState, bsuite_setting, cartpole_swingup
from gemax.types import Timestep

ENV = cartpole_swingup()
STEP = jax.jit(ENV.step)
KEY = jax.random.key(0)
TOLERANCE = 1e-5
LEFT, STAY, RIGHT = 0, 1, 2
X, X_DOT, THETA_DOT, TIME = 0, 1, 4, 5

# Time after each number of steps, summed up as in bsuite.
BSUITE_TIMES = np.concatenate([[0.0], np.cumsum(np.full(HORIZON, 0.01))])


class Task(NamedTuple):
    """Settings of both implementations. The defaults are those of bsuite."""

    height_threshold: float
    x_reward_threshold: float
    theta_dot_threshold: float = 1.0
    x_threshold: float = 3.0
    move_cost: float = 0.1


class Outcome(NamedTuple):
    """Result of one action in bsuite."""

    state: np.ndarray
    observation: np.ndarray
    reward: float
    is_last: bool


TASKS = {f"bsuite {bsuite_id}": Task(**setting) for bsuite_id, setting in enumerate(sweep.SETTINGS)}
TASKS["none of bsuite's"] = Task(0.3, 0.7, theta_dot_threshold=2.0, x_threshold=1.5, move_cost=0.25)
EASIEST = TASKS["bsuite 0"]


def put(env: CartpoleSwingup, x: float, x_dot: float, theta: float, theta_dot: float, steps: int) -> None:
    """Sets the state through private fields, because bsuite has no function for it."""
    floats = (float(x), float(x_dot), float(theta), float(theta_dot), float(BSUITE_TIMES[steps]))
    env._state = cartpole.CartpoleState(*floats)
    env._reset_next_step = False


def bsuite_step(env: CartpoleSwingup, action: int) -> Outcome:
    timestep = env.step(action)
    return Outcome(np.array(env._state), timestep.observation[0], timestep.reward, timestep.last())


def stacked(outcomes: list[Outcome]) -> Outcome:
    return Outcome(*(np.array(column) for column in zip(*outcomes, strict=True)))


def random_states(rng: np.random.Generator, task: Task, size: int) -> CartpoleState:
    """Samples the reachable range, with many states near the reward and near the ends of episodes."""
    widest_angle = 1.2 * np.arccos(task.height_threshold)
    is_near_reward = rng.random(size) < 0.5
    x_range = np.where(is_near_reward, 1.2 * task.x_reward_threshold, task.x_threshold)
    angle_range = np.where(is_near_reward, widest_angle, np.pi)
    theta_dot_range = np.where(is_near_reward, 1.5 * task.theta_dot_threshold, rng.choice([15.0, 90.0], size))
    x_dot_range = rng.choice([1.0, 11.0], size)
    state = rng.uniform(-1, 1, (4, size)) * np.stack([x_range, x_dot_range, angle_range, theta_dot_range])
    state[X] = np.where(rng.random(size) < 0.2, np.sign(state[X]) * (task.x_threshold - 0.005), state[X])
    steps = np.where(rng.random(size) < 0.2, HORIZON - 1, rng.integers(0, HORIZON, size))
    x, x_dot, theta, theta_dot = (jnp.asarray(row, jnp.float32) for row in state)
    return CartpoleState(x, x_dot, jnp.remainder(theta, 2 * jnp.pi), theta_dot, jnp.asarray(steps, jnp.int32))


def bsuite_outcomes(task: Task, states: CartpoleState, actions: np.ndarray) -> Outcome:
    """Takes the same steps in bsuite."""
    env = CartpoleSwingup(**task._asdict())
    outcomes = []
    for *state, action in zip(*(np.asarray(leaf) for leaf in states), actions, strict=True):
        put(env, *state)
        outcomes.append(bsuite_step(env, int(action)))
    return stacked(outcomes)


def is_near_a_threshold(task: Task, x: np.ndarray, theta: np.ndarray, theta_dot: np.ndarray) -> np.ndarray:
    """Whether float32 and float64 may fall on different sides of a threshold."""
    margins = [
        np.cos(theta) - task.height_threshold,
        np.abs(x) - task.x_reward_threshold,
        np.abs(x) - task.x_threshold,
        np.abs(theta_dot) - task.theta_dot_threshold,
    ]
    return (np.abs(margins) < TOLERANCE).any(axis=0)


def relative_gap(ours, theirs: np.ndarray) -> float:
    """Returns the maximum difference: absolute below 1, relative above, where float32 is less precise than 1e-5."""
    return (np.abs(np.asarray(ours) - theirs) / np.maximum(1, np.abs(theirs))).max()


def angle_gap(ours, theirs: np.ndarray) -> float:
    """Returns the maximum difference between angles, modulo a full turn."""
    return np.abs(np.angle(np.exp(1j * (np.asarray(ours) - theirs)))).max()


def compare_single_steps(task: Task, size: int, seed: int, compile_step: bool) -> tuple[int, float]:
    """Asserts equality with bsuite. Returns the number of excepted states and the maximum difference."""
    rng = np.random.default_rng(seed)
    states, actions = random_states(rng, task, size), rng.integers(0, 3, size)
    step_all = jax.vmap(cartpole_swingup(**task._asdict()).step, in_axes=(None, 0, 0))
    step_all = jax.jit(step_all) if compile_step else step_all
    ours, timestep = step_all(KEY, states, jnp.asarray(actions))
    theirs = bsuite_outcomes(task, states, actions)
    x, x_dot, theta, theta_dot, _ = theirs.state.T

    kept = ~is_near_a_threshold(task, x, theta, theta_dot)
    off_track = np.abs(x) > task.x_threshold
    np.testing.assert_array_equal(timestep.terminated[kept], off_track[kept])
    np.testing.assert_array_equal(timestep.truncated[kept], (theirs.is_last & ~off_track)[kept])
    # All cases occur: upright, off the track, time-out, and off the track in the last step.
    assert min((theirs.reward > 0.5).sum(), off_track.sum(), timestep.truncated.sum()) > size / 200
    assert (off_track & (ours.steps == HORIZON)).any()
    gaps = [
        relative_gap(ours.x, x),
        relative_gap(ours.x_dot, x_dot),
        angle_gap(ours.theta, theta),
        relative_gap(ours.theta_dot, theta_dot),
        relative_gap(timestep.observation[kept], theirs.observation[kept]),
        relative_gap(timestep.reward[kept], theirs.reward[kept]),
    ]
    assert max(gaps) < TOLERANCE
    return int((~kept).sum()), max(gaps)


def test_ten_thousand_single_steps_equal_bsuite():
    num_excepted, _ = compare_single_steps(EASIEST, 10_000, seed=0, compile_step=True)
    assert num_excepted < 10


@pytest.mark.parametrize(("seed", "name"), list(enumerate(TASKS))[1:])
def test_five_hundred_single_steps_equal_bsuite_in_every_other_setting(seed, name):
    # Not compiled: compiling each setting would take longer than the steps.
    num_excepted, _ = compare_single_steps(TASKS[name], 500, seed, compile_step=False)
    assert num_excepted < 3


def test_settings_and_defaults_equal_bsuite():
    ours = [bsuite_setting(bsuite_id)._asdict() for bsuite_id in range(module.NUM_BSUITE_SETTINGS)]
    assert ours == list(sweep.SETTINGS)
    env = CartpoleSwingup()
    defaults = (env._theta_dot_threshold, env._x_threshold, env._move_cost)
    assert defaults == (EASIEST.theta_dot_threshold, EASIEST.x_threshold, EASIEST.move_cost)
    assert ENV.spec.num_actions == env.action_spec().num_values
    assert ENV.spec.observation.shape == env.observation_spec().shape[1:]


@pytest.mark.parametrize("bsuite_id", [-1, 20])
def test_an_unknown_bsuite_setting_raises_an_error(bsuite_id):
    with pytest.raises(ValueError, match="0 to 19"):
        bsuite_setting(bsuite_id)


# Actions by time. In all of them float32 and float64 stay close, which the test asserts: the pole swings below the
# cart, or rotates once or twice. Balancing upright without feedback would be chaotic.
SCRIPTS = {
    "always stay": lambda _time: STAY,
    "always left": lambda _time: LEFT,
    "always right": lambda _time: RIGHT,
    "to and fro on the spot": lambda time: RIGHT if (time + 10) % 40 < 20 else LEFT,
    "wide to and fro on the spot": lambda time: RIGHT if (time + 20) % 80 < 40 else LEFT,
    "to and fro with drift": lambda time: RIGHT if time % 40 < 20 else LEFT,
    "random": lambda time: int(np.random.default_rng(time).integers(0, 3)),
    "random, held for ten steps": lambda time: int(np.random.default_rng(time // 10).integers(0, 3)),
}
STAYS_ON_TRACK = {"always stay", "to and fro on the spot", "wide to and fro on the spot"}


def bsuite_start(seed: int) -> tuple[CartpoleSwingup, CartpoleState]:
    """Returns bsuite's environment at the start of an episode, rounded to float32, and the same state for ours."""
    env = CartpoleSwingup(seed=seed, **EASIEST._asdict())
    env.reset()
    start = [np.float32(variable) for variable in env._state[:4]]
    put(env, *start, 0)
    return env, CartpoleState(*(jnp.asarray(variable) for variable in start), jnp.zeros((), jnp.int32))


def play(state: CartpoleState, policy) -> tuple[np.ndarray, Timestep]:
    """Runs an episode of ours with a policy of (time, state). Returns states and timesteps over time."""
    path, timesteps = [], []
    while not (timesteps and is_last(timesteps[-1])):
        state, timestep = STEP(KEY, state, policy(len(timesteps), state))
        path.append(np.array(state))
        timesteps.append(timestep)
    return np.array(path), jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *timesteps)


def bsuite_play(env: CartpoleSwingup, policy) -> Outcome:
    """Runs an episode of bsuite with the same policy."""
    outcomes = []
    while not (outcomes and outcomes[-1].is_last):
        outcomes.append(bsuite_step(env, policy(len(outcomes), env._state)))
    return stacked(outcomes)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripted_episodes_end_as_in_bsuite(name):
    env, state = bsuite_start(seed=1)
    path, ours = play(state, lambda time, _state: SCRIPTS[name](time))
    theirs = bsuite_play(env, lambda time, _state: SCRIPTS[name](time))
    x = theirs.state[:, X]
    off_track = np.abs(x[-1]) > 3
    assert off_track == (name not in STAYS_ON_TRACK)

    assert len(path) == len(x)
    assert off_track or len(x) == ENV.spec.horizon == 1001
    assert bool(ours.terminated[-1]) == off_track
    assert bool(ours.truncated[-1]) == (not off_track)
    # Rounding cannot decide the end: the paths are closer to each other than to the end of the track.
    gap = np.abs(path[:, X] - x).max()
    assert gap < min(1e-4, np.abs(np.abs(x) - 3).min())
    assert relative_gap(ours.observation, theirs.observation) < 1e-4
    np.testing.assert_allclose(ours.reward, theirs.reward, atol=1e-6)


def swing_up(_time: int, state) -> int:
    """Gives the pole the energy to stand, keeps the cart near the middle, and balances the pole when it is high."""
    theta, theta_dot = float(state.theta), float(state.theta_dot)
    lean = (theta + np.pi) % (2 * np.pi) - np.pi
    missing_energy = 9.8 * (1 - np.cos(theta)) - theta_dot**2 / 3
    if abs(lean) < 0.5:
        push = 40 * lean + 8 * theta_dot + float(state.x) + 2 * float(state.x_dot)
    else:
        push = -2 * missing_energy * theta_dot * np.cos(theta) - 1.5 * float(state.x) - float(state.x_dot)
    return RIGHT if push > 2.5 else LEFT if push < -2.5 else STAY


def test_a_swing_up_controller_gets_the_same_return_as_in_bsuite():
    # The controller acts in each simulation separately: its feedback keeps small differences small.
    env, state = bsuite_start(seed=1)
    _, ours = play(state, swing_up)
    theirs = bsuite_play(env, swing_up)
    assert len(ours.reward) == len(theirs.reward) == 1001
    assert ours.truncated[-1]
    assert theirs.reward.sum() > 500
    assert abs(ours.reward.sum() - theirs.reward.sum()) < 0.05 * theirs.reward.sum()
    first_reward = np.argmax(theirs.reward > 0)
    np.testing.assert_allclose(ours.reward[: first_reward + 1], theirs.reward[: first_reward + 1], atol=1e-6)


def test_the_time_feature_equals_bsuite_up_to_rounding():
    _, ours = play(bsuite_start(seed=1)[1], lambda _time, _state: STAY)
    theirs = bsuite_play(bsuite_start(seed=1)[0], lambda _time, _state: STAY)
    assert ENV.spec.time_feature == TIME
    # XLA multiplies with the reciprocal instead of dividing.
    np.testing.assert_array_max_ulp(
        np.asarray(ours.observation[:, TIME]), theirs.observation[:, TIME], maxulp=1
    )


def leaving(steps: int) -> CartpoleState:
    """Returns a state that is about to leave the track on the right."""
    variables = (jnp.asarray(value) for value in (2.99, 5.0, 3.0, 0.0))
    return CartpoleState(*variables, jnp.asarray(steps))


def test_leaving_the_track_in_the_last_step_terminates_and_does_not_truncate():
    _, timestep = STEP(KEY, leaving(steps=HORIZON - 1), RIGHT)
    assert timestep.terminated
    assert not timestep.truncated


def test_the_automatic_reset_keeps_the_terminal_observation():
    run = jax.jit(partial(step_and_reset, ENV))
    state, outcome = run(KEY, leaving(steps=10), jnp.asarray(RIGHT))
    assert outcome.timestep.observation[X] > 1
    assert outcome.is_first
    assert abs(outcome.current.observation[X]) < 0.02
    assert state.steps == 0


def test_starts_are_distributed_as_in_bsuite():
    state, timestep = jax.vmap(ENV.reset)(jax.random.split(KEY, 20_000))
    env = CartpoleSwingup(seed=0, **EASIEST._asdict())
    theirs = np.array([(env.reset(), env._state)[1] for _ in range(5_000)])
    for ours, bsuites, middle in zip(state[:4], theirs.T, [0, 0, np.pi, 0], strict=False):
        offset = np.asarray(ours) - middle
        assert np.abs(offset).max() <= 0.05 + 1e-6
        # The standard error of the mean of a uniform variable on 0.1 is 0.0002.
        assert abs(offset.mean()) < 0.001
        assert stats.ks_2samp(np.asarray(ours), bsuites).pvalue > 0.01
    assert abs(np.corrcoef(np.stack(state[:4])) - np.eye(4)).max() < 0.03
    assert not (is_last(timestep) | (timestep.reward != 0)).any()
    np.testing.assert_array_equal(timestep.observation[:, TIME], 0)


def follow(policy, num_carts: int, num_steps: int) -> Timestep:
    """Steps many carts with a policy of (key, state). Returns the timesteps."""

    def one_step(state, key):
        action_key, env_key = jax.random.split(key)
        state, outcome = step_and_reset(ENV, env_key, state, policy(action_key, state))
        return state, outcome.timestep

    def one_cart(key):
        reset_key, run_key = jax.random.split(key)
        return jax.lax.scan(one_step, ENV.reset(reset_key)[0], jax.random.split(run_key, num_steps))[1]

    return jax.jit(jax.vmap(one_cart))(jax.random.split(KEY, num_carts))


def uniform(key, _state):
    return jax.random.randint(key, (), 0, 3)


def dash(_key, state):
    """Accelerates until the cart must brake before the end of the track, then turns: the fastest cart."""
    braking_distance = state.x_dot * jnp.abs(state.x_dot) / (2 * 10 / 1.1)
    aim = jnp.where(state.x_dot >= 0, 2.5, -2.5)
    return jnp.where(state.x + braking_distance < aim, RIGHT, LEFT)


def wind_up(_key, state):
    """Pushes so that the pole rotates faster and faster, unless the cart would leave the track: the fastest pole."""
    sideways = jnp.sign(state.theta_dot * jnp.cos(state.theta)).astype(int)
    pole_share = 0.1 * 0.5 / 1.1
    centre = state.x + pole_share * jnp.sin(state.theta)
    drift = state.x_dot + pole_share * state.theta_dot * jnp.cos(state.theta)
    away = 0.5 * centre + 0.2 * drift
    is_harmful = (jnp.abs(away) > 1) & (-sideways * away > 0)
    return jnp.where(is_harmful, STAY, 1 - sideways)


def is_in_bounds(env: JaxEnv, observation) -> bool:
    box = env.spec.observation
    assert observation.dtype == box.dtype
    return bool(((observation >= box.low) & (observation <= box.high)).all())


# Each policy with the minimum speeds of cart and pole that it reaches.
@pytest.mark.parametrize(("policy", "x_dot", "theta_dot"), [(uniform, 1, 3), (dash, 6, 5), (wind_up, 1, 80)])
def test_observations_are_in_bounds_and_not_clipped(policy, x_dot, theta_dot):
    observation = np.asarray(follow(policy, num_carts=16, num_steps=2 * HORIZON).observation)
    assert is_in_bounds(ENV, observation)
    # Speeds stay below half the bounds, so clipping never changes an observation of bsuite.
    assert x_dot < 3 * np.abs(observation[..., X_DOT]).max() < module.MAX_X_DOT / 2
    assert theta_dot < np.abs(observation[..., THETA_DOT]).max() < module.MAX_THETA_DOT / 2


def test_velocity_bounds_follow_from_the_energy_of_the_force():
    total, pole, half_length = 1.1, 0.1, 0.5
    lightest_cart = total - 3 / 4 * pole
    lightest_pole = 4 / 3 * pole * half_length**2 - (pole * half_length) ** 2 / total
    start = 0.05 * np.ones(2)
    kinetic = start @ np.array([[total, pole * half_length], [pole * half_length, 4 / 3 * pole / 4]]) @ start
    potential = 2 * pole * 9.8 * half_length * (1 - np.cos(0.05))
    root = np.sqrt(kinetic + potential) + 10 * 10.01 / np.sqrt(lightest_cart)
    assert 97.7 < root / np.sqrt(lightest_cart) < 97.8 < module.MAX_X_DOT
    assert 561 < root / np.sqrt(lightest_pole) < 562 < module.MAX_THETA_DOT


def test_unrealistic_speeds_are_clipped_to_the_bounds():
    variables = (jnp.asarray(value) for value in (2.9, 1e6, 1.0, -1e6))
    _, timestep = STEP(KEY, CartpoleState(*variables, jnp.asarray(0)), RIGHT)
    assert is_in_bounds(ENV, np.asarray(timestep.observation))
    assert timestep.terminated


def test_the_image_shows_the_positions_of_cart_and_pole():
    def render(x, theta):
        zero = jnp.zeros(())
        return ENV.render(CartpoleState(jnp.asarray(x), zero, jnp.asarray(theta), zero, jnp.zeros((), int)))

    hanging, upright, aside = render(0.0, np.pi), render(0.0, 0.0), render(2.0, np.pi)
    assert hanging.shape == (300, 400, 3)
    assert hanging.dtype == np.uint8
    # The pole moves between below and above; the cart moves into the right half.
    raised = (hanging != upright).any(axis=(1, 2))
    assert raised[:150].any()
    assert raised[150:].any()
    assert (hanging != aside).any(axis=(0, 2))[240:].any()
    np.testing.assert_array_equal(hanging, render(0.0, np.pi))

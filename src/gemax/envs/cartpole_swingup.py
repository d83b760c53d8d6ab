"""Cartpole swing-up: a hanging pole has to be swung up by pushing its cart. Every push has a cost.

Physics, start distribution and reward are the same as in bsuite's `CartpoleSwingup`. Two things are different. Here
leaving the track terminates an episode and the time limit truncates it, which bsuite does not distinguish. Observed
velocities are clipped, far above any speed that we have seen; in bsuite they are unbounded.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.envs.base import NUM_BINS, JaxEnv, Plane, bin_index, first_timestep, without_reward
from gemax.envs.render.cartpole_swingup import draw_cartpole
from gemax.types import EnvSpec, FiniteActions, ObservationSpec, Timestep

CART_MASS = 1.0
"""In kilograms."""
POLE_MASS = 0.1
"""In kilograms."""
TOTAL_MASS = CART_MASS + POLE_MASS
"""In kilograms."""
POLE_HALF_LENGTH = 0.5
"""From the hinge to the pole's centre of mass, in metres."""
FORCE = 10.0
"""Force of a push on the cart, in newtons."""
GRAVITY = 9.8
"""In metres per second squared."""
TIMESCALE = 0.01
"""Time between two actions, in seconds."""
MAX_TIME = 10.0
"""An episode is truncated after more than this many seconds."""
HORIZON = 1001
"""Number of actions after which an episode is truncated: the smallest that takes more than `MAX_TIME`. bsuite sums up
the time in float64, which gives just below 10 after 1,000 actions. In float32 it would be above 10."""
START_RANGE = 0.05
"""Maximum start value of position and velocities, and of the angle between the pole and straight down."""
TIME_FEATURE = 5
"""Index of the time in the observation."""

# Bounds of the velocities, from the work that the force can do in a whole episode. The energy is
#
#   E = M x'² / 2 + I θ'² / 2 + m l cos(θ) x' θ' + m g l (cos(θ) + 1),   I = 4 m l² / 3,   dE/dt = F x'
#
# where M is the total mass, m the pole's mass and l its half length. Minimised over the other velocity and θ:
#
#   E >= (M - 3m/4) x'² / 2   and   E >= (I - (m l)² / M) θ'² / 2
#
# The first gives d sqrt(2E)/dt <= F / sqrt(M - 3m/4), hence |x'| <= 97.8 and |θ'| <= 562 after 10.01 seconds.
# A policy that only winds up the pole reaches 87 rad/s. Euler's method does not conserve E, so these bounds are not
# proven for the simulation, and `observe` clips to them.
MAX_X_DOT = 100.0
"""Bound of the observed velocity of the cart, in metres per second."""
MAX_THETA_DOT = 600.0
"""Bound of the observed angular velocity of the pole, in radians per second."""
MAX_BINNED_THETA_DOT = 15.0
"""Largest angular velocity inside the bins, in radians per second. A pole that falls from upright reaches 7.7."""

NUM_BSUITE_SETTINGS = 20
"""Number of swing-up tasks in bsuite: `cartpole_swingup/0` to `cartpole_swingup/19`."""


class SwingupSetting(NamedTuple):
    """Thresholds that differ between the twenty swing-up tasks of bsuite."""

    height_threshold: float
    """cos(theta) must be above this for a reward. It is 1 if the pole is upright."""
    x_reward_threshold: float
    """|x| must be below this for a reward, in metres."""


class CartpoleState(NamedTuple):
    """State of the environment."""

    x: Float[Array, ""]
    """Position of the cart, in metres to the right of the middle of the track."""
    x_dot: Float[Array, ""]
    """Velocity of the cart, in metres per second."""
    theta: Float[Array, ""]
    """Angle of the pole, in radians from 0 to 2 pi: 0 if upright, pi / 2 if it points right."""
    theta_dot: Float[Array, ""]
    """Angular velocity of the pole, in radians per second."""
    steps: Int[Array, ""]
    """Number of actions taken in this episode."""


def bsuite_setting(bsuite_id: int) -> SwingupSetting:
    """Returns the thresholds of `cartpole_swingup/<bsuite_id>`, from the easiest (0) to the hardest (19).

    Use them as `cartpole_swingup(**bsuite_setting(7)._asdict())`.
    """
    if not 0 <= bsuite_id < NUM_BSUITE_SETTINGS:
        raise ValueError(f"bsuite_id must be 0 to {NUM_BSUITE_SETTINGS - 1}; got {bsuite_id}.")
    strictness = bsuite_id / NUM_BSUITE_SETTINGS
    return SwingupSetting(height_threshold=strictness, x_reward_threshold=1 - strictness)


def cartpole_swingup(
    height_threshold: float = 0.0,
    x_reward_threshold: float = 1.0,
    theta_dot_threshold: float = 1.0,
    x_threshold: float = 3.0,
    move_cost: float = 0.1,
    reward_free: bool = False,
) -> JaxEnv:
    """Returns the environment. The reward is 1 per step in which the pole is upright, slow and near the middle.

    Actions: push left, stay, push right. Observation: position and velocity of the cart (in units of `x_threshold`),
    sine, cosine and velocity of the angle, time as a share of the limit, and whether the cart is near the middle and
    the pole is slow (1 or -1 each).

    Args:
        height_threshold: The pole is upright if cos(theta) is above this. The default is bsuite's setting 0.
        x_reward_threshold: The cart is near the middle if |x| is below this, in metres.
        theta_dot_threshold: The pole is slow if |theta_dot| is below this, in radians per second.
        x_threshold: The episode terminates if |x| is above this, in metres.
        move_cost: Cost of a push to either side.
        reward_free: All rewards and costs are zero.
    """
    high = _max_observation(x_threshold)
    low = np.where(np.arange(8) == TIME_FEATURE, 0, -high).astype(np.float32)

    def is_near(state: CartpoleState) -> Bool[Array, ""]:
        return jnp.abs(state.x) < x_reward_threshold

    def is_slow(state: CartpoleState) -> Bool[Array, ""]:
        return jnp.abs(state.theta_dot) < theta_dot_threshold

    def observe(state: CartpoleState) -> Float[Array, " 8"]:
        observation = [
            state.x / x_threshold,
            state.x_dot / x_threshold,
            jnp.sin(state.theta),
            jnp.cos(state.theta),
            state.theta_dot,
            state.steps / (MAX_TIME / TIMESCALE),
            jnp.where(is_near(state), 1.0, -1.0),
            jnp.where(is_slow(state), 1.0, -1.0),
        ]
        return jnp.clip(jnp.stack(observation), low, high)

    def reset(key: PRNGKeyArray) -> tuple[CartpoleState, Timestep]:
        return reset_at(key, jnp.zeros((), jnp.int32))

    def reset_at(key: PRNGKeyArray, time: Int[Array, ""]) -> tuple[CartpoleState, Timestep]:
        state = _sample_start(key)._replace(steps=time.astype(jnp.int32))
        return state, first_timestep(observe(state))

    def step(
        _key: PRNGKeyArray, state: CartpoleState, action: Int[Array, ""]
    ) -> tuple[CartpoleState, Timestep]:
        state = _simulate(state, action)
        is_upright = (jnp.cos(state.theta) > height_threshold) & is_near(state) & is_slow(state)
        reward = is_upright - move_cost * jnp.abs(action - 1)
        terminated = jnp.abs(state.x) > x_threshold
        truncated = (state.steps >= HORIZON) & ~terminated
        return state, Timestep(observe(state), reward, terminated, truncated)

    env = JaxEnv(
        spec=EnvSpec(
            name="cartpole-swingup",
            observation=ObservationSpec(low, high),
            actions=FiniteActions((3,)),
            horizon=HORIZON,
            solved_return=400.0,
            num_cells=NUM_BINS,
            num_states=NUM_BINS,
            time_feature=TIME_FEATURE,
            min_episode_steps=_min_steps_to(x_threshold),
        ),
        reset=reset,
        reset_at=reset_at,
        step=step,
        render=lambda state: draw_cartpole(float(state.x), float(state.theta)),
        cell_index=bin_index(
            lambda state: (state.theta, state.theta_dot),
            (0.0, -MAX_BINNED_THETA_DOT),
            (2 * np.pi, MAX_BINNED_THETA_DOT),
        ),
        plane=Plane(
            ("angle of the pole", "angular velocity"),
            (0.0, -MAX_BINNED_THETA_DOT),
            (2 * np.pi, MAX_BINNED_THETA_DOT),
            _angle_and_velocity,
        ),
    )
    return without_reward(env) if reward_free else env


def _angle_and_velocity(observation: Float[np.ndarray, "*batch 8"]) -> Float[np.ndarray, "*batch 2"]:
    """Returns the two binned variables of observations."""
    sine, cosine, velocity = np.moveaxis(observation[..., 2:5], -1, 0)
    return np.stack([np.arctan2(sine, cosine) % (2 * np.pi), velocity], axis=-1)


def _min_steps_to(x_threshold: float) -> int:
    # In time t the force moves the centre of mass by at most ½ F/M t². The factor 0.5 is a margin for Euler's method.
    return int(0.5 * np.sqrt(2 * x_threshold * TOTAL_MASS / FORCE) / TIMESCALE)


def _max_observation(x_threshold: float) -> Float[np.ndarray, " 8"]:
    # The last position of an episode is at most one step beyond the end of the track.
    x = x_threshold + TIMESCALE * MAX_X_DOT
    time = HORIZON / (MAX_TIME / TIMESCALE)
    entries = [x / x_threshold, MAX_X_DOT / x_threshold, 1, 1, MAX_THETA_DOT, time, 1, 1]
    return np.array(entries, np.float32)


def _sample_start(key: PRNGKeyArray) -> CartpoleState:
    """Returns a random start: nearly at rest, near the middle of the track, with the pole hanging down."""
    x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-START_RANGE, maxval=START_RANGE)
    return CartpoleState(x, x_dot, jnp.pi + theta, theta_dot, jnp.zeros((), jnp.int32))


def _simulate(state: CartpoleState, action: Int[Array, ""]) -> CartpoleState:
    """Returns the state after one step of Euler's method. Positions are integrated with the old velocities.

    Barto, Sutton and Anderson (1983), without friction. M is the total mass, m the pole's mass and l its half length:

        θ'' = (g sin(θ) - a cos(θ)) / (l (4/3 - m cos²(θ) / M))   with a = (F + m l θ'² sin(θ)) / M
        x'' = a - m l θ'' cos(θ) / M
    """
    sin, cos = jnp.sin(state.theta), jnp.cos(state.theta)
    mass_length_ratio = POLE_MASS * POLE_HALF_LENGTH / TOTAL_MASS
    acceleration = FORCE * (action - 1) / TOTAL_MASS + mass_length_ratio * state.theta_dot**2 * sin
    denominator = POLE_HALF_LENGTH * (4 / 3 - POLE_MASS / TOTAL_MASS * cos**2)
    theta_acceleration = (GRAVITY * sin - acceleration * cos) / denominator
    x_acceleration = acceleration - mass_length_ratio * theta_acceleration * cos
    return CartpoleState(
        x=state.x + TIMESCALE * state.x_dot,
        x_dot=state.x_dot + TIMESCALE * x_acceleration,
        theta=jnp.remainder(state.theta + TIMESCALE * state.theta_dot, 2 * jnp.pi),
        theta_dot=state.theta_dot + TIMESCALE * theta_acceleration,
        steps=state.steps + 1,
    )

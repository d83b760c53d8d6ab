"""Cartpole swing-up: a hanging pole to be swung up by pushing its cart, where every push costs.

The physics, the start and the pay are those of bsuite's `CartpoleSwingup`. Two things differ. There all ends look
alike, here leaving the track terminates an episode and the clock truncates it. And there velocities are unbounded,
here the observation is clipped, far beyond any speed that we could make the cart or the pole reach.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8
from PIL import Image, ImageDraw

from gemax.types import Timestep
from gemax.worlds.base import ObservationSpec, World, bins_of, first_timestep, without_reward

CART_MASS = 1.0
"""In kilograms."""
POLE_MASS = 0.1
"""In kilograms."""
TOTAL_MASS = CART_MASS + POLE_MASS
"""In kilograms."""
POLE_HALF_LENGTH = 0.5
"""From the hinge to the pole's centre of mass, in metres."""
FORCE = 10.0
"""Of a push on the cart, in newtons."""
GRAVITY = 9.8
"""In metres per second squared."""
TIMESCALE = 0.01
"""The time between two actions, in seconds."""
MAX_TIME = 10.0
"""An episode is over once more than this many seconds have passed."""
HORIZON = 1001
"""The number of actions after which that is so: after 1,000 of them it is 10 seconds, not more. bsuite comes to
the same number by a rounding error below 10; a sum in float32 errs upwards and would stop at 1,000."""
START_RANGE = 0.05
"""How far each variable may start from rest in the middle of the track, with the pole hanging."""
TIME_FEATURE = 5
"""The entry of the observation that holds the time."""

# Bounds from physics: the work of the largest force over the whole episode, where
#
#   E = M x'² / 2 + I θ'² / 2 + m l cos(θ) x' θ' + m g l (cos(θ) + 1),   I = 4 m l² / 3,   dE/dt = F x'
#
# with M, m, l the total mass, the pole's mass and half length. All of it in the cart, or all of it in the pole:
#
#   E >= (M - 3m/4) x'² / 2   and   E >= (I - (m l)² / M) θ'² / 2
#
# The first gives d sqrt(2E)/dt <= F / sqrt(M - 3m/4), hence |x'| <= 97.8 and |θ'| <= 562 after 10.01 seconds.
# A strategy that does nothing but wind up the pole comes to 87 rad/s. Euler's method does not conserve E, so the
# bounds are no proof for what is simulated, and `observe` clips to them.
LARGEST_X_DOT = 100.0
"""Bounds the observed velocity of the cart, in metres per second."""
LARGEST_THETA_DOT = 600.0
"""Bounds the observed angular velocity of the pole, in radians per second."""
BINNED_THETA_DOT = 15.0
"""Up to which angular velocity visits are told apart, in radians per second: a pole that falls from upright has 7.7."""

NUM_BSUITE_SETTINGS = 20
"""bsuite names them `cartpole_swingup/0` to `cartpole_swingup/19`."""


class SwingupSetting(NamedTuple):
    """What distinguishes the twenty swing-up tasks of bsuite."""

    height_threshold: float
    """The pole must stand higher than this: cos(theta), 1 if upright."""
    x_reward_threshold: float
    """The cart must be nearer to the middle of the track than this, in metres."""


class CartpoleState(NamedTuple):
    """All that the future depends on."""

    x: Float[Array, ""]
    """Where the cart is: metres to the right of the middle of the track."""
    x_dot: Float[Array, ""]
    """Its velocity, in metres per second."""
    theta: Float[Array, ""]
    """The angle of the pole, in radians from 0 to 2 pi: 0 if upright, a quarter turn if it points right."""
    theta_dot: Float[Array, ""]
    """Its angular velocity, in radians per second."""
    steps: Int[Array, ""]
    """The number of actions taken in this episode."""


def bsuite_setting(bsuite_id: int) -> SwingupSetting:
    """The thresholds of `cartpole_swingup/<bsuite_id>`, from the most lenient (0) to the strictest (19).

    To be used as `cartpole_swingup(**bsuite_setting(7)._asdict())`.
    """
    if not 0 <= bsuite_id < NUM_BSUITE_SETTINGS:
        raise ValueError(f"bsuite has swing-up tasks 0 to {NUM_BSUITE_SETTINGS - 1}; got {bsuite_id}.")
    strictness = bsuite_id / NUM_BSUITE_SETTINGS
    return SwingupSetting(height_threshold=strictness, x_reward_threshold=1 - strictness)


def cartpole_swingup(
    height_threshold: float = 0.0,
    x_reward_threshold: float = 1.0,
    theta_dot_threshold: float = 1.0,
    x_threshold: float = 3.0,
    move_cost: float = 0.1,
    reward_free: bool = False,
) -> World:
    """A cart that earns 1 for each step on which its pole is upright, slow and near the middle of the track.

    Actions: push left, stay, push right. Observation: position and velocity of the cart (in units of `x_threshold`),
    sine, cosine and velocity of the angle, share of the time used up, and two signs: near the middle, slow pole.

    Args:
        height_threshold: Upright is a cos(theta) above this. The default is bsuite's setting 0.
        x_reward_threshold: Near the middle is an |x| below this, in metres.
        theta_dot_threshold: Slow is a |theta_dot| below this, in radians per second.
        x_threshold: The episode terminates once the cart is further from the middle than this, in metres.
        move_cost: What a push to either side costs.
        reward_free: Nothing is earned, and nothing costs.
    """
    high = _largest_observation(x_threshold)
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
        state = hang_at_rest(key)
        return state, first_timestep(observe(state))

    def step(
        _key: PRNGKeyArray, state: CartpoleState, action: Int[Array, ""]
    ) -> tuple[CartpoleState, Timestep]:
        state = push(state, action)
        is_upright = (jnp.cos(state.theta) > height_threshold) & is_near(state) & is_slow(state)
        reward = is_upright - move_cost * jnp.abs(action - 1)
        terminated = jnp.abs(state.x) > x_threshold
        truncated = (state.steps >= HORIZON) & ~terminated
        return state, Timestep(observe(state), reward, terminated, truncated)

    world = World(
        name="cartpole-swingup",
        num_actions=3,
        horizon=HORIZON,
        observation=ObservationSpec(low, high),
        reset=reset,
        step=step,
        picture=picture,
        solved_return=400.0,
        places=bins_of(
            lambda state: (state.theta, state.theta_dot),
            (0.0, -BINNED_THETA_DOT),
            (2 * np.pi, BINNED_THETA_DOT),
        ),
        time_feature=TIME_FEATURE,
        shortest_episode=_fewest_steps_to(x_threshold),
    )
    return without_reward(world) if reward_free else world


def _fewest_steps_to(x_threshold: float) -> int:
    # In time t the force moves the centre of mass by at most ½ F/M t². Half of that leaves room for Euler's errors.
    return int(0.5 * np.sqrt(2 * x_threshold * TOTAL_MASS / FORCE) / TIMESCALE)


def _largest_observation(x_threshold: float) -> Float[np.ndarray, " 8"]:
    # One step beyond the end of the track, at the largest speed, no episode goes on.
    x = x_threshold + TIMESCALE * LARGEST_X_DOT
    time = HORIZON / (MAX_TIME / TIMESCALE)
    entries = [x / x_threshold, LARGEST_X_DOT / x_threshold, 1, 1, LARGEST_THETA_DOT, time, 1, 1]
    return np.array(entries, np.float32)


def hang_at_rest(key: PRNGKeyArray) -> CartpoleState:
    """Nearly at rest, nearly in the middle of the track, the pole hanging nearly straight down."""
    x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-START_RANGE, maxval=START_RANGE)
    return CartpoleState(x, x_dot, jnp.pi + theta, theta_dot, jnp.zeros((), jnp.int32))


def push(state: CartpoleState, action: Int[Array, ""]) -> CartpoleState:
    """One step of Euler's method: positions by the old velocities, velocities by the accelerations.

    Barto, Sutton and Anderson (1983), without friction; M, m, l are the total mass, the pole's mass and half length:

        θ'' = (g sin(θ) - a cos(θ)) / (l (4/3 - m cos²(θ) / M))   with a = (F + m l θ'² sin(θ)) / M
        x'' = a - m l θ'' cos(θ) / M
    """
    sin, cos = jnp.sin(state.theta), jnp.cos(state.theta)
    pole = POLE_MASS * POLE_HALF_LENGTH / TOTAL_MASS
    acceleration = FORCE * (action - 1) / TOTAL_MASS + pole * state.theta_dot**2 * sin
    leverage = POLE_HALF_LENGTH * (4 / 3 - POLE_MASS / TOTAL_MASS * cos**2)
    theta_acceleration = (GRAVITY * sin - acceleration * cos) / leverage
    x_acceleration = acceleration - pole * theta_acceleration * cos
    return CartpoleState(
        x=state.x + TIMESCALE * state.x_dot,
        x_dot=state.x_dot + TIMESCALE * x_acceleration,
        theta=jnp.remainder(state.theta + TIMESCALE * state.theta_dot, 2 * jnp.pi),
        theta_dot=state.theta_dot + TIMESCALE * theta_acceleration,
        steps=state.steps + 1,
    )


WIDTH, HEIGHT = 400, 300
BACKGROUND, RAIL, BUMPER = (236, 241, 246), (128, 136, 148), (200, 88, 74)
CART, TYRE, POLE, HINGE = (52, 88, 140), (42, 44, 50), (222, 140, 48), (250, 232, 200)
# Everything is drawn three times as large and then reduced, which smooths the edges.
OVERSAMPLING = 3
PIXELS_PER_METRE = 42 * OVERSAMPLING
# Bumpers are drawn at the default end of the track.
DRAWN_TRACK = 3.0
# The pole, a metre in truth, is drawn longer: its angle is what one looks for.
DRAWN_POLE = 1.9


def picture(state: CartpoleState) -> UInt8[np.ndarray, "height width 3"]:
    """The track, the cart and its pole, seen from the side."""
    image = Image.new("RGB", (WIDTH * OVERSAMPLING, HEIGHT * OVERSAMPLING), BACKGROUND)
    draw = ImageDraw.Draw(image)
    _draw_track(draw)
    _draw_cart(draw, float(state.x))
    _draw_pole(draw, float(state.x), float(state.theta))
    return np.array(image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


def _pixel(x: float, y: float) -> tuple[float, float]:
    """Metres from where the hinge is in the middle of the track, y up, as a pixel, y down."""
    middle_x, middle_y = WIDTH * OVERSAMPLING / 2, HEIGHT * OVERSAMPLING / 2
    return middle_x + PIXELS_PER_METRE * x, middle_y - PIXELS_PER_METRE * y


def _draw_track(draw: ImageDraw.ImageDraw) -> None:
    draw.line([_pixel(-DRAWN_TRACK, -0.5), _pixel(DRAWN_TRACK, -0.5)], fill=RAIL, width=5 * OVERSAMPLING)
    for metre in np.arange(-DRAWN_TRACK, DRAWN_TRACK + 1):
        draw.line([_pixel(metre, -0.5), _pixel(metre, -0.72)], fill=RAIL, width=3 * OVERSAMPLING)
    for end in (-DRAWN_TRACK, DRAWN_TRACK):
        draw.line([_pixel(end, -0.75), _pixel(end, 0.1)], fill=BUMPER, width=6 * OVERSAMPLING)


def _draw_cart(draw: ImageDraw.ImageDraw, x: float) -> None:
    body = [_pixel(x - 0.62, 0.22), _pixel(x + 0.62, -0.24)]
    draw.rounded_rectangle(body, radius=6 * OVERSAMPLING, fill=CART)
    for wheel in (x - 0.36, x + 0.36):
        draw.circle(_pixel(wheel, -0.28), 8 * OVERSAMPLING, fill=TYRE)
        draw.circle(_pixel(wheel, -0.28), 3 * OVERSAMPLING, fill=RAIL)


def _draw_pole(draw: ImageDraw.ImageDraw, x: float, theta: float) -> None:
    hinge = _pixel(x, 0.0)
    tip = _pixel(x + DRAWN_POLE * np.sin(theta), DRAWN_POLE * np.cos(theta))
    draw.line([hinge, tip], fill=POLE, width=9 * OVERSAMPLING)
    draw.circle(tip, 9 * OVERSAMPLING, fill=POLE)
    draw.circle(hinge, 6 * OVERSAMPLING, fill=HINGE)

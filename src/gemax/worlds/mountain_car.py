"""Mountain Car: an engine too weak for the hill, so the way up leads backwards first.

The physics, the start and the pay are those of bsuite's `MountainCar` (Moore, 1990). One thing differs: there
a time-out looks like reaching the goal, here the goal terminates an episode and the clock truncates it.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8
from PIL import Image, ImageDraw

from gemax.types import Timestep
from gemax.worlds.base import ObservationSpec, World, bins_of, first_timestep, without_reward

LEFT_WALL = -1.2
"""The smallest position. The wall takes all speed from a car that hits it."""
RIGHT_END = 0.6
"""The largest position. Never reached: the goal stands before it, further off than one step's way."""
GOAL = 0.5
"""The position from which on the car is at the top."""
START_LOW, START_HIGH = -0.6, -0.4
"""Episodes start at rest, somewhere around the bottom of the valley (-0.52)."""
LARGEST_SPEED = 0.07
"""The way that a car makes in one step at most."""
ENGINE = 0.001
"""The speed that a push adds in one step."""
GRAVITY = 0.0025
"""The speed that the steepest slope takes in one step: more than the engine adds."""
HORIZON = 1000
"""The number of actions after which an episode is cut short."""
TIME_FEATURE = 2
"""The entry of the observation that holds the time."""


class MountainCarState(NamedTuple):
    """All that the future depends on."""

    position: Float[Array, ""]
    """Along the ground, from `LEFT_WALL` to `RIGHT_END`. The ground is as high as sin(3 position)."""
    velocity: Float[Array, ""]
    """The change of position in one step."""
    steps: Int[Array, ""]
    """The number of actions taken in this episode."""


def mountain_car(reward_free: bool = False) -> World:
    """A car in a valley that earns -1 a step, or nothing, until it is on the right hill.

    Actions: push left, coast, push right. Observation: position, velocity, share of the time used up.
    """
    world = World(
        name="mountain-car",
        num_actions=3,
        horizon=HORIZON,
        # These bounds hold by construction: `drive` clips to them, and the clock stops at 1.
        observation=ObservationSpec(
            low=np.array([LEFT_WALL, -LARGEST_SPEED, 0.0], np.float32),
            high=np.array([RIGHT_END, LARGEST_SPEED, 1.0], np.float32),
        ),
        reset=reset,
        step=step,
        picture=picture,
        solved_return=-200.0,
        places=bins_of(
            lambda state: (state.position, state.velocity),
            (LEFT_WALL, -LARGEST_SPEED),
            (RIGHT_END, LARGEST_SPEED),
        ),
        time_feature=TIME_FEATURE,
        shortest_episode=math.ceil((GOAL - START_HIGH) / LARGEST_SPEED),
    )
    return without_reward(world) if reward_free else world


def reset(key: PRNGKeyArray) -> tuple[MountainCarState, Timestep]:
    """Puts the car at rest near the bottom of the valley."""
    position = jax.random.uniform(key, (), minval=START_LOW, maxval=START_HIGH)
    state = MountainCarState(position, jnp.zeros(()), jnp.zeros((), jnp.int32))
    return state, first_timestep(observe(state))


def step(
    _key: PRNGKeyArray, state: MountainCarState, action: Int[Array, ""]
) -> tuple[MountainCarState, Timestep]:
    """Drives on, and says whether the car has arrived or the time is over."""
    state = drive(state, action)
    terminated = is_at_goal(state)
    truncated = (state.steps >= HORIZON) & ~terminated
    return state, Timestep(observe(state), jnp.full((), -1.0), terminated, truncated)


def drive(state: MountainCarState, action: Int[Array, ""]) -> MountainCarState:
    """Engine and slope change the velocity, and the new velocity the position."""
    velocity = state.velocity + ENGINE * (action - 1) - GRAVITY * jnp.cos(3 * state.position)
    velocity = jnp.clip(velocity, -LARGEST_SPEED, LARGEST_SPEED)
    position = jnp.clip(state.position + velocity, LEFT_WALL, RIGHT_END)
    # The clip above yields the wall's own float, hence equality is safe.
    velocity = jnp.where(position == LEFT_WALL, jnp.maximum(velocity, 0.0), velocity)
    return MountainCarState(position, velocity, state.steps + 1)


def is_at_goal(state: MountainCarState) -> Bool[Array, ""]:
    """Whether the car is on the right hill."""
    return state.position >= GOAL


def observe(state: MountainCarState) -> Float[Array, " 3"]:
    """Position, velocity and time, in bsuite's order."""
    return jnp.stack([state.position, state.velocity, state.steps / HORIZON])


WIDTH, HEIGHT = 400, 300
SKY, GROUND, ROAD = (226, 238, 247), (122, 158, 104), (74, 98, 66)
CAR, WINDOW, TYRE, HUB = (204, 68, 56), (236, 244, 250), (42, 44, 50), (190, 194, 200)
POLE, FLAG = (90, 84, 78), (240, 178, 40)
# Everything is drawn three times as large and then reduced, which smooths the edges.
OVERSAMPLING = 3
PIXELS_PER_UNIT = 210 * OVERSAMPLING
# The hills are drawn flatter than sin(3x), or they would not fit the picture.
FLATTENING = 0.45


def picture(state: MountainCarState) -> UInt8[np.ndarray, "height width 3"]:
    """The valley, the flag at the goal and the car, seen from the side."""
    image = Image.new("RGB", (WIDTH * OVERSAMPLING, HEIGHT * OVERSAMPLING), SKY)
    draw = ImageDraw.Draw(image)
    _draw_flag(draw)
    _draw_ground(draw)
    _draw_car(draw, float(state.position))
    return np.array(image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


def _ground(position: float | np.ndarray) -> np.ndarray:
    """The pixel of the ground at a position: x to the right, y down."""
    centre = (LEFT_WALL + RIGHT_END) / 2
    x = WIDTH * OVERSAMPLING / 2 + PIXELS_PER_UNIT * (np.asarray(position) - centre)
    y = HEIGHT * OVERSAMPLING * 0.56 - PIXELS_PER_UNIT * FLATTENING * np.sin(3 * np.asarray(position))
    return np.stack([x, y], axis=-1)


def _draw_ground(draw: ImageDraw.ImageDraw) -> None:
    surface = [tuple(point) for point in _ground(np.linspace(LEFT_WALL - 0.2, RIGHT_END + 0.2, 200))]
    depth = HEIGHT * OVERSAMPLING
    draw.polygon([(surface[0][0], depth), *surface, (surface[-1][0], depth)], fill=GROUND)
    draw.line(surface, fill=ROAD, width=3 * OVERSAMPLING, joint="curve")


def _draw_flag(draw: ImageDraw.ImageDraw) -> None:
    x, y = _ground(GOAL)
    top = y - 58 * OVERSAMPLING
    draw.line([(x, y), (x, top)], fill=POLE, width=3 * OVERSAMPLING)
    tip, hem = (x + 30 * OVERSAMPLING, top + 10 * OVERSAMPLING), (x, top + 20 * OVERSAMPLING)
    draw.polygon([(x, top), tip, hem], fill=FLAG)


def _draw_car(draw: ImageDraw.ImageDraw, position: float) -> None:
    slope = np.arctan(FLATTENING * 3 * np.cos(3 * position))
    # Columns: along the ground and away from it, in pixels, whose y points down.
    axes = np.array([[np.cos(slope), -np.sin(slope)], [-np.sin(slope), -np.cos(slope)]])

    def place(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(x, y) for x, y in _ground(position) + OVERSAMPLING * np.array(points) @ axes.T]

    body = place((-22.0, 6.0), (-22.0, 15.0), (-14.0, 17.0), (14.0, 17.0), (23.0, 13.0), (23.0, 6.0))
    draw.polygon(body, fill=CAR)
    draw.polygon(place((-14.0, 17.0), (-9.0, 27.0), (6.0, 27.0), (14.0, 17.0)), fill=CAR)
    draw.polygon(place((-9.0, 18.0), (-6.5, 24.0), (4.5, 24.0), (9.0, 18.0)), fill=WINDOW)
    for hub in place((-12.0, 7.0), (13.0, 7.0)):
        draw.circle(hub, 7 * OVERSAMPLING, fill=TYRE)
        draw.circle(hub, 3 * OVERSAMPLING, fill=HUB)

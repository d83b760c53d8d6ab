"""Mountain Car: the engine is too weak for the hill, so the car has to gain speed by driving back and forth.

Physics, start distribution and reward are the same as in bsuite's `MountainCar` (Moore, 1990). One thing is different:
here the goal terminates an episode and the time limit truncates it, which bsuite does not distinguish.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gemax.envs.base import NUM_BINS, JaxEnv, Plane, bin_index, first_timestep, without_reward
from gemax.envs.render.mountain_car import Valley, draw_mountain_car
from gemax.types import EnvSpec, FiniteActions, ObservationSpec, Timestep

LEFT_WALL = -1.2
"""Minimum position. A car that hits the wall stops."""
RIGHT_END = 0.6
"""Maximum position. Never reached, because the episode ends at the goal, which is more than one step away."""
GOAL = 0.5
"""The episode terminates at this position, or further right."""
START_LOW, START_HIGH = -0.6, -0.4
"""Range of start positions, around the bottom of the valley (-0.52). The car starts at rest."""
MAX_SPEED = 0.07
"""Maximum change of position in one step."""
FORCE = 0.001
"""Change of velocity by the engine in one step."""
GRAVITY = 0.0025
"""Change of velocity by gravity in one step where the slope is steepest. Larger than the change by the engine."""
HORIZON = 1000
"""Number of actions after which an episode is truncated."""
TIME_FEATURE = 2
"""Index of the time in the observation."""
VALLEY = Valley(LEFT_WALL, RIGHT_END, GOAL)


class MountainCarState(NamedTuple):
    """State of the environment."""

    position: Float[Array, ""]
    """Position along the ground, from `LEFT_WALL` to `RIGHT_END`. The height of the ground is sin(3 position)."""
    velocity: Float[Array, ""]
    """Change of position in one step."""
    steps: Int[Array, ""]
    """Number of actions taken in this episode."""


def mountain_car(reward_free: bool = False) -> JaxEnv:
    """Returns the environment. The reward is -1 per step until the goal is reached, or 0 if `reward_free`.

    Actions: push left, coast, push right. Observation: position, velocity, time as a share of the horizon.
    """
    env = JaxEnv(
        spec=EnvSpec(
            name="mountain-car",
            # `_simulate` clips position and velocity, and the time ends at 1.
            observation=ObservationSpec(
                low=np.array([LEFT_WALL, -MAX_SPEED, 0.0], np.float32),
                high=np.array([RIGHT_END, MAX_SPEED, 1.0], np.float32),
            ),
            actions=FiniteActions((3,)),
            horizon=HORIZON,
            solved_return=-200.0,
            num_cells=NUM_BINS,
            num_states=NUM_BINS,
            time_feature=TIME_FEATURE,
            min_episode_steps=math.ceil((GOAL - START_HIGH) / MAX_SPEED),
        ),
        reset=reset,
        reset_at=reset_at,
        step=step,
        render=lambda state: draw_mountain_car(VALLEY, float(state.position)),
        cell_index=bin_index(
            lambda state: (state.position, state.velocity), (LEFT_WALL, -MAX_SPEED), (RIGHT_END, MAX_SPEED)
        ),
        plane=Plane(
            ("position", "velocity"),
            (LEFT_WALL, -MAX_SPEED),
            (RIGHT_END, MAX_SPEED),
            lambda observation: observation[..., :2],
        ),
    )
    return without_reward(env) if reward_free else env


def reset(key: PRNGKeyArray) -> tuple[MountainCarState, Timestep]:
    """Puts the car at rest near the bottom of the valley."""
    return reset_at(key, jnp.zeros((), jnp.int32))


def reset_at(key: PRNGKeyArray, time: Int[Array, ""]) -> tuple[MountainCarState, Timestep]:
    """Like reset, but the clock starts at this time step, as if that many actions had been taken."""
    position = jax.random.uniform(key, (), minval=START_LOW, maxval=START_HIGH)
    state = MountainCarState(position, jnp.zeros(()), time.astype(jnp.int32))
    return state, first_timestep(observe(state))


def step(
    _key: PRNGKeyArray, state: MountainCarState, action: Int[Array, ""]
) -> tuple[MountainCarState, Timestep]:
    """Moves the car. The goal terminates the episode, the time limit truncates it."""
    state = _simulate(state, action)
    terminated = state.position >= GOAL
    truncated = (state.steps >= HORIZON) & ~terminated
    return state, Timestep(observe(state), jnp.full((), -1.0), terminated, truncated)


def _simulate(state: MountainCarState, action: Int[Array, ""]) -> MountainCarState:
    """Returns the state after one step. Engine and slope change the velocity, which then changes the position."""
    velocity = state.velocity + FORCE * (action - 1) - GRAVITY * jnp.cos(3 * state.position)
    velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
    position = jnp.clip(state.position + velocity, LEFT_WALL, RIGHT_END)
    # `clip` returns exactly this value at the wall, so that `==` works.
    velocity = jnp.where(position == LEFT_WALL, jnp.maximum(velocity, 0.0), velocity)
    return MountainCarState(position, velocity, state.steps + 1)


def observe(state: MountainCarState) -> Float[Array, " 3"]:
    """Returns position, velocity and time, in bsuite's order."""
    return jnp.stack([state.position, state.velocity, state.steps / HORIZON])

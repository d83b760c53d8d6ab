"""Gridworlds: a map becomes tables, and a step is a look-up.

A *place* is a square together with what is gone from the map (keys taken, doors opened). A *state* is a place
together with which of the rewards was drawn. Every state has a number; what an action does, where episodes end and
what the agent sees are tables over these numbers, so that stepping costs next to nothing and the world knows
itself: its ceiling, its distances and all of its observations.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt8

from gemax.core.ceiling import FiniteModel
from gemax.types import Timestep
from gemax.worlds.base import FiniteFacts, ObservationSpec, Places, World, first_timestep
from gemax.worlds.maps import MOVES, GridMap, Square, check_reachable, move, steps_from
from gemax.worlds.pixels import (
    PIXELS_PER_SQUARE,
    ObservationMode,
    draw_image,
    draw_map,
    image_size,
    noise_position,
)


class GridState(NamedTuple):
    """All that changes in a gridworld."""

    number: Int[Array, ""]
    """Which state it is: the row of every table."""
    time: Int[Array, ""]
    """How many actions were taken in this episode."""
    noise: UInt8[Array, "2"]
    """Red and green of the noise square; zero in worlds without one."""


class Tables(NamedTuple):
    """A map, written out state by state. States that no episode reaches are left out."""

    squares: list[Square]
    """Of each state."""
    gone: list[frozenset[Square]]
    """What is gone from the map, in each state."""
    reward: list[Square | None]
    """Where the reward lies, in each state; None once it was taken, or where there is none."""
    successor: Int[np.ndarray, "states actions"]
    is_terminal: np.ndarray
    starts: Int[np.ndarray, " starts"]
    """The states that an episode may start in, each as likely as the others."""


def gridworld(
    name: str,
    grid_map: GridMap,
    horizon: int,
    *,
    observation: ObservationMode = "pixels",
    noise: bool = False,
    reward_free: bool = False,
) -> World:
    """The world of a map. Actions: no-op, up, down, left, right; what bumps into a wall stays.

    Args:
        name: What the world is called.
        grid_map: See `gemax.worlds.maps`.
        horizon: After this many actions an episode is cut short.
        observation: `pixels`, 8 × 8 of them a square as in the paper, or `squares`, a pixel a square.
        noise: Adds a square whose red and green are drawn anew at every step.
        reward_free: Makes the reward's squares plain floor: nothing is earned and only the time ends an episode.
    """
    if observation not in PIXELS_PER_SQUARE:
        raise ValueError(f"observation must be one of {', '.join(PIXELS_PER_SQUARE)}; got {observation!r}.")
    check_reachable(grid_map, horizon)
    tables = tables_of(grid_map, reward_free=reward_free)
    images, image_of_state = _distinct_images(grid_map, tables)

    successor, is_terminal = jnp.asarray(tables.successor), jnp.asarray(tables.is_terminal)
    starts = jnp.asarray(tables.starts)
    image_table, image_index = jnp.asarray(images), jnp.asarray(image_of_state)
    pixels = PIXELS_PER_SQUARE[observation]
    noise_square = noise_position(grid_map) if noise else None

    def observe(state: GridState) -> UInt8[Array, "height width 3"]:
        image = image_table[image_index[state.number]]
        if noise_square is not None:
            image = image.at[(*noise_square, slice(2))].set(state.noise)
        return jnp.repeat(jnp.repeat(image, pixels, axis=0), pixels, axis=1)

    def draw_noise(key: PRNGKeyArray) -> UInt8[Array, "2"]:
        return jax.random.bits(key, (2,), jnp.uint8) if noise else jnp.zeros(2, jnp.uint8)

    def reset(key: PRNGKeyArray) -> tuple[GridState, Timestep]:
        start_key, noise_key = jax.random.split(key)
        start = starts[jax.random.randint(start_key, (), 0, len(starts))] if len(starts) > 1 else starts[0]
        state = GridState(start, jnp.zeros((), jnp.int32), draw_noise(noise_key))
        return state, first_timestep(observe(state))

    def step(key: PRNGKeyArray, state: GridState, action: Int[Array, ""]) -> tuple[GridState, Timestep]:
        state = GridState(successor[state.number, action], state.time + 1, draw_noise(key))
        terminated = is_terminal[state.number]
        truncated = (state.time >= horizon) & ~terminated
        return state, Timestep(observe(state), terminated.astype(float), terminated, truncated)

    def picture(state: GridState) -> UInt8[np.ndarray, "height width 3"]:
        number = int(state.number)
        reward = tables.reward[number]
        return draw_map(
            grid_map, tables.squares[number], tables.gone[number], () if reward is None else (reward,)
        )

    facts = _facts(grid_map, tables, image_table, image_index, pixels, noise_square, horizon)
    height, width = image_size(grid_map)
    shape = (height * pixels, width * pixels, 3)
    return World(
        name=name,
        num_actions=len(MOVES),
        horizon=horizon,
        observation=ObservationSpec(np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)),
        reset=reset,
        step=step,
        picture=picture,
        solved_return=0.95,
        places=Places(facts.square_index, len(facts.square_positions)),
        finite=facts,
        shortest_episode=min(horizon, int(steps_to_reward(facts.model).min())),
    )


def tables_of(grid_map: GridMap, *, reward_free: bool) -> Tables:
    """Numbers every state that an episode can be in, and writes down what its actions do."""
    rewards: list[Square | None] = [None] if reward_free else list(grid_map.squares("G"))
    first = [(start, frozenset[Square](), reward) for start in grid_map.squares("S") for reward in rewards]
    number = {state: i for i, state in enumerate(first)}
    states, successor = list(first), []
    for state in states:  # grows while it is walked through
        square, gone, reward = state
        row = []
        for action in range(len(MOVES)):
            following = (*move(grid_map, square, gone, action), reward)
            if square == reward:
                following = state  # the episode is over: nothing moves
            if following not in number:
                number[following] = len(states)
                states.append(following)
            row.append(number[following])
        successor.append(row)
    is_terminal = np.asarray([square == reward for square, _, reward in states])
    return Tables(
        squares=[square for square, _, _ in states],
        gone=[gone for _, gone, _ in states],
        reward=[None if square == reward else reward for square, _, reward in states],
        successor=np.asarray(successor, np.int32),
        is_terminal=is_terminal,
        starts=np.arange(len(first), dtype=np.int32),
    )


def steps_to_reward(model: FiniteModel) -> Int[np.ndarray, " starts"]:
    """The least number of steps to the end of an episode, from each state that one may start in."""
    steps = np.where(model.is_terminal, 0, np.iinfo(np.int32).max // 2)
    for _ in range(model.horizon):
        steps = np.minimum(steps, 1 + steps[model.successor[:, :, 0]].min(axis=1))
    return steps[model.start > 0]


def _distinct_images(grid_map: GridMap, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """Every image once, and the number of the image that each state shows."""
    states = zip(tables.squares, tables.gone, tables.reward, strict=True)
    images = np.stack([draw_image(grid_map, *state) for state in states])
    distinct, image_of_state = np.unique(images, axis=0, return_inverse=True)
    return distinct, image_of_state.reshape(-1).astype(np.int32)


def _facts(
    grid_map: GridMap,
    tables: Tables,
    image_table: Array,
    image_index: Array,
    pixels: int,
    noise_square: Square | None,
    horizon: int,
) -> FiniteFacts:
    squares = grid_map.open_squares
    number = {square: i for i, square in enumerate(squares)}
    square_of_state = jnp.asarray([number[square] for square in tables.squares], jnp.int32)
    return FiniteFacts(
        square_index=lambda state: square_of_state[state.number],
        state_index=lambda state: state.number,
        observation_index=lambda state: image_index[state.number],
        observation_table=image_table,
        pixels_per_square=pixels,
        rows_of_states=np.asarray(image_index),
        noise_square=noise_square,
        num_states=len(tables.squares),
        square_positions=np.asarray(squares),
        distances=_distances(grid_map),
        model=_model(grid_map, tables, horizon),
        reward_free_model=_model(grid_map, tables_of(grid_map, reward_free=True), horizon),
    )


def _model(grid_map: GridMap, tables: Tables, horizon: int) -> FiniteModel:
    number = {square: i for i, square in enumerate(grid_map.open_squares)}
    num_states = len(tables.squares)
    return FiniteModel(
        start=np.isin(np.arange(num_states), tables.starts) / len(tables.starts),
        successor=tables.successor[:, :, None],
        probability=np.ones((num_states, len(MOVES), 1)),
        is_terminal=tables.is_terminal,
        square=np.asarray([number[square] for square in tables.squares]),
        horizon=horizon,
    )


@functools.lru_cache
def _distances(grid_map: GridMap) -> Int[np.ndarray, "squares squares"]:
    # Keys make no difference to distances, only to the time it takes to find them.
    opened = GridMap(tuple(row.replace("D", ".").replace("K", ".") for row in grid_map.rows), grid_map.rooms)
    squares = opened.open_squares
    steps = [steps_from(opened, square) for square in squares]
    distances = np.asarray([[steps_here.get(square, -1) for square in squares] for steps_here in steps])
    distances.flags.writeable = False  # shared by all worlds of this map
    return distances

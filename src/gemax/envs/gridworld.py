"""Gridworlds: the states of a map are enumerated, and a step is a table look-up.

A state consists of the agent's cell, the items removed from the map (keys taken, doors opened) and the cell of the
reward. Successors, episode ends and observations are stored in tables, indexed by state. Steps are therefore cheap.
The distances between cells and the maximum visitation entropy of any policy can be computed exactly.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gemax.core.finite_model import FiniteModel
from gemax.envs import maps
from gemax.envs.base import FiniteEnv, JaxEnv, first_timestep
from gemax.envs.config import ObservationMode
from gemax.envs.maps import MOVES, Cell, GridMap
from gemax.envs.render.gridworld import (
    PIXELS_PER_CELL,
    draw_map,
    draw_observation,
    draw_visits,
    noise_position,
)
from gemax.stopping import check_stop
from gemax.types import EnvSpec, FiniteActions, ObservationSpec, Timestep

MAX_STATES = 50_000
"""Largest number of states of a map. Enumerating more takes minutes."""
MAX_TABLE_BYTES = 2**30
"""Largest size of the table of all observations of a map, in float32."""
MAX_OPEN_SIDE = 96
"""Side of the largest map without walls, with one start and one reward, whose table fits."""
CELLS_PER_SEARCH = 256
"""Cells whose distances are computed at once. Between searches, the program can be stopped."""


class GridState(NamedTuple):
    """State of a gridworld."""

    state_index: Int[Array, ""]
    """Index of the state in the tables."""
    time: Int[Array, ""]
    """Number of actions taken in this episode."""
    noise: UInt8[Array, "2"]
    """Red and green of the noise cell. Zero without noise."""


class StateTables(NamedTuple):
    """All states that an episode on a map can reach. Entry i of each list or array belongs to state i."""

    cells: list[Cell]
    """Cell of the agent."""
    removed: list[frozenset[Cell]]
    """Keys taken and doors opened."""
    reward_cell: list[Cell | None]
    """Cell of the reward. None if the agent has reached it, and in reward-free environments."""
    successor: Int[np.ndarray, "states actions"]
    """Index of the state after each action."""
    is_terminal: Bool[np.ndarray, " states"]
    """Whether the agent is on the reward, which ends the episode."""
    num_starts: int
    """Number of start states. They are the first states, and all are equally likely."""


@functools.lru_cache(maxsize=32)
def gridworld(
    name: str,
    grid_map: GridMap,
    horizon: int,
    observation: ObservationMode = "pixels",
    reward_free: bool = False,
    *,
    noise: bool = False,
) -> JaxEnv:
    """Returns the environment of a map. Actions: no-op, up, down, left, right. Walls block the agent.

    Cached, because enumerating the states takes up to a second. Environments are immutable.

    Args:
        name: Name of the environment.
        grid_map: The map; see `gemax.envs.maps`.
        horizon: Number of actions after which an episode is truncated.
        observation: `pixels` has 8 × 8 pixels per cell as in the paper, `cells` has one pixel per cell.
        reward_free: Replaces the reward by plain floor. Episodes then always last until the horizon.
        noise: Adds a cell whose red and green values are random at every step.
    """
    if observation not in PIXELS_PER_CELL:
        raise ValueError(f"observation must be one of {', '.join(PIXELS_PER_CELL)}; got {observation!r}.")
    maps.check_reachable(grid_map, horizon)
    tables = state_tables(grid_map, reward_free=reward_free)
    noise_cell = noise_position(grid_map) if noise else None
    finite = _finite_env(grid_map, tables, horizon, PIXELS_PER_CELL[observation], noise_cell)
    pixels_per_cell, num_starts = finite.pixels_per_cell, tables.num_starts
    successor, is_terminal = jnp.asarray(tables.successor), jnp.asarray(tables.is_terminal)

    def observe(state: GridState) -> UInt8[Array, "height width 3"]:
        image = finite.observation_table[finite.observation_index(state)]
        if noise_cell is not None:
            image = image.at[(*noise_cell, slice(2))].set(state.noise)
        return jnp.repeat(jnp.repeat(image, pixels_per_cell, axis=0), pixels_per_cell, axis=1)

    def sample_noise(key: PRNGKeyArray) -> UInt8[Array, "2"]:
        return jax.random.bits(key, (2,), jnp.uint8) if noise else jnp.zeros(2, jnp.uint8)

    def reset(key: PRNGKeyArray) -> tuple[GridState, Timestep]:
        return reset_at(key, jnp.zeros((), jnp.int32))

    def reset_at(key: PRNGKeyArray, time: Int[Array, ""]) -> tuple[GridState, Timestep]:
        start_key, noise_key = jax.random.split(key)
        start = jax.random.randint(start_key, (), 0, num_starts)
        state = GridState(start, time.astype(jnp.int32), sample_noise(noise_key))
        return state, first_timestep(observe(state))

    def step(key: PRNGKeyArray, state: GridState, action: Int[Array, ""]) -> tuple[GridState, Timestep]:
        state = GridState(successor[state.state_index, action], state.time + 1, sample_noise(key))
        terminated = is_terminal[state.state_index]
        truncated = (state.time >= horizon) & ~terminated
        return state, Timestep(observe(state), terminated.astype(float), terminated, truncated)

    def render(state: GridState) -> UInt8[np.ndarray, "height width 3"]:
        index = int(state.state_index)
        reward = tables.reward_cell[index]
        return draw_map(grid_map, tables.cells[index], tables.removed[index], (reward,) if reward else ())

    def render_visits(
        state: GridState, visits: Float[np.ndarray, " cells"]
    ) -> UInt8[np.ndarray, "height width 3"]:
        return draw_visits(render(state), finite.cell_positions, visits)

    height, width = finite.observation_table.shape[1:3]
    shape = (height * pixels_per_cell, width * pixels_per_cell, 3)

    def encode_observation(observation: Any) -> np.ndarray:
        if np.shape(observation) != shape:
            raise ValueError(f"observation must have shape {shape} in {name}; got {np.shape(observation)}.")
        # All pixels of a cell are equal, so one of them is stored.
        return np.asarray(observation)[::pixels_per_cell, ::pixels_per_cell]

    spec = EnvSpec(
        name=name,
        observation=ObservationSpec(np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)),
        actions=FiniteActions((len(MOVES),)),
        horizon=horizon,
        solved_return=0.95,
        num_cells=len(finite.cell_positions),
        num_states=finite.num_states,
        min_episode_steps=min(horizon, int(steps_to_reward(finite.model).min())),
        pixels_per_cell=None if pixels_per_cell == 1 else pixels_per_cell,
        encode_observation=encode_observation,
    )
    return JaxEnv(spec, reset, step, render, finite.cell_index, finite, reset_at, render_visits)


def state_tables(grid_map: GridMap, *, reward_free: bool) -> StateTables:
    """Enumerates all states that an episode can reach, and the state after each action."""
    rewards: list[Cell | None] = [None] if reward_free else list(grid_map.cells("G"))
    states = [(start, frozenset[Cell](), reward) for start in grid_map.cells("S") for reward in rewards]
    index = {state: i for i, state in enumerate(states)}
    num_starts, successor = len(states), []
    for state in states:  # grows during the loop
        check_stop()
        cell, removed, reward = state
        # Terminal states do not change.
        next_states = [
            state if cell == reward else (*maps.move(grid_map, cell, removed, action), reward)
            for action in range(len(MOVES))
        ]
        for next_state in next_states:
            if next_state not in index:
                index[next_state] = len(states)
                states.append(next_state)
        if len(states) > MAX_STATES:
            raise maps.MapError(
                f"the map has more than {MAX_STATES:,} states (cells × reward cells × keys and doors): all are "
                "enumerated. Use a smaller map, or less G, K and D."
            )
        successor.append([index[next_state] for next_state in next_states])
    return StateTables(
        cells=[cell for cell, _, _ in states],
        removed=[removed for _, removed, _ in states],
        reward_cell=[None if cell == reward else reward for cell, _, reward in states],
        successor=np.asarray(successor, np.int32),
        is_terminal=np.asarray([cell == reward for cell, _, reward in states]),
        num_starts=num_starts,
    )


def steps_to_reward(model: FiniteModel) -> Int[np.ndarray, " starts"]:
    """Returns the minimum number of steps to the reward from each start state."""
    steps = np.where(model.is_terminal, 0, np.iinfo(np.int32).max // 2)
    for _ in range(model.horizon):
        steps = np.minimum(steps, 1 + steps[model.successor[:, :, 0]].min(axis=1))
    return steps[model.start > 0]


def _finite_env(
    grid_map: GridMap, tables: StateTables, horizon: int, pixels_per_cell: int, noise_cell: Cell | None
) -> FiniteEnv:
    states = zip(tables.cells, tables.removed, tables.reward_cell, strict=True)
    num_bytes = len(tables.cells) * 4 * 3 * (grid_map.height + 2) * (grid_map.width + 2)
    if num_bytes > MAX_TABLE_BYTES:
        raise maps.MapError(
            f"a map of {grid_map.width} × {grid_map.height} cells with {len(tables.cells):,} states needs a table of "
            f"{num_bytes / 2**30:.1f} GiB for its observations; it may have at most {MAX_TABLE_BYTES / 2**30:.0f} GiB, "
            f"as for {MAX_OPEN_SIDE} × {MAX_OPEN_SIDE} cells without walls and with one reward. Use a smaller map."
        )
    images = []
    for state in states:
        check_stop()
        images.append(draw_observation(grid_map, *state))
    distinct, row = np.unique(np.stack(images), axis=0, return_inverse=True)
    row_of_state = jnp.asarray(row.reshape(-1).astype(np.int32))
    model = _finite_model(grid_map, tables, horizon)
    cell_of_state = jnp.asarray(model.cell.astype(np.int32))
    return FiniteEnv(
        cell_index=lambda state: cell_of_state[state.state_index],
        state_index=lambda state: state.state_index,
        observation_index=lambda state: row_of_state[state.state_index],
        observation_table=jnp.asarray(distinct),
        pixels_per_cell=pixels_per_cell,
        observation_of_state=np.asarray(row_of_state),
        noise_cell=noise_cell,
        cell_positions=np.asarray(grid_map.open_cells),
        distances=functools.partial(_distances, grid_map),
        model=model,
        reward_free_model=_finite_model(grid_map, state_tables(grid_map, reward_free=True), horizon),
        map_rows=grid_map.rows,
    )


def _finite_model(grid_map: GridMap, tables: StateTables, horizon: int) -> FiniteModel:
    index, num_states = {cell: i for i, cell in enumerate(grid_map.open_cells)}, len(tables.cells)
    return FiniteModel(
        start=(np.arange(num_states) < tables.num_starts) / tables.num_starts,
        successor=tables.successor[:, :, None],
        probability=np.ones((num_states, len(MOVES), 1)),
        is_terminal=tables.is_terminal,
        cell=np.asarray([index[cell] for cell in tables.cells]),
        horizon=horizon,
    )


@functools.lru_cache
def _distances(grid_map: GridMap) -> Int[np.ndarray, "cells cells"]:
    # Takes a third of a second to import, and only plots need it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    # Keys are taken and doors are open, so that the distance does not depend on the state of the map.
    cells = grid_map.open_cells
    index = {cell: i for i, cell in enumerate(cells)}
    steps = [
        (index[cell], index[neighbour])
        for cell in cells
        for row, column in MOVES[1:]
        if (neighbour := (cell[0] + row, cell[1] + column)) in index
    ]
    sources, targets = np.asarray(steps, np.int32).reshape(-1, 2).T
    graph = csr_array((np.ones(len(steps)), (sources, targets)), (len(cells), len(cells)))
    distances = np.empty((len(cells), len(cells)), np.int32)
    for first in range(0, len(cells), CELLS_PER_SEARCH):
        check_stop()
        rows = np.arange(first, min(first + CELLS_PER_SEARCH, len(cells)))
        found = dijkstra(graph, unweighted=True, indices=rows)
        distances[rows] = np.where(np.isfinite(found), found, -1)
    distances.flags.writeable = False  # shared by all environments of this map
    return distances


def two_rooms(observation: ObservationMode = "pixels", reward_free: bool = False) -> JaxEnv:
    """2-Rooms: two rooms connected by a bottleneck, with the reward at the far end of the second room."""
    return gridworld("two-rooms", maps.paper_map("two-rooms"), 30, observation, reward_free)


def two_rooms_noisy(observation: ObservationMode = "pixels", reward_free: bool = False) -> JaxEnv:
    """2-Rooms with a noise cell in the image, which has one of 65,536 random colours at every step."""
    grid_map = maps.paper_map("two-rooms")
    return gridworld("two-rooms-noisy", grid_map, 30, observation, reward_free, noise=True)


def sixteen_leaves(observation: ObservationMode = "pixels", reward_free: bool = False) -> JaxEnv:
    """16-Leaves: a tree of corridors with the reward in one leaf. An episode is too short to visit two leaves."""
    return gridworld("sixteen-leaves", maps.paper_map("sixteen-leaves"), 18, observation, reward_free)


def two_keys(observation: ObservationMode = "pixels", reward_free: bool = False) -> JaxEnv:
    """2-Keys: 2-Rooms with a door in the bottleneck and two keys. Either key opens the door."""
    return gridworld("two-keys", maps.paper_map("two-keys"), 30, observation, reward_free)


def custom_map(
    map: str | Path | GridMap,  # noqa: A002 (the name that users type)
    horizon: int,
    observation: ObservationMode = "pixels",
    noise: bool = False,
    reward_free: bool = False,
) -> JaxEnv:
    """Returns the environment of a custom map: a file, ASCII art of several lines, or a parsed map."""
    is_file = isinstance(map, Path) or (isinstance(map, str) and "\n" not in map)
    name = Path(map).stem if is_file else "map"  # pyright: ignore[reportArgumentType]
    grid_map = map if isinstance(map, GridMap) else maps.read_map(map)
    return gridworld(name, grid_map, horizon, observation, reward_free, noise=noise)

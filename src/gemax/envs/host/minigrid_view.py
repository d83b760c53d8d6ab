"""Computes MiniGrid's observations faster. They are equal to those of MiniGrid, byte by byte.

MiniGrid copies the view as a grid of objects, rotates it up to four times and encodes every cell, which takes most of
the time of a step. Here the codes of the map's cells are kept from step to step, and only cells that changed are
encoded again. A view is then a look-up of codes by index. Which cells are visible depends only on which cells of the
view are transparent, and is cached.

Worker processes import this module, so it does not import JAX.
"""

import functools
import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int, UInt8

if TYPE_CHECKING:
    from minigrid.minigrid_env import MiniGridEnv

FORWARD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The agent's direction as (x, y), by MiniGrid's index of the direction."""


class View:
    """The observations of one MiniGrid environment."""

    def __init__(self, env: "MiniGridEnv") -> None:
        self._env = env
        # The last cell is the wall around the map.
        self._cells: list[Any] = []
        self._codes: UInt8[np.ndarray, "cells 3"] = np.zeros((0, 3), np.uint8)
        self._transparent: UInt8[np.ndarray, " cells"] = np.zeros(0, np.uint8)
        # Objects whose code depends on their colour only. All others, with their index, are encoded in every step.
        self._coloured: list[Any] = []
        self._colours: list[str] = []
        self._others: list[tuple[int, Any]] = []

    def observe(self) -> dict[str, Any]:
        """Returns the observation: the view, the agent's direction and the mission."""
        env = self._env
        if type(env.grid) is not grid_type():
            return type(env).gen_obs(env)  # a grid with rules of its own
        return {"image": self.image(), "direction": env.agent_dir, "mission": env.mission}

    def image(self) -> UInt8[np.ndarray, "size size 3"]:
        """Returns type, colour and state of every visible cell, seen from the agent at the bottom centre."""
        self._encode_changes()
        env = self._env
        (x, y), size, grid = env.agent_pos, env.agent_view_size, env.grid
        indices = view_indices(size, int(env.agent_dir), int(x), int(y), grid.width, grid.height)
        image = self._codes.take(indices, axis=0)
        if not env.see_through_walls:
            image *= visible_cells(size, self._transparent.take(indices).tobytes())
        # The agent sees what it carries in its own cell.
        image[size // 2 * size + size - 1] = env.carrying.encode() if env.carrying else constant_cells()[0]
        return image.reshape(size, size, 3)

    def _encode_changes(self) -> None:
        """Encodes the cells that changed since the last call."""
        cells = self._env.grid.grid
        if self._colours != [thing.color for thing in self._coloured]:
            self._encode_cells([*cells, constant_cells()[1]], [])
        elif len(cells) + 1 != len(self._cells) or any(map(operator.is_not, cells, self._cells)):
            self._encode_cells([*cells, constant_cells()[1]], self._cells)
        for index, thing in self._others:
            self._codes[index], self._transparent[index] = thing.encode(), bool(thing.see_behind())

    def _encode_cells(self, cells: list[Any], before: list[Any]) -> None:
        """Encodes the cells that are not the same object as before. All of them if their number changed."""
        if len(before) != len(cells):
            before = [self] * len(cells)  # not a cell, so all differ
            self._codes = np.zeros((len(cells), 3), np.uint8)
            self._transparent = np.zeros(len(cells), np.uint8)
        empty, coloured = constant_cells()[0], coloured_types()
        for index, (thing, old) in enumerate(zip(cells, before, strict=True)):
            if thing is None:
                self._codes[index], self._transparent[index] = empty, True
            elif thing is not old:
                self._codes[index], self._transparent[index] = thing.encode(), bool(thing.see_behind())
        self._cells = cells
        things = [(index, thing) for index, thing in enumerate(cells) if thing is not None]
        self._coloured = [thing for _, thing in things if type(thing) in coloured]
        self._colours = [thing.color for thing in self._coloured]
        self._others = [(index, thing) for index, thing in things if type(thing) not in coloured]


@functools.lru_cache(maxsize=2**14)
def view_indices(
    size: int, direction: int, x: int, y: int, width: int, height: int
) -> Int[np.ndarray, " cells"]:
    """Returns the index in the map of each cell of the view, or -1 outside of the map.

    The axes of the view are column and row, and its last row is the agent's.
    """
    (forward_x, forward_y), indices = FORWARD[direction], []
    for column, row in itertools.product(range(size), range(size)):
        ahead, right = size - 1 - row, column - size // 2
        # To the right of a direction (a, b) is (-b, a), because y points down.
        cell_x = x + ahead * forward_x - right * forward_y
        cell_y = y + ahead * forward_y + right * forward_x
        is_inside = 0 <= cell_x < width and 0 <= cell_y < height
        indices.append(cell_y * width + cell_x if is_inside else -1)
    return np.asarray(indices)


@functools.lru_cache(maxsize=2**14)
def visible_cells(size: int, transparent: bytes) -> UInt8[np.ndarray, "cells 1"]:
    """Returns 1 for every visible cell of a view and 0 for all others, given which cells are transparent.

    Visibility spreads row by row, from the agent's cell at the bottom centre.
    """
    is_visible = np.zeros((size, size, 1), np.uint8)
    visible = 1 << (size // 2)
    for row in range(size - 1, -1, -1):
        is_transparent = sum(transparent[column * size + row] << column for column in range(size))
        seen, visible = spread(size, visible, is_transparent)
        is_visible[:, row, 0] = [seen >> column & 1 for column in range(size)]
    return is_visible.reshape(-1, 1)


@functools.cache
def spread(size: int, visible: int, transparent: int) -> tuple[int, int]:
    """Returns which cells of a row, and of the row behind it, are visible. All rows are bit masks.

    Light spreads from visible transparent cells, first to the right and then to the left: to the next cell of the row,
    and to the cells behind both.
    """
    behind = 0
    for columns, step in ((range(size - 1), 1), (range(size - 1, 0, -1), -1)):
        for column in columns:
            if visible & transparent & (1 << column):
                both = 1 << column | 1 << (column + step)
                visible |= both
                behind |= both
    return visible, behind


@functools.cache
def constant_cells() -> tuple[tuple[int, int, int], Any]:
    """Returns the code of an empty cell, and the wall around the map."""
    from minigrid.core.constants import OBJECT_TO_IDX
    from minigrid.core.world_object import Wall

    return (OBJECT_TO_IDX["empty"], 0, 0), Wall()


@functools.cache
def grid_type() -> type:
    """Returns MiniGrid's own grid."""
    from minigrid.core.grid import Grid

    return Grid


@functools.cache
def coloured_types() -> frozenset[type]:
    """Returns MiniGrid's objects whose code depends on nothing but their colour. A door also has a state."""
    from minigrid.core import world_object

    return frozenset(
        getattr(world_object, name) for name in ("Ball", "Box", "Floor", "Goal", "Key", "Lava", "Wall")
    )

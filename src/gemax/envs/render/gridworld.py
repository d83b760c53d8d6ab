"""Draws gridworlds: for the agent a small image with one pixel per cell, for people the whole map.

The image that the agent observes follows the paper. At the top is an overview map with one cell per room, which shows
the rooms of the agent and of the reward. A cell at the top right shows that the agent has one life. At the bottom is
the map of the agent's room. The row between the two maps shows all keys that the agent has taken, also in other rooms,
and the noise cell, if there is one.
"""

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt8

from gemax.envs.maps import Cell, GridMap
from gemax.envs.render.canvas import visit_colours

PIXELS_PER_CELL = {"pixels": 8, "cells": 1}
"""Pixels per side of a cell in observations, for each `ObservationMode`."""
RENDER_PIXELS = 24
"""Pixels per side of a cell in images for people."""

Colour = tuple[int, int, int]
EMPTY: Colour = (0, 0, 0)
WALL: Colour = (72, 76, 84)
FLOOR: Colour = (232, 232, 226)
AGENT: Colour = (38, 90, 222)
REWARD: Colour = (255, 144, 24)
KEY: Colour = (164, 204, 48)
DOOR: Colour = (132, 82, 40)
ROOM: Colour = (184, 188, 196)
AGENT_AND_REWARD: Colour = (190, 62, 200)
START_TINT: Colour = (188, 208, 246)

LETTERS = {
    EMPTY: " ", WALL: "#", FLOOR: ".", START_TINT: "S", AGENT: "A", REWARD: "G", KEY: "K", DOOR: "D",
    ROOM: "o", AGENT_AND_REWARD: "B",
}  # fmt: skip
"""Characters for terminals without colours. Those that maps do not have: A agent, o room, B agent and reward."""


def image_size(grid_map: GridMap) -> tuple[int, int]:
    """Returns height and width of the agent's image, in cells."""
    room_height, room_width = grid_map.room_shape
    room_columns, room_rows = grid_map.rooms
    # One free column separates the life cell from the overview map.
    return room_rows + 1 + room_height, max(room_width, room_columns + 2)


def noise_position(grid_map: GridMap) -> Cell:
    """Returns row and column of the noise cell in the agent's image: the middle of the row between the two maps."""
    return grid_map.rooms[1], image_size(grid_map)[1] // 2


def draw_observation(
    grid_map: GridMap, agent: Cell, removed: frozenset[Cell], reward: Cell | None
) -> UInt8[np.ndarray, "height width 3"]:
    """Returns the agent's image, with one pixel per cell. `reward` is None once the agent has reached it."""
    image = np.full((*image_size(grid_map), 3), EMPTY, np.uint8)
    _draw_overview(image, grid_map, agent, reward)
    image[0, -1] = AGENT  # one life
    key_row = grid_map.rooms[1]
    for column, key in enumerate(grid_map.cells("K")[: image.shape[1]]):
        if key in removed:
            image[key_row, column] = KEY
    (room_row, room_column), (height, width) = grid_map.room_of(agent), grid_map.room_shape
    room = _colours(grid_map, agent, removed, reward)[room_row * height :, room_column * width :]
    image[key_row + 1 :, :width] = room[:height, :width]
    return image


def draw_map(
    grid_map: GridMap, agent: Cell | None, removed: frozenset[Cell], rewards: tuple[Cell, ...]
) -> UInt8[np.ndarray, "height width 3"]:
    """Returns an image of the whole map for people, with lines between cells, tinted starts and the agent as a disc."""
    colours = _colours(grid_map, None, removed, None)
    for start in grid_map.cells("S"):
        colours[start] = START_TINT
    for reward in rewards:
        colours[reward] = REWARD
    # The map is surrounded by walls.
    framed = np.full((grid_map.height + 2, grid_map.width + 2, 3), WALL, np.uint8)
    framed[1:-1, 1:-1] = colours
    render = magnify(framed, RENDER_PIXELS)
    is_open = np.zeros(framed.shape[:2], bool)
    for row, column in grid_map.open_cells:
        is_open[row + 1, column + 1] = True
    _draw_grid_lines(render, magnify(is_open, RENDER_PIXELS))
    if agent is not None:
        _draw_disc(render, (agent[0] + 1, agent[1] + 1))
    return render


def draw_visits(
    render: UInt8[np.ndarray, "height width 3"],
    positions: Int[np.ndarray, "cells 2"],
    visits: Float[np.ndarray, " cells"],
) -> UInt8[np.ndarray, "height width 3"]:
    """Returns an image from `draw_map` with visited floor coloured by the number of visits to each cell."""
    colours, is_visited = np.zeros(render.shape), np.zeros(render.shape[:2], bool)
    for position, colour, number in zip(positions, visit_colours(visits), visits, strict=True):
        top, left = (position + 1) * RENDER_PIXELS
        block = slice(top, top + RENDER_PIXELS), slice(left, left + RENDER_PIXELS)
        colours[block], is_visited[block] = colour, number > 0
    is_floor = np.zeros(render.shape[:2], bool)
    for floor in (FLOOR, START_TINT):
        # The lines between cells keep their colour, so that cells can be told apart.
        is_floor |= (render == floor).all(axis=-1)
    return np.where((is_visited & is_floor)[..., None], colours, render).astype(np.uint8)


def magnify(
    image: Shaped[np.ndarray, "height width *channels"], factor: int
) -> Shaped[np.ndarray, "h w *channels"]:
    """Returns the image with every pixel repeated `factor` times in both directions."""
    return image.repeat(factor, axis=0).repeat(factor, axis=1)


def _colours(
    grid_map: GridMap, agent: Cell | None, removed: frozenset[Cell], reward: Cell | None
) -> UInt8[np.ndarray, "height width 3"]:
    colours = np.full((grid_map.height, grid_map.width, 3), WALL, np.uint8)
    for cell in grid_map.open_cells:
        colours[cell] = FLOOR
    for cell in grid_map.items:
        if cell not in removed:
            colours[cell] = KEY if grid_map.rows[cell[0]][cell[1]] == "K" else DOOR
    if reward is not None:
        colours[reward] = REWARD
    if agent is not None:
        colours[agent] = AGENT
    return colours


def _draw_overview(image: np.ndarray, grid_map: GridMap, agent: Cell, reward: Cell | None) -> None:
    (columns, rows), room = grid_map.rooms, grid_map.room_of(agent)
    image[:rows, :columns] = ROOM
    image[room] = AGENT
    if reward is not None:
        reward_room = grid_map.room_of(reward)
        image[reward_room] = AGENT_AND_REWARD if reward_room == room else REWARD


def _draw_grid_lines(render: np.ndarray, is_open: np.ndarray) -> None:
    is_line = np.zeros(is_open.shape, bool)
    is_line[::RENDER_PIXELS] = is_line[:, ::RENDER_PIXELS] = True
    is_line &= is_open
    render[is_line] = (render[is_line] * 0.88).astype(np.uint8)


def _draw_disc(render: np.ndarray, cell: Cell) -> None:
    middle = (RENDER_PIXELS - 1) / 2
    rows, columns = np.mgrid[:RENDER_PIXELS, :RENDER_PIXELS]
    disc = (rows - middle) ** 2 + (columns - middle) ** 2 <= (0.38 * RENDER_PIXELS) ** 2
    top, left = cell[0] * RENDER_PIXELS, cell[1] * RENDER_PIXELS
    render[top : top + RENDER_PIXELS, left : left + RENDER_PIXELS][disc] = AGENT

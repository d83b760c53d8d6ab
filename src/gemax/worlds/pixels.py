"""What a gridworld looks like: to the agent, a small image of a pixel a square; to a person, the whole map.

The agent's image, as in the paper: above, the world map, a square a room, which tells the room of the agent and
the room of the reward, with the square for its one life at the top right; below, the map of the room it is in.
The row in between is empty but for the keys that were taken, which would be forgotten in the next room, and for the
noise square, where there is one.
"""

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Shaped, UInt8

from gemax.worlds.maps import GridMap, Square

ObservationMode: TypeAlias = Literal["pixels", "squares"]
"""`pixels`: each square is 8 × 8 pixels, as in the paper. `squares`: a pixel a square, for small machines."""

PIXELS_PER_SQUARE = {"pixels": 8, "squares": 1}
PIXELS_FOR_PEOPLE = 24

Colour = tuple[int, int, int]
NOTHING: Colour = (0, 0, 0)
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
    NOTHING: " ", WALL: "#", FLOOR: ".", START_TINT: "S", AGENT: "A", REWARD: "G", KEY: "K", DOOR: "D",
    ROOM: "o", AGENT_AND_REWARD: "B",
}  # fmt: skip
"""Colours for where there are none, as in map files; A is the agent, o a room, B a room with both in it."""


def image_size(grid_map: GridMap) -> tuple[int, int]:
    """Height and width of the agent's image, in squares."""
    cell_height, cell_width = grid_map.cell
    room_columns, room_rows = grid_map.rooms
    # The life square needs a column of its own, one free column beside the world map.
    return room_rows + 1 + cell_height, max(cell_width, room_columns + 2)


def noise_position(grid_map: GridMap) -> Square:
    """Where in the agent's image the noise square is: in the middle of the row between the two maps."""
    return grid_map.rooms[1], image_size(grid_map)[1] // 2


def draw_image(
    grid_map: GridMap, agent: Square, gone: frozenset[Square], reward: Square | None
) -> UInt8[np.ndarray, "height width 3"]:
    """The agent's image, a pixel a square. The reward is None once it was taken."""
    image = np.full((*image_size(grid_map), 3), NOTHING, np.uint8)
    _draw_world_map(image, grid_map, agent, reward)
    image[0, -1] = AGENT  # one life
    between = grid_map.rooms[1]
    for column, key in enumerate(grid_map.squares("K")[: image.shape[1]]):
        if key in gone:
            image[between, column] = KEY
    top = between + 1
    (room_row, room_column), (height, width) = grid_map.room_of(agent), grid_map.cell
    colours = _colours(grid_map, agent, gone, reward)
    rows, columns = (
        slice(room_row * height, (room_row + 1) * height),
        slice(room_column * width, (room_column + 1) * width),
    )
    image[top : top + height, :width] = colours[rows, columns]
    return image


def draw_map(
    grid_map: GridMap, agent: Square | None, gone: frozenset[Square], rewards: tuple[Square, ...]
) -> UInt8[np.ndarray, "height width 3"]:
    """The whole map for a person: squares with seams, starts tinted, the agent as a disc."""
    colours = _colours(grid_map, None, gone, None)
    for start in grid_map.squares("S"):
        colours[start] = START_TINT
    for reward in rewards:
        colours[reward] = REWARD
    # A frame of wall, as the edge of the map is one.
    picture = magnify(np.pad(colours, ((1, 1), (1, 1), (0, 0))), PIXELS_FOR_PEOPLE)
    frame = np.ones((grid_map.height + 2, grid_map.width + 2), bool)
    frame[1:-1, 1:-1] = False
    picture[magnify(frame, PIXELS_FOR_PEOPLE)] = WALL
    is_open = np.zeros_like(frame)
    for row, column in grid_map.open_squares:
        is_open[row + 1, column + 1] = True
    _draw_seams(picture, magnify(is_open, PIXELS_FOR_PEOPLE))
    if agent is not None:
        _draw_disc(picture, (agent[0] + 1, agent[1] + 1))
    return picture


def magnify(
    image: Shaped[np.ndarray, "height width *channels"], factor: int
) -> Shaped[np.ndarray, "h w *channels"]:
    """Every pixel becomes a square of pixels."""
    return image.repeat(factor, axis=0).repeat(factor, axis=1)


def _colours(
    grid_map: GridMap, agent: Square | None, gone: frozenset[Square], reward: Square | None
) -> UInt8[np.ndarray, "height width 3"]:
    colours = np.full((grid_map.height, grid_map.width, 3), WALL, np.uint8)
    for square in grid_map.open_squares:
        colours[square] = FLOOR
    for square in grid_map.items:
        if square not in gone:
            colours[square] = KEY if grid_map.rows[square[0]][square[1]] == "K" else DOOR
    if reward is not None:
        colours[reward] = REWARD
    if agent is not None:
        colours[agent] = AGENT
    return colours


def _draw_world_map(image: np.ndarray, grid_map: GridMap, agent: Square, reward: Square | None) -> None:
    columns, rows = grid_map.rooms
    image[:rows, :columns] = ROOM
    if reward is not None:
        image[grid_map.room_of(reward)] = REWARD
    image[grid_map.room_of(agent)] = AGENT
    if reward is not None and grid_map.room_of(agent) == grid_map.room_of(reward):
        image[grid_map.room_of(agent)] = AGENT_AND_REWARD


def _draw_seams(picture: np.ndarray, is_open: np.ndarray) -> None:
    seam = np.zeros(is_open.shape, bool)
    seam[::PIXELS_FOR_PEOPLE] = True
    seam[:, ::PIXELS_FOR_PEOPLE] = True
    seam &= is_open
    picture[seam] = (picture[seam] * 0.88).astype(np.uint8)


def _draw_disc(picture: np.ndarray, square: Square) -> None:
    middle = (PIXELS_FOR_PEOPLE - 1) / 2
    rows, columns = np.mgrid[:PIXELS_FOR_PEOPLE, :PIXELS_FOR_PEOPLE]
    disc = (rows - middle) ** 2 + (columns - middle) ** 2 <= (0.38 * PIXELS_FOR_PEOPLE) ** 2
    top, left = square[0] * PIXELS_FOR_PEOPLE, square[1] * PIXELS_FOR_PEOPLE
    picture[top : top + PIXELS_FOR_PEOPLE, left : left + PIXELS_FOR_PEOPLE][disc] = AGENT

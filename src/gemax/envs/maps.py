"""Reads and checks maps, written as ASCII art.

    #  wall            S  possible start of the agent      K  key: taken when the agent steps on it
    .  floor           G  possible cell of the reward      D  door: opens if the agent has a key

One start and one reward cell are sampled for each episode. A first line `rooms: COLSxROWS` divides the map into rooms
of equal size. Without it the map is one room. The map is surrounded by walls.

The paper does not print its maps. Those in `map_files` are reconstructions.
"""

import functools
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple

Cell = tuple[int, int]
"""Row and column on the map."""

CHARACTERS = "#.SGKD"
MAX_FILE_BYTES = 64 * 1024
MAX_SIDE = 128
MAX_ITEMS = 8
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""No-op, up, down, left, right."""


class MapError(ValueError):
    """A map is not valid. The message contains the line and column."""


class GridMap(NamedTuple):
    """A valid map."""

    rows: tuple[str, ...]
    """The characters of each row. All rows have the same length."""
    rooms: tuple[int, int]
    """Number of columns and rows of rooms."""
    first_line: int = 1
    """Line number of the first row in the file: 2 if there is a header."""

    @property
    def height(self) -> int:
        """Number of rows of cells."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """Number of columns of cells."""
        return len(self.rows[0])

    def cells(self, characters: str) -> tuple[Cell, ...]:
        """Returns the cells with one of these characters, row by row."""
        return _find_cells(self.rows, characters)

    @property
    def open_cells(self) -> tuple[Cell, ...]:
        """All cells except walls."""
        return self.cells(CHARACTERS.replace("#", ""))

    @property
    def items(self) -> tuple[Cell, ...]:
        """Cells of the keys, then of the doors. They become floor when a key is taken or a door is opened."""
        return self.cells("K") + self.cells("D")

    @property
    def room_shape(self) -> tuple[int, int]:
        """Height and width of a room."""
        columns, rows = self.rooms
        return self.height // rows, self.width // columns

    def room_of(self, cell: Cell) -> tuple[int, int]:
        """Returns row and column of the room that contains a cell."""
        height, width = self.room_shape
        return cell[0] // height, cell[1] // width


def paper_map(name: str) -> GridMap:
    """Reads a map of the paper: `two-rooms`, `two-keys` or `sixteen-leaves`."""
    return read_map(Path(__file__).parent / "map_files" / f"{name}.txt")


def read_map(source: str | Path) -> GridMap:
    """Reads a map from a string of several lines, or from the file with this path."""
    if isinstance(source, str) and "\n" in source:
        return parse_map(source)
    return parse_map(read_map_text(Path(source)))


def read_map_text(path: Path) -> str:
    """Reads a map file as text.

    Raises:
        MapError: The file does not exist, is too large, or is not text.
    """
    if not path.is_file():
        raise MapError(f"there is no map file {path}.")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise MapError(f"{path} has {size:,} bytes; a map has at most {MAX_FILE_BYTES:,}. Is this a map?")
    content = path.read_bytes()
    try:
        # Some editors begin a file with a byte order mark.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise _error(line, column, f"byte 0x{content[error.start]:02x} is not text. Is this a map?") from None


def parse_map(text: str) -> GridMap:
    """Parses a map.

    Raises:
        MapError: The map is not valid.
    """
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    if not lines:
        raise _error(1, 1, "the map is empty. It needs at least one S (start) and one G (reward).")
    rooms, num_headers = _parse_header(lines[0])
    rows, first_line = lines[num_headers:], num_headers + 1
    _check_rows(rows, first_line)
    grid_map = GridMap(tuple(rows), rooms, first_line)
    _check_contents(grid_map)
    return grid_map


def check_reachable(grid_map: GridMap, horizon: int) -> None:
    """Raises MapError unless every reward can be reached from every start within the horizon."""
    if horizon < 1:
        raise MapError(f"horizon must be at least 1; got {horizon}.")
    first_line = grid_map.first_line
    for start in grid_map.cells("S"):
        steps = steps_from(grid_map, start)
        for goal in grid_map.cells("G"):
            needed = steps.get(goal)
            if needed is None or needed > horizon:
                limit = f"in less than {needed} steps, and the horizon is {horizon}" if needed else "at all"
                origin = f"from the S in line {start[0] + first_line}, column {start[1] + 1}"
                message = f"this G cannot be reached {limit}, {origin}."
                raise _error(goal[0] + first_line, goal[1] + 1, message)


def move(
    grid_map: GridMap, cell: Cell, removed: frozenset[Cell], action: int
) -> tuple[Cell, frozenset[Cell]]:
    """Returns the agent's cell and the removed items (keys taken, doors opened) after an action."""
    row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    if not (0 <= row < grid_map.height and 0 <= column < grid_map.width):
        return cell, removed
    character = grid_map.rows[row][column]
    has_key = any(grid_map.rows[r][c] == "K" for r, c in removed)
    if character == "#" or (character == "D" and (row, column) not in removed and not has_key):
        return cell, removed
    return (row, column), removed | {(row, column)} if character in "KD" else removed


def steps_from(grid_map: GridMap, start: Cell) -> dict[Cell, int]:
    """Returns the minimum number of steps from a start to each reachable cell, taking keys for doors on the way."""
    steps = {(start, frozenset[Cell]()): 0}  # by cell and removed items
    queue = deque(steps)
    nearest: dict[Cell, int] = {}
    while queue:
        state = queue.popleft()
        nearest.setdefault(state[0], steps[state])
        for action in range(len(MOVES)):
            next_state = move(grid_map, *state, action)
            if next_state not in steps:
                steps[next_state] = steps[state] + 1
                queue.append(next_state)
    return nearest


@functools.lru_cache
def _find_cells(rows: tuple[str, ...], characters: str) -> tuple[Cell, ...]:
    # Cached, because it is called for every image of a map.
    return tuple(
        (row, column)
        for row, line in enumerate(rows)
        for column, character in enumerate(line)
        if character in characters
    )


def _error(line: int, column: int, message: str) -> MapError:
    return MapError(f"line {line}, column {column}: {message}")


def _parse_header(line: str) -> tuple[tuple[int, int], int]:
    """Returns columns and rows of rooms, and the number of header lines."""
    if not line.lower().startswith("rooms"):
        return (1, 1), 0
    match = re.fullmatch(r"rooms:\s*([1-9]\d{0,2})\s*x\s*([1-9]\d{0,2})", line, re.IGNORECASE)
    if match is None:
        raise _error(1, 1, f"the header must read `rooms: COLSxROWS`, as in `rooms: 1x2`; got {line!r}.")
    return (int(match[1]), int(match[2])), 1


def _check_rows(rows: list[str], first_line: int) -> None:
    if not rows:
        raise _error(2, 1, "the map ends after its header.")
    for line, row in enumerate(rows, first_line):
        for column, character in enumerate(row, 1):
            if character not in CHARACTERS:
                known = f"known are {' '.join(CHARACTERS)}.{' Walls are #.' if character == ' ' else ''}"
                raise _error(line, column, f"{character!r} is not a map character; {known}")
    width = len(rows[0])
    for line, row in enumerate(rows, first_line):
        if len(row) != width:
            message = f"this line has {len(row)} cells and the first one {width}; they must be equally long."
            raise _error(line, min(len(row), width) + 1, message)
    if max(len(rows), width) > MAX_SIDE:
        message = f"the map is {width} × {len(rows)} cells; at most {MAX_SIDE} × {MAX_SIDE} are possible."
        raise _error(first_line, 1, message)


def _check_contents(grid_map: GridMap) -> None:
    first_line, (columns, rows) = grid_map.first_line, grid_map.rooms
    if not grid_map.cells("S"):
        raise _error(first_line, 1, "the map has no S, so the agent cannot start.")
    if not grid_map.cells("G"):
        raise _error(first_line, 1, "the map has no G, so there is no reward.")
    if (num_items := len(grid_map.items)) > MAX_ITEMS:
        message = f"the map has {num_items} keys and doors; at most {MAX_ITEMS} are possible."
        raise _error(first_line, 1, message)
    if grid_map.width % columns or grid_map.height % rows:
        size = f"{grid_map.width} × {grid_map.height} cells"
        message = f"`rooms: {columns}x{rows}` does not divide a map of {size} into rooms of equal size."
        raise _error(1, 1, message)

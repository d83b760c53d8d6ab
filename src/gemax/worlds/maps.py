"""Maps as ASCII art: how they are read, what is refused, and the ones that come with the package.

    #  wall            S  the agent may start here      K  key: taken by stepping on it
    .  floor           G  the reward may lie here       D  door: opens to one who holds a key

One start and one reward are drawn for each episode. A first line `rooms: COLSxROWS` cuts the map into equal
cells; without it the map is one room. What lies beyond the edge of the map is wall.

The maps of the paper are not in its text: those below are our reconstructions.
"""

import functools
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple, NoReturn

Square = tuple[int, int]
"""Row and column on the map."""

CHARACTERS = "#.SGKD"
LARGEST_FILE = 64 * 1024
LARGEST_SIDE = 128
MOST_ITEMS = 8
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""No-op, up, down, left, right."""
ACTIONS = ("no-op", "up", "down", "left", "right")

TWO_ROOMS = """\
rooms: 1x2
S......
.......
.......
.......
.......
######.
.......
.......
.......
.......
G......
#######
"""

TWO_KEYS = """\
rooms: 1x2
...K...
S......
S......
S......
...K...
######D
.......
.......
.......
.......
G......
#######
"""

SIXTEEN_LEAVES = """\
G#######G#G#######G
.#######.#.#######.
.........#.........
.###.###.#.###.###.
G###.###G#G###.###G
####.#########.####
####.#########.####
####....SSS....####
####.#########.####
####.#########.####
G###.###G#G###.###G
.###.###.#.###.###.
.........#.........
.#######.#.#######.
G#######G#G#######G
"""


class MapError(ValueError):
    """A map that cannot be a world, with the place that is wrong."""


class GridMap(NamedTuple):
    """A map that was read and found sound."""

    rows: tuple[str, ...]
    """The characters, all rows of the same length."""
    rooms: tuple[int, int]
    """How many columns and rows of rooms there are."""
    first_line: int = 1
    """The line of the file that the first row stands in: below the header, if there is one."""

    @property
    def height(self) -> int:
        """Squares from top to bottom."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """Squares from left to right."""
        return len(self.rows[0])

    def squares(self, characters: str) -> tuple[Square, ...]:
        """Where these characters stand, row by row."""
        return _where(self.rows, characters)

    @property
    def open_squares(self) -> tuple[Square, ...]:
        """All but the walls."""
        return self.squares(CHARACTERS.replace("#", ""))

    @property
    def items(self) -> tuple[Square, ...]:
        """What an episode may take off the map: the keys, then the doors."""
        return self.squares("K") + self.squares("D")

    @property
    def cell(self) -> tuple[int, int]:
        """Height and width of a room."""
        columns, rows = self.rooms
        return self.height // rows, self.width // columns

    def room_of(self, square: Square) -> tuple[int, int]:
        """Row and column of the room that a square belongs to."""
        height, width = self.cell
        return square[0] // height, square[1] // width


def read_map(source: str | Path) -> GridMap:
    """Reads a map from a string of several lines, or from the file that a path or a short string names."""
    if isinstance(source, str) and "\n" in source:
        return parse_map(source)
    return parse_map(text_of(Path(source)))


def parse_map(text: str) -> GridMap:
    """Reads a map, or says where it is wrong."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise MapError(
            "line 1, column 1: the map is empty. It needs at least one S (start) and one G (reward)."
        )
    rooms, first = _header(lines[0])
    rows = lines[first:]
    _check_characters(rows, first)
    grid_map = GridMap(tuple(rows), rooms, first + 1)
    _check_contents(grid_map, first)
    return grid_map


def check_reachable(grid_map: GridMap, horizon: int) -> None:
    """Refuses a reward that cannot be reached within the horizon from every start."""
    if horizon < 1:
        raise MapError(f"horizon must be at least 1; got {horizon}.")
    for start in grid_map.squares("S"):
        steps = steps_from(grid_map, start)
        for goal in grid_map.squares("G"):
            needed = steps.get(goal)
            if needed is None or needed > horizon:
                how = (
                    "at all"
                    if needed is None
                    else f"in less than {needed} steps, and the horizon is {horizon}"
                )
                raise MapError(
                    f"line {goal[0] + grid_map.first_line}, column {goal[1] + 1}: this G cannot be reached {how}, "
                    f"from the S in line {start[0] + grid_map.first_line}, column {start[1] + 1}."
                )


def move(
    grid_map: GridMap, square: Square, gone: frozenset[Square], action: int
) -> tuple[Square, frozenset[Square]]:
    """Where an action leads to, and what is gone from the map then."""
    row, column = square[0] + MOVES[action][0], square[1] + MOVES[action][1]
    if not (0 <= row < grid_map.height and 0 <= column < grid_map.width):
        return square, gone
    character = grid_map.rows[row][column]
    holds_key = any(grid_map.rows[r][c] == "K" for r, c in gone)
    if character == "#" or (character == "D" and (row, column) not in gone and not holds_key):
        return square, gone
    return (row, column), gone | {(row, column)} if character in "KD" else gone


def steps_from(grid_map: GridMap, start: Square) -> dict[Square, int]:
    """The least number of steps to every square that can be reached, keys and doors observed."""
    first = (start, frozenset())
    steps = {first: 0}
    queue = deque([first])
    while queue:
        place = queue.popleft()
        for action in range(len(MOVES)):
            following = move(grid_map, *place, action)
            if following not in steps:
                steps[following] = steps[place] + 1
                queue.append(following)
    nearest: dict[Square, int] = {}
    for (square, _), needed in steps.items():
        nearest[square] = min(needed, nearest.get(square, needed))
    return nearest


@functools.lru_cache
def _where(rows: tuple[str, ...], characters: str) -> tuple[Square, ...]:
    # Kept, since every image of a map asks.
    return tuple(
        (row, column)
        for row, line in enumerate(rows)
        for column, character in enumerate(line)
        if character in characters
    )


def text_of(path: Path) -> str:
    """What a map file holds, or why it cannot be one."""
    if not path.is_file():
        raise MapError(f"there is no map file {path}.")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise MapError(f"{path} has {size:,} bytes; a map has at most {LARGEST_FILE:,}. Is this a map?")
    content = path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        byte = content[error.start]
        raise MapError(
            f"line {line}, column {column}: byte 0x{byte:02x} is no text. Is this a map?"
        ) from None


def _header(line: str) -> tuple[tuple[int, int], int]:
    if not line.lower().startswith("rooms"):
        return (1, 1), 0
    match = re.fullmatch(r"rooms:\s*([1-9]\d{0,2})\s*x\s*([1-9]\d{0,2})", line, re.IGNORECASE)
    if match is None:
        raise MapError(
            f"line 1, column 1: the header must read `rooms: COLSxROWS`, as in `rooms: 1x2`; got {line!r}."
        )
    return (int(match[1]), int(match[2])), 1


def _check_characters(rows: list[str], first: int) -> None:
    for number, row in enumerate(rows, first + 1):
        for column, character in enumerate(row, 1):
            if character not in CHARACTERS:
                hint = " Walls are #." if character == " " else ""
                raise MapError(
                    f"line {number}, column {column}: {character!r} is no map character; "
                    f"known are {' '.join(CHARACTERS)}.{hint}"
                )
    if not rows:
        raise MapError("line 2, column 1: the map ends after its header.")
    width = len(rows[0])
    for number, row in enumerate(rows, first + 1):
        if len(row) != width:
            raise MapError(
                f"line {number}, column {min(len(row), width) + 1}: this line has {len(row)} squares and "
                f"the first one {width}; all must have the same number."
            )
    if len(rows) > LARGEST_SIDE or width > LARGEST_SIDE:
        raise MapError(
            f"line {first + 1}, column 1: the map is {width} × {len(rows)} squares; at most "
            f"{LARGEST_SIDE} × {LARGEST_SIDE} are possible."
        )


def _check_contents(grid_map: GridMap, first: int) -> None:
    def refuse(words: str) -> NoReturn:
        raise MapError(f"line {first + 1}, column 1: {words}")

    if not grid_map.squares("S"):
        refuse("the map has no S, so the agent cannot start.")
    if not grid_map.squares("G"):
        refuse("the map has no G, so there is no reward.")
    if len(grid_map.items) > MOST_ITEMS:
        refuse(f"the map has {len(grid_map.items)} keys and doors; at most {MOST_ITEMS} are possible.")
    columns, rows = grid_map.rooms
    if grid_map.width % columns or grid_map.height % rows:
        raise MapError(
            f"line 1, column 1: `rooms: {columns}x{rows}` does not cut a map of {grid_map.width} × "
            f"{grid_map.height} squares into equal cells."
        )

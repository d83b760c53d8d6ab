import networkx as nx
import pytest

from gemax.worlds.maps import (
    SIXTEEN_LEAVES,
    TWO_KEYS,
    TWO_ROOMS,
    MapError,
    check_reachable,
    parse_map,
    read_map,
    steps_from,
)

SOUND = "S.G\n"

BAD_TEXTS = {
    "empty": ("\n", "line 1, column 1: the map is empty"),
    "header alone": ("rooms: 1x1\n", "line 2, column 1: the map ends after its header"),
    "no start": ("..G\n", "line 1, column 1: the map has no S"),
    "no reward": ("S..\n", "line 1, column 1: the map has no G"),
    "unknown character": (
        "S..\n..x\nG..\n",
        "line 2, column 3: 'x' is no map character; known are # . S G K D",
    ),
    "a space": ("S G\n", "line 1, column 2: ' ' is no map character.*Walls are #"),
    "line too short": (
        "rooms: 1x1\nS...\n...\nG...\n",
        "line 3, column 4: this line has 3 squares and the first one 4",
    ),
    "line too long": ("S..\n....\nG..\n", "line 2, column 4: this line has 4 squares and the first one 3"),
    "blank line inside": ("S..\n\nG..\n", "line 2, column 1: this line has 0 squares"),
    "header misspelt": ("rooms 1x2\nS\nG\n", "line 1, column 1: the header must read `rooms: COLSxROWS`"),
    "rooms do not fit": ("rooms: 2x1\nS.G\n", r"`rooms: 2x1` does not cut a map of 3 × 1 squares"),
    "too wide": ("S" + "." * 200 + "G\n", "the map is 202 × 1 squares; at most 128 × 128"),
    "too many keys": ("SKKKKKKKKKG\n", "the map has 9 keys and doors; at most 8"),
    "not text": ("S\x00G\n", r"line 1, column 2: '\\x00' is no map character"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_bad_map_is_refused_with_line_and_column(name):
    text, message = BAD_TEXTS[name]
    with pytest.raises(MapError, match=message):
        parse_map(text)


BAD_FILES = {
    "empty file": (b"", "line 1, column 1: the map is empty"),
    "bytes that are no text": (b"S..\n.\xff.\nG..\n", "line 2, column 2: byte 0xff is no text"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "line 1, column 1: byte 0x89 is no text"),
    "ten megabytes": (b"." * 10_000_000, "10,000,000 bytes; a map has at most 65,536"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused(name, tmp_path):
    content, message = BAD_FILES[name]
    path = tmp_path / "map.txt"
    path.write_bytes(content)
    with pytest.raises(MapError, match=message):
        read_map(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MapError, match=r"there is no map file .*nowhere\.txt"):
        read_map(tmp_path / "nowhere.txt")


@pytest.mark.parametrize(
    ("text", "horizon", "message"),
    [
        (
            "S..G\n",
            2,
            "line 1, column 4: this G cannot be reached in less than 3 steps, and the horizon is 2",
        ),
        ("S#G\n", 50, "line 1, column 3: this G cannot be reached at all"),
        ("rooms: 1x2\nSG\nG#\n", 0, "horizon must be at least 1"),
        (
            "rooms: 1x3\nSG\n##\n#G\n",
            9,
            "line 4, column 2: this G cannot be reached at all, from the S in line 2, column 1",
        ),
        ("S.D.G\n", 50, "cannot be reached at all"),
        ("K.S.D.G\n", 7, "in less than 8 steps"),
    ],
)
def test_a_reward_out_of_reach_is_refused(text, horizon, message):
    with pytest.raises(MapError, match=message):
        check_reachable(parse_map(text), horizon)


def test_a_door_opens_to_one_who_holds_a_key():
    check_reachable(parse_map("K.S.D.G\n"), 8)


def test_windows_line_ends_and_blank_lines_at_the_end_are_welcome(tmp_path):
    path = tmp_path / "map.txt"
    path.write_bytes(b"rooms: 1x2\r\nS.\r\n.G\r\n\r\n\r\n")
    assert read_map(path) == parse_map("rooms: 1x2\nS.\n.G\n")
    assert read_map(str(path)) == read_map(path)


def graph_of(grid_map):
    """The squares as a graph, written anew."""
    graph = nx.Graph()
    squares = set(grid_map.open_squares)
    for row, column in squares:
        graph.add_node((row, column))
        for other in ((row + 1, column), (row, column + 1)):
            if other in squares:
                graph.add_edge((row, column), other)
    return graph


@pytest.mark.parametrize("text", [TWO_ROOMS, SIXTEEN_LEAVES, TWO_KEYS.replace("D", ".")])
def test_steps_equal_shortest_paths_of_networkx(text):
    grid_map = parse_map(text)
    for start in grid_map.squares("S"):
        assert steps_from(grid_map, start) == nx.single_source_shortest_path_length(graph_of(grid_map), start)


def test_two_rooms_are_as_the_text_fixes_them():
    grid_map = parse_map(TWO_ROOMS)
    assert len(grid_map.open_squares) == 71
    assert steps_from(grid_map, grid_map.squares("S")[0])[grid_map.squares("G")[0]] == 22
    rooms = {grid_map.room_of(square) for square in grid_map.open_squares}
    assert rooms == {(0, 0), (1, 0)}
    assert grid_map.room_of((5, 6)) == (0, 0)  # the bottleneck is of the room above it
    assert nx.has_path(graph_of(grid_map), (0, 0), (10, 0))
    assert (5, 6) in set(nx.articulation_points(graph_of(grid_map)))


def test_sixteen_leaves_is_a_tree_whose_leaves_are_just_in_reach():
    grid_map = parse_map(SIXTEEN_LEAVES)
    graph = graph_of(grid_map)
    assert nx.is_tree(graph)
    leaves = {node for node, degree in graph.degree() if degree == 1}
    assert leaves == set(grid_map.squares("G"))
    assert (len(leaves), len(graph)) == (16, 95)
    needed = {steps_from(grid_map, start)[leaf] for start in grid_map.squares("S") for leaf in leaves}
    assert needed == {15, 16, 17}


def test_two_keys_needs_one_key_and_either_will_do():
    grid_map = parse_map(TWO_KEYS)
    keys = grid_map.squares("K")
    assert len(keys) == 2
    for removed in keys:
        rows = [list(row) for row in grid_map.rows]
        rows[removed[0]][removed[1]] = "."
        check_reachable(parse_map("rooms: 1x2\n" + "\n".join("".join(row) for row in rows)), 30)
    without_keys = TWO_KEYS.replace("K", ".")
    with pytest.raises(MapError, match="cannot be reached at all"):
        check_reachable(parse_map(without_keys), 30)

import networkx as nx
import pytest

from gemax.envs.maps import (
    MapError,
    check_reachable,
    paper_map,
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
        "line 2, column 3: 'x' is not a map character; known are # . S G K D",
    ),
    "a space": ("S G\n", "line 1, column 2: ' ' is not a map character.*Walls are #"),
    "line too short": (
        "rooms: 1x1\nS...\n...\nG...\n",
        "line 3, column 4: this line has 3 cells and the first one 4",
    ),
    "line too long": ("S..\n....\nG..\n", "line 2, column 4: this line has 4 cells and the first one 3"),
    "blank line inside": ("S..\n\nG..\n", "line 2, column 1: this line has 0 cells"),
    "header misspelt": ("rooms 1x2\nS\nG\n", "line 1, column 1: the header must read `rooms: COLSxROWS`"),
    "rooms do not fit": ("rooms: 2x1\nS.G\n", r"`rooms: 2x1` does not divide a map of 3 × 1 cells"),
    "too wide": ("S" + "." * 200 + "G\n", "the map is 202 × 1 cells; at most 128 × 128"),
    "too many keys": ("SKKKKKKKKKG\n", "the map has 9 keys and doors; at most 8"),
    "not text": ("S\x00G\n", r"line 1, column 2: '\\x00' is not a map character"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_errors_of_a_map_name_line_and_column(name):
    text, message = BAD_TEXTS[name]
    with pytest.raises(MapError, match=message):
        parse_map(text)


BAD_FILES = {
    "empty file": (b"", "line 1, column 1: the map is empty"),
    "bytes that are no text": (b"S..\n.\xff.\nG..\n", "line 2, column 2: byte 0xff is not text"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "line 1, column 1: byte 0x89 is not text"),
    "ten megabytes": (b"." * 10_000_000, "10,000,000 bytes; a map has at most 65,536"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_are_not_maps_raise_an_error(name, tmp_path):
    content, message = BAD_FILES[name]
    path = tmp_path / "map.txt"
    path.write_bytes(content)
    with pytest.raises(MapError, match=message):
        read_map(path)


def test_the_error_for_a_missing_file_names_it(tmp_path):
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
def test_a_reward_that_cannot_be_reached_raises_an_error(text, horizon, message):
    with pytest.raises(MapError, match=message):
        check_reachable(parse_map(text), horizon)


def test_a_reward_behind_a_door_can_be_reached_with_a_key():
    check_reachable(parse_map("K.S.D.G\n"), 8)


def test_windows_line_ends_and_trailing_blank_lines_are_accepted(tmp_path):
    path = tmp_path / "map.txt"
    path.write_bytes(b"rooms: 1x2\r\nS.\r\n.G\r\n\r\n\r\n")
    assert read_map(path) == parse_map("rooms: 1x2\nS.\n.G\n")
    assert read_map(str(path)) == read_map(path)


def graph_of(grid_map):
    """Returns the open cells as a graph."""
    graph = nx.Graph()
    cells = set(grid_map.open_cells)
    for row, column in cells:
        graph.add_node((row, column))
        for other in ((row + 1, column), (row, column + 1)):
            if other in cells:
                graph.add_edge((row, column), other)
    return graph


@pytest.mark.parametrize("name", ["two-rooms", "sixteen-leaves", "two-keys"])
def test_steps_equal_the_shortest_paths_of_networkx(name):
    grid_map = paper_map(name)
    grid_map = grid_map._replace(rows=tuple(row.replace("D", ".") for row in grid_map.rows))
    for start in grid_map.cells("S"):
        assert steps_from(grid_map, start) == nx.single_source_shortest_path_length(graph_of(grid_map), start)


def test_two_rooms_has_the_properties_given_in_the_paper():
    grid_map = paper_map("two-rooms")
    assert len(grid_map.open_cells) == 71
    assert steps_from(grid_map, grid_map.cells("S")[0])[grid_map.cells("G")[0]] == 22
    rooms = {grid_map.room_of(cell) for cell in grid_map.open_cells}
    assert rooms == {(0, 0), (1, 0)}
    assert grid_map.room_of((5, 6)) == (0, 0)  # the bottleneck belongs to the upper room
    assert nx.has_path(graph_of(grid_map), (0, 0), (10, 0))
    assert (5, 6) in set(nx.articulation_points(graph_of(grid_map)))


def test_sixteen_leaves_is_a_tree_with_leaves_just_within_the_horizon():
    grid_map = paper_map("sixteen-leaves")
    graph = graph_of(grid_map)
    assert nx.is_tree(graph)
    leaves = {node for node, degree in graph.degree() if degree == 1}
    assert leaves == set(grid_map.cells("G"))
    assert (len(leaves), len(graph)) == (16, 95)
    needed = {steps_from(grid_map, start)[leaf] for start in grid_map.cells("S") for leaf in leaves}
    assert needed == {15, 16, 17}


def test_two_keys_needs_one_of_the_two_keys():
    grid_map = paper_map("two-keys")
    keys = grid_map.cells("K")
    assert len(keys) == 2
    for removed in keys:
        rows = [list(row) for row in grid_map.rows]
        rows[removed[0]][removed[1]] = "."
        check_reachable(parse_map("rooms: 1x2\n" + "\n".join("".join(row) for row in rows)), 30)
    without_keys = "rooms: 1x2\n" + "\n".join(grid_map.rows).replace("K", ".")
    with pytest.raises(MapError, match="cannot be reached at all"):
        check_reachable(parse_map(without_keys), 30)

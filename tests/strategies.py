"""Strategies of hypothesis for what users give to gemax: maps, configurations, spaces and observations."""

import json

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gemax.envs.maps import CHARACTERS
from gemax.training.config import SECTION_OF, Config

# Maps


@st.composite
def maps(draw):
    """Text of maps: rectangular and almost valid, or with a line that is not."""
    width, height = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    cells = st.sampled_from(CHARACTERS + "..###")
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=height, max_size=height))
    if draw(st.booleans()):
        rows[0][0], rows[-1][-1] = "S", "G"
    lines = ["".join(row) for row in rows]
    if draw(st.booleans()):
        lines.insert(0, f"rooms: {draw(st.integers(0, 3))}x{draw(st.integers(0, 3))}")
    if draw(st.integers(0, 3)) == 0:
        lines[draw(st.integers(0, len(lines) - 1))] = draw(st.text(max_size=15))
    return draw(st.sampled_from(["\n", "\r\n", "\n\n", "\u2028"])).join(lines)


# Configurations

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def configurations(draw):
    """Content of `config.json`: the default with some values of the right or of a wrong type."""
    content = Config().to_json()
    for name in draw(st.lists(st.sampled_from(sorted(SECTION_OF)), max_size=3, unique=True)):
        section, value = content[SECTION_OF[name]], Config().flat[name]
        likely = {
            bool: st.booleans(),
            int: st.integers(-2, 2**33),
            float: st.floats() | st.integers(-2, 2),
            str: st.sampled_from(
                ["gem", "rnd", "two-rooms", "gym:CartPole-v1", "gym:os:getcwd", "vtrace", ""]
            ),
        }.get(type(value), st.none())
        section[name] = draw(st.one_of(likely, likely, json_values))
    if draw(st.integers(0, 9)) == 0:
        content[draw(st.sampled_from([*content, "other"]))] = draw(json_values)
    return json.dumps(content).encode()


# Spaces and observations

shapes = st.lists(st.sampled_from([0, 1, 2, 3, 8]), max_size=3).map(tuple)
dtypes = st.sampled_from([np.float32, np.float64, np.uint8, np.int8, np.int64])


@st.composite
def boxes(draw):
    """Boxes with equal or different bounds of their entries, finite or not."""
    dtype, shape = np.dtype(draw(dtypes)), draw(shapes)
    if dtype.kind == "f":
        limits = st.floats(-(2.0**100), 2.0**100, width=32) | st.sampled_from([-np.inf, np.inf])
    else:
        information = np.iinfo(dtype)
        limits = st.integers(int(information.min), int(information.max))
    low, high = sorted((draw(limits), draw(limits)))
    if dtype.kind == "f":
        # Gymnasium refuses boxes that contain nothing but an infinity.
        low, high = (low if low < np.inf else 0.0), (high if high > -np.inf else 0.0)
    return spaces.Box(low, high, shape, dtype.type)


leaves = st.one_of(
    boxes(),
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 40), st.integers(-9, 9)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 9), min_size=1, max_size=4)),
    st.builds(spaces.MultiBinary, st.integers(1, 9) | st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    st.builds(spaces.Text, st.integers(1, 9)),
    st.builds(lambda space: spaces.Sequence(space), boxes()),
)
all_spaces = st.recursive(
    leaves,
    lambda inner: (
        st.builds(spaces.Tuple, st.lists(inner, max_size=3))
        | st.builds(spaces.Dict, st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=3))
    ),
    max_leaves=4,
)
any_arrays = arrays.arrays(arrays.scalar_dtypes(), shapes)


def observations(space):
    """Observations of a space: of its structure with the right or wrong shapes, types and values, or anything."""
    anything = any_arrays | json_values
    if isinstance(space, spaces.Dict):
        right = st.fixed_dictionaries({name: observations(part) for name, part in space.spaces.items()})
    elif isinstance(space, spaces.Tuple):
        right = st.tuples(*(observations(part) for part in space.spaces))
    elif isinstance(space, spaces.Box):
        right = arrays.arrays(space.dtype, space.shape) | st.just(np.copy(space.low)) | st.just(space.high)
    elif isinstance(space, spaces.Discrete):
        right = st.integers(-10, 50) | st.integers(-10, 50).map(np.int64)
    elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        right = arrays.arrays(space.dtype, space.shape, elements=st.integers(-1, 3))
    else:
        right = st.text(max_size=5)
    return st.one_of(right, right, right, anything)


spaces_with_observations = all_spaces.flatmap(lambda space: st.tuples(st.just(space), observations(space)))

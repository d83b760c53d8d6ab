import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from gemax.environments.flattening import flattening_of

IMAGE = spaces.Box(0, 255, (7, 6, 3), np.uint8)
BOX = spaces.Box(np.array([-1.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64)
SPACES = {
    "vector": (BOX, (2,), np.float32),
    "matrix": (spaces.Box(0.0, 1.0, (2, 3)), (6,), np.float32),
    "image": (IMAGE, (7, 6, 3), np.uint8),
    "image of floats": (spaces.Box(0.0, 1.0, (7, 6, 3)), (7, 6, 3), np.float32),
    "grey image": (spaces.Box(0, 255, (7, 6), np.uint8), (7, 6, 1), np.uint8),
    "channels first": (spaces.Box(0, 255, (4, 7, 6), np.uint8), (7, 6, 4), np.uint8),
    "discrete": (spaces.Discrete(5, start=-2), (5,), np.float32),
    "multi-discrete": (spaces.MultiDiscrete([2, 3], start=[1, -1]), (5,), np.float32),
    "multi-binary": (spaces.MultiBinary((2, 2)), (4,), np.float32),
    "dict": (spaces.Dict({"box": BOX, "door": spaces.Discrete(3)}), (5,), np.float32),
    "tuple": (spaces.Tuple((BOX, spaces.Dict({"image": IMAGE}))), (2 + 7 * 6 * 3,), np.float32),
    "image and text": (spaces.Dict({"image": IMAGE, "mission": spaces.Text(9)}), (7, 6, 3), np.uint8),
}


@pytest.mark.parametrize("name", SPACES)
def test_observations_become_arrays_within_their_box(name):
    space, shape, dtype = SPACES[name]
    flattening = flattening_of(space)
    batched = batch_space(space, 4)
    batched.seed(0)
    flat = flattening.flatten(batched.sample())
    assert flat.shape == (4, *shape)
    assert flat.dtype == flattening.low.dtype == flattening.high.dtype == dtype
    assert flattening.low.shape == flattening.high.shape == shape
    assert ((flattening.low <= flat) & (flat <= flattening.high)).all()


@pytest.mark.parametrize("name", SPACES)
def test_different_observations_stay_different(name):
    space, _, _ = SPACES[name]
    space.seed(0)
    observations = [space.sample() for _ in range(8)]
    batch = concatenate(space, observations, create_empty_array(space, 8))
    flat = flattening_of(space).flatten(batch)
    again = flattening_of(space).flatten(
        concatenate(space, observations[:1] * 8, create_empty_array(space, 8))
    )
    np.testing.assert_array_equal(again, np.stack([flat[0]] * 8))
    if name not in ("discrete", "multi-discrete", "multi-binary"):
        assert len(np.unique(flat.reshape(8, -1), axis=0)) == 8


def test_whole_numbers_become_a_one_among_zeros():
    flat = flattening_of(spaces.MultiDiscrete([2, 3], start=[1, -1])).flatten(np.array([[1, -1], [2, 1]]))
    np.testing.assert_array_equal(flat, [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1]])
    np.testing.assert_array_equal(
        flattening_of(spaces.Discrete(3, start=5)).flatten(np.array([5, 7])), np.eye(3)[[0, 2]]
    )


def test_channels_go_last_and_nothing_else_moves():
    space = spaces.Box(0, 255, (4, 7, 6), np.uint8)
    space.seed(0)
    image = space.sample()
    np.testing.assert_array_equal(flattening_of(space).flatten(image[None])[0], image.transpose(1, 2, 0))


def test_what_cannot_be_read_is_left_out_by_name():
    space = spaces.Dict({"image": IMAGE, "mission": spaces.Text(9)})
    assert flattening_of(space).left_out == ("mission (Text)",)


def test_a_space_with_nothing_to_read_is_refused():
    with pytest.raises(ValueError, match="must have a Box"):
        flattening_of(spaces.Dict({"mission": spaces.Text(9)}))

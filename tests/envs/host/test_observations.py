import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from gemax.envs.host.observations import observation_encoder

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
def test_encoded_observations_have_the_declared_shape_type_and_bounds(name):
    space, shape, dtype = SPACES[name]
    encoder = observation_encoder(space)
    batched = batch_space(space, 4)
    batched.seed(0)
    encoded = encoder.encode(batched.sample())
    assert encoded.shape == (4, *shape)
    assert encoded.dtype == encoder.low.dtype == encoder.high.dtype == dtype
    assert encoder.low.shape == encoder.high.shape == shape
    assert ((encoder.low <= encoded) & (encoded <= encoder.high)).all()


@pytest.mark.parametrize("name", SPACES)
def test_different_observations_have_different_encodings(name):
    space, _, _ = SPACES[name]
    space.seed(0)
    observations = [space.sample() for _ in range(8)]
    batch = concatenate(space, observations, create_empty_array(space, 8))
    encoded = observation_encoder(space).encode(batch)
    again = observation_encoder(space).encode(
        concatenate(space, observations[:1] * 8, create_empty_array(space, 8))
    )
    np.testing.assert_array_equal(again, np.stack([encoded[0]] * 8))
    if name not in ("discrete", "multi-discrete", "multi-binary"):
        assert len(np.unique(encoded.reshape(8, -1), axis=0)) == 8


def test_integers_are_one_hot_encoded():
    encoded = observation_encoder(spaces.MultiDiscrete([2, 3], start=[1, -1])).encode(
        np.array([[1, -1], [2, 1]])
    )
    np.testing.assert_array_equal(encoded, [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1]])
    np.testing.assert_array_equal(
        observation_encoder(spaces.Discrete(3, start=5)).encode(np.array([5, 7])), np.eye(3)[[0, 2]]
    )


def test_channels_are_moved_to_the_last_axis():
    space = spaces.Box(0, 255, (4, 7, 6), np.uint8)
    space.seed(0)
    image = space.sample()
    np.testing.assert_array_equal(observation_encoder(space).encode(image[None])[0], image.transpose(1, 2, 0))


def test_parts_that_the_agent_cannot_observe_are_listed_as_ignored():
    space = spaces.Dict({"image": IMAGE, "mission": spaces.Text(9)})
    assert observation_encoder(space).ignored == ("mission (Text)",)


@pytest.mark.fault(30)
@pytest.mark.parametrize(
    "space",
    [spaces.Dict({"mission": spaces.Text(9)}), spaces.Graph(IMAGE, None), spaces.Sequence(IMAGE)],
    ids=lambda space: type(space).__name__,
)
def test_a_space_without_readable_parts_raises_an_error(space):
    with pytest.raises(ValueError, match="must contain a Box"):
        observation_encoder(space)

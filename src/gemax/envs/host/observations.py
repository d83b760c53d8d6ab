"""Converts observations of Gymnasium spaces into arrays: a single image stays an image, all others become a vector.

Worker processes import this module, so it does not import JAX.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

MAX_CHANNELS = 4
"""An image has its channels first if its first axis has at most this size and its last axis is larger."""
OBSERVABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces that the agent can observe."""


class ObservationEncoder(NamedTuple):
    """Converts observations into arrays of one shape."""

    low: np.ndarray
    high: np.ndarray
    """Bounds of the arrays: uint8 or float32 for images, float32 for vectors."""
    encode: Callable[[Any], np.ndarray]
    """Converts a batch from a Gymnasium vector environment to [batch, *shape]. Always a copy."""
    ignored: tuple[str, ...]
    """Parts of the observation that the agent cannot observe, such as text."""
    is_batch: Callable[[Any], bool]
    """Whether an observation is a batch, as from a vector environment."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one encoded observation: (size,) for vectors, (height, width, channels) for images."""
        return self.low.shape

    def encode_one(self, observation: Any) -> np.ndarray:
        """Converts a single observation."""
        return self.encode(_batch_of_one(observation))[0]


class _Leaf(NamedTuple):
    """A part of an observation that is an array or a number."""

    path: tuple[Any, ...]
    space: Space

    def read(self, batch: Any) -> np.ndarray:
        for key in self.path:
            batch = batch[key]
        return np.asarray(batch)

    def is_batch(self, observation: Any) -> bool:
        assert self.space.shape is not None  # true for all `OBSERVABLE` spaces
        return self.read(observation).ndim == len(self.space.shape) + 1


class _VectorPart(NamedTuple):
    """Encodes one leaf as a part of a vector."""

    low: np.ndarray
    high: np.ndarray
    encode: Callable[[np.ndarray], np.ndarray]


def observation_encoder(space: Space) -> ObservationEncoder:
    """Returns the encoder for an observation space.

    Raises:
        ValueError: The agent cannot observe any part of the space.
    """
    leaves = list(_leaves(space, ()))
    observable = [leaf for leaf in leaves if isinstance(leaf.space, OBSERVABLE)]
    ignored = tuple(
        f"{'.'.join(map(str, leaf.path)) or 'observation'} ({type(leaf.space).__name__})"
        for leaf in leaves
        if leaf not in observable
    )
    if not observable:
        raise ValueError(
            f"observation space must contain a Box, Discrete, MultiDiscrete or MultiBinary space; got {space}. "
            "Wrap the environment so that it returns arrays."
        )
    if any(0 in (leaf.space.shape or ()) for leaf in observable):
        raise ValueError(f"observation space must not be empty; got {space}.")
    if len(observable) == 1 and _is_image(observable[0].space):
        return _image_encoder(observable[0], ignored)
    parts = [(leaf, _vector_part(leaf.space)) for leaf in observable]

    def encode(batch: Any) -> np.ndarray:
        return np.concatenate(
            [part.encode(leaf.read(batch)) for leaf, part in parts], axis=1, dtype=np.float32
        )

    low = np.concatenate([part.low for _, part in parts], dtype=np.float32)
    high = np.concatenate([part.high for _, part in parts], dtype=np.float32)
    return ObservationEncoder(low, high, encode, ignored, observable[0].is_batch)


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(_batch_of_one, observation))
    return np.asarray(observation)[None]


def _leaves(space: Space, path: tuple[Any, ...]) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from _leaves(part, (*path, key))
    else:
        yield _Leaf(path, space)


def _is_image(space: Space) -> bool:
    return isinstance(space, spaces.Box) and (
        len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)
    )


def _image_encoder(leaf: _Leaf, ignored: tuple[str, ...]) -> ObservationEncoder:
    """Returns the encoder of a single image, as [height, width, channels]."""
    box = leaf.space
    assert isinstance(box, spaces.Box)
    dtype = np.uint8 if box.dtype == np.uint8 else np.float32

    def arrange(images: np.ndarray) -> np.ndarray:
        images = images.astype(dtype)
        if len(box.shape) == 2:
            return images[..., None]
        is_channels_first = box.shape[0] <= MAX_CHANNELS < box.shape[2]
        return np.moveaxis(images, -3, -1) if is_channels_first else images

    return ObservationEncoder(
        arrange(box.low), arrange(box.high), lambda batch: arrange(leaf.read(batch)), ignored, leaf.is_batch
    )


def _vector_part(space: Space) -> _VectorPart:
    """Returns the encoder of a leaf. Integers are one-hot encoded, because their order has no meaning."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.reshape(-1), np.asarray(space.start).reshape(-1))
    assert isinstance(space, spaces.Box | spaces.MultiBinary)
    is_box = isinstance(space, spaces.Box)
    low, high = (space.low, space.high) if is_box else (np.zeros(space.shape), np.ones(space.shape))
    return _VectorPart(low.reshape(-1), high.reshape(-1), _as_rows)


def _as_rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


def _one_hot(sizes: np.ndarray, starts: np.ndarray) -> _VectorPart:
    # Entry i of the vector is 1 if the integer `source[i]` of the observation equals `values[i]`.
    ranges = [start + np.arange(size) for size, start in zip(sizes, starts, strict=True)]
    values = np.concatenate(ranges, dtype=np.int64)
    source = np.repeat(np.arange(len(sizes)), sizes)

    def encode(integers: np.ndarray) -> np.ndarray:
        return _as_rows(integers)[:, source] == values

    return _VectorPart(np.zeros(len(values)), np.ones(len(values)), encode)

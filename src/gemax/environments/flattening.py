"""Observations of any space as arrays: a lone image stays an image, all else becomes a vector."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

MOST_CHANNELS = 4
"""An image whose first axis is no longer than this, and its last one is, has its channels first."""


class Flattening(NamedTuple):
    """What observations become."""

    low: np.ndarray
    high: np.ndarray
    """The box that each of them lies in: uint8 or float32 for images, float32 for vectors."""
    flatten: Callable[[Any], np.ndarray]
    """From a batch of observations, as Gymnasium's vector environments give it, to [batch, *shape]; always a copy."""
    left_out: tuple[str, ...]
    """Entries that an agent cannot read, such as text."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what one observation becomes: a vector, or height, width and channels."""
        return self.low.shape


class _Leaf(NamedTuple):
    """A part of an observation that is an array already, or a number."""

    path: tuple[Any, ...]
    space: Space

    def of(self, batch: Any) -> np.ndarray:
        for key in self.path:
            batch = batch[key]
        return np.asarray(batch)


class _Vector(NamedTuple):
    low: np.ndarray
    high: np.ndarray
    encode: Callable[[np.ndarray], np.ndarray]


def flattening_of(space: Space) -> Flattening:
    """How the observations of a space are flattened.

    Raises:
        ValueError: Nothing in it can be read.
    """
    leaves = list(_leaves(space, ()))
    readable = [leaf for leaf in leaves if isinstance(leaf.space, READABLE)]
    left_out = tuple(
        f"{'.'.join(map(str, leaf.path)) or 'observation'} ({type(leaf.space).__name__})"
        for leaf in leaves
        if not isinstance(leaf.space, READABLE)
    )
    if not readable:
        raise ValueError(
            f"observation space must have a Box, Discrete, MultiDiscrete or MultiBinary in it; got {space}. "
            "Wrap the environment in one that shows arrays."
        )
    if len(readable) == 1 and _is_image(readable[0].space):
        return _image(readable[0], left_out)
    parts = [(leaf, _vector(leaf.space)) for leaf in readable]

    def flatten(batch: Any) -> np.ndarray:
        return np.concatenate([part.encode(leaf.of(batch)) for leaf, part in parts], axis=1, dtype=np.float32)

    low = np.concatenate([part.low for _, part in parts], dtype=np.float32)
    high = np.concatenate([part.high for _, part in parts], dtype=np.float32)
    return Flattening(low, high, flatten, left_out)


def batch_of_one(observation: Any) -> Any:
    """An observation as the only one of a batch."""
    if isinstance(observation, dict):
        return {name: batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]


READABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def _leaves(space: Space, path: tuple[Any, ...]) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from _leaves(part, (*path, index))
    else:
        yield _Leaf(path, space)


def _is_image(space: Space) -> bool:
    return isinstance(space, spaces.Box) and (
        len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)
    )


def _image(leaf: _Leaf, left_out: tuple[str, ...]) -> Flattening:
    """Height, width and channels, in this order."""
    box = leaf.space
    assert isinstance(box, spaces.Box)
    dtype = np.uint8 if box.dtype == np.uint8 else np.float32

    def arrange(images: np.ndarray) -> np.ndarray:
        images = images.astype(dtype)
        if len(box.shape) == 2:
            return images[..., None]
        is_first = box.shape[0] <= MOST_CHANNELS < box.shape[2]
        return np.moveaxis(images, -3, -1) if is_first else images

    return Flattening(arrange(box.low), arrange(box.high), lambda batch: arrange(leaf.of(batch)), left_out)


def _vector(space: Space) -> _Vector:
    """Whole numbers become a one and zeros: they have no order that an agent should rely on."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.reshape(-1), np.asarray(space.start).reshape(-1))
    if isinstance(space, spaces.MultiBinary):
        return _Vector(np.zeros(space.shape).reshape(-1), np.ones(space.shape).reshape(-1), _in_rows)
    assert isinstance(space, spaces.Box)
    return _Vector(space.low.reshape(-1), space.high.reshape(-1), _in_rows)


def _in_rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


def _one_hot(sizes: np.ndarray, starts: np.ndarray) -> _Vector:
    # The value that each entry stands for, and which of the numbers it looks at.
    values = np.concatenate(
        [start + np.arange(size) for size, start in zip(sizes, starts, strict=True)], dtype=np.int64
    )
    number = np.repeat(np.arange(len(sizes)), sizes)

    def encode(numbers: np.ndarray) -> np.ndarray:
        return _in_rows(numbers)[:, number] == values

    return _Vector(np.zeros(len(values)), np.ones(len(values)), encode)

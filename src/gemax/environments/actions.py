"""Actions of a policy in the terms of an environment: counted from zero, or from -1 to 1, on this side."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from gymnasium import Space, spaces

from gemax.types import ActionSpec, ContinuousActions, FiniteActions

MOST_COMBINATIONS = 256
"""Up to so many combinations of several choices are taken for one choice, in which all of them are weighed together."""


class Translation(NamedTuple):
    """What a policy can do, and what that means to the environment."""

    spec: ActionSpec
    translate: Callable[[np.ndarray], np.ndarray]
    """From a batch of the policy's actions to those of the environments."""


def translation_of(space: Space) -> Translation:
    """How the actions of a space are chosen.

    Raises:
        ValueError: No policy of ours can act in it.
    """
    if isinstance(space, spaces.Discrete):
        start, dtype = int(space.start), space.dtype
        return Translation(FiniteActions((int(space.n),)), lambda action: (action + start).astype(dtype))
    if isinstance(space, spaces.MultiDiscrete):
        return _several(space.nvec, np.asarray(space.start), space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return _several(np.full(space.shape, 2), np.zeros(space.shape, int), space.dtype)
    if isinstance(space, spaces.Box):
        return _numbers(space)
    raise ValueError(f"action space must be Discrete, MultiDiscrete, MultiBinary or Box; got {space}.")


def _several(sizes: np.ndarray, starts: np.ndarray, dtype: np.dtype) -> Translation:
    shape, counts = sizes.shape, tuple(int(size) for size in sizes.reshape(-1))
    combinations = math.prod(counts)

    def translate(action: np.ndarray) -> np.ndarray:
        if combinations <= MOST_COMBINATIONS:
            action = np.stack(np.unravel_index(action, counts), axis=-1)
        return (action.reshape(-1, *shape) + starts).astype(dtype)

    is_one = combinations <= MOST_COMBINATIONS
    return Translation(FiniteActions((combinations,) if is_one else counts), translate)


def _numbers(space: spaces.Box) -> Translation:
    if not space.is_bounded() or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"action space must have finite bounds and floats; got {space}. "
            "Wrap the environment in gymnasium.wrappers.TransformAction."
        )
    middle, reach = (space.high + space.low) / 2, (space.high - space.low) / 2

    def translate(action: np.ndarray) -> np.ndarray:
        scaled = middle + reach * action.reshape(-1, *space.shape)
        return np.clip(scaled, space.low, space.high).astype(space.dtype)

    return Translation(ContinuousActions(math.prod(space.shape)), translate)

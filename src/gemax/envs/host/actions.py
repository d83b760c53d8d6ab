"""Converts actions of the policy into actions of a Gymnasium space.

Actions of the policy are indices from zero, or vectors with entries in [-1, 1].
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from gymnasium import Space, spaces

from gemax.types import ActionSpec, ContinuousActions, FiniteActions

MAX_COMBINATIONS = 256
"""A MultiDiscrete or MultiBinary space with at most this many combinations becomes one categorical choice."""


class ActionDecoder(NamedTuple):
    """The action space of the policy, and the conversion of its actions to actions of the environment."""

    spec: ActionSpec
    decode: Callable[[np.ndarray], np.ndarray]
    """Converts a batch of actions of the policy into actions of the environments."""


def action_decoder(space: Space) -> ActionDecoder:
    """Returns the decoder for an action space.

    Raises:
        ValueError: The policy does not support this action space.
    """
    if isinstance(space, spaces.Discrete):
        start, dtype = int(space.start), space.dtype
        return ActionDecoder(FiniteActions((int(space.n),)), lambda action: (action + start).astype(dtype))
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete(space.nvec, np.asarray(space.start), space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return _multi_discrete(np.full(space.shape, 2), np.zeros(space.shape, int), space.dtype)
    if isinstance(space, spaces.Box):
        return _box(space)
    raise ValueError(f"action space must be Discrete, MultiDiscrete, MultiBinary or Box; got {space}.")


def _multi_discrete(sizes: np.ndarray, starts: np.ndarray, dtype: np.dtype) -> ActionDecoder:
    shape, counts = sizes.shape, tuple(int(size) for size in sizes.reshape(-1))
    combinations = math.prod(counts)
    is_single = combinations <= MAX_COMBINATIONS

    def decode(action: np.ndarray) -> np.ndarray:
        if is_single:
            action = np.stack(np.unravel_index(action, counts), axis=-1)
        return (action.reshape(-1, *shape) + starts).astype(dtype)

    return ActionDecoder(FiniteActions((combinations,) if is_single else counts), decode)


def _box(space: spaces.Box) -> ActionDecoder:
    if not space.is_bounded() or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"a Box action space must have finite bounds and a float dtype; got {space}. "
            "Wrap the environment in gymnasium.wrappers.TransformAction."
        )
    if 0 in space.shape:
        raise ValueError(f"action space must not be empty; got {space}.")
    middle, half_range = (space.high + space.low) / 2, (space.high - space.low) / 2

    def decode(action: np.ndarray) -> np.ndarray:
        scaled = middle + half_range * action.reshape(-1, *space.shape)
        return np.clip(scaled, space.low, space.high).astype(space.dtype)

    return ActionDecoder(ContinuousActions(math.prod(space.shape)), decode)

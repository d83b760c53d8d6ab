"""The intrinsic reward that other people's environments and agents ask for, by its name."""

from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from jaxtyping import Int

from gemax.rewards.base import IntrinsicReward
from gemax.rewards.centred import centred
from gemax.training.methods import Surroundings, pixels_of_image, reward_of_method
from gemax.training.presets import configure

Method: TypeAlias = str | IntrinsicReward
"""The name of a method, or an intrinsic reward of one's own."""

METHODS = ("gem", "rnd", "ngu", "ngu-rnd", "none")


def module_for(
    method: Method,
    shape: tuple[int, ...],
    action_space: spaces.Space,
    *,
    horizon: int,
    few_worlds: bool,
    time_feature: int | None = None,
    settings: dict[str, Any],
) -> IntrinsicReward:
    """The intrinsic reward for observations of this shape. Those with a name pay `intrinsic_shift` on average, or zero.

    With `few_worlds`, GEM contrasts observations with recent ones from other episodes, in place of other worlds'.
    """
    if isinstance(method, IntrinsicReward):
        if settings:
            raise ValueError(f"an intrinsic reward of your own takes no settings; got {', '.join(settings)}.")
        return method
    if method not in METHODS:
        hint = (
            ""
            if method != "oracle"
            else " Only gemax's own worlds tell the true squares that the oracle counts."
        )
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, or an intrinsic reward of your own; got {method!r}.{hint}"
        )
    config = configure("your environment", **{"method": method, "intrinsic_shift": 0.0, **settings})
    surroundings = Surroundings(
        num_actions=_num_actions(method, action_space),
        horizon=horizon,
        num_squares=1,
        pixels_per_square=pixels_of_image(shape),
        time_feature=time_feature,
        few_worlds=few_worlds,
    )
    reward = reward_of_method(config, surroundings)
    return reward if method == "none" else centred(reward, config.intrinsic_shift)


def numbered(
    space: spaces.Space, actions: np.ndarray, shape: tuple[int, int]
) -> Int[np.ndarray, "time worlds"]:
    """Actions as numbers from zero, laid out by time and world; all zero where the space has none."""
    if not isinstance(space, spaces.Discrete):
        return np.zeros(shape, np.int32)
    return (np.asarray(actions).reshape(shape) - space.start).astype(np.int32)


def _num_actions(method: str, space: spaces.Space) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if method in ("ngu", "ngu-rnd"):
        raise ValueError(
            f"method {method} predicts which action was taken and needs a Discrete action space; got {space}. "
            "Use gem or rnd, which look at observations only."
        )
    return 1

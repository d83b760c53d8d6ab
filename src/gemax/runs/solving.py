"""When a run reaches a threshold, and from when on it stays there."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from gemax.training.config import NUM_RECENT_RETURNS, Config

TOLERANCE = 1e-6
"""Relative and absolute tolerance of comparisons with a threshold. The errors of float32 means are about 1e-7."""


class Crossings(NamedTuple):
    """Two positions in a curve that is compared with a threshold. None if there is no such position."""

    first: int | None
    """The first point that reaches the threshold."""
    held: int | None
    """The first point from which on all points reach the threshold, until the end."""


def reaches(values: float | Float[np.ndarray, "*points"], threshold: float) -> Bool[np.ndarray, "*points"]:
    """Returns whether values are at least the threshold, up to `TOLERANCE`. NaN does not reach it.

    In float32, a mean return of 0.95 is 0.949999988.
    """
    close = np.isclose(values, threshold, rtol=TOLERANCE, atol=TOLERANCE)
    return np.asarray(np.greater_equal(values, threshold) | close)


def reaches_goal(config: Config, line: dict[str, Any]) -> bool:
    """Returns whether a line of metrics reaches `stop_at_return`. False after fewer than 100 episodes."""
    goal, mean_return = config.run.stop_at_return, line.get("recent_return")
    if goal is None or mean_return is None or line["episodes"] < NUM_RECENT_RETURNS:
        return False
    return bool(reaches(mean_return, goal))


def find_crossings(is_reached: Bool[np.ndarray, " points"]) -> Crossings:
    """Returns the first crossing, and the crossing that is held until the end."""
    if not is_reached.any():
        return Crossings(None, None)
    below = np.flatnonzero(~is_reached)
    held = int(below[-1]) + 1 if len(below) else 0
    return Crossings(int(np.argmax(is_reached)), held if held < len(is_reached) else None)


def first_held(
    update: Float[np.ndarray, " points"], is_reached: Bool[np.ndarray, " points"], hold: float
) -> float:
    """Returns the first update from which on the threshold is reached for `hold` updates, or until the end, or inf."""
    below = update[~is_reached]
    for start in update[is_reached]:
        if not np.any((below > start) & (below <= start + hold)):
            return float(start)
    return float("inf")

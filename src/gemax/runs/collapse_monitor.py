"""Warns if the metrics indicate that the embedding f collapses, or that the agent loses a reward it had found."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gemax.training.config import NUM_RECENT_RETURNS

GRACE_UPDATES = 50
"""No warnings in the first updates, when f has hardly learned. A warning is not repeated within this many updates."""
MAX_SIMILARITY = 0.9
MAX_STATES_PER_FRAME = 1e5
"""Limit of `effective_states` per frame. In continuous environments thousands are harmless; at a million f learns
nothing."""
MAX_EMBEDDING_NORM = 1e3
MAX_LOST_SHARE = 0.5
"""A return that has lost more than this share of what it had gained since the start has fallen."""
RECOVERED_SHARE = 0.25
"""A return that misses at most this share of the gain has recovered, so that its next fall is reported again."""
MIN_STANDARD_ERRORS = 5.0
"""Gain and loss must exceed this many standard errors of a difference of two means. The peak is the highest of many
noisy means, so it lies two or three above the truth."""
FALL_UPDATES = 10
"""A fall is reported after this many updates, since it may recover."""
ADVICE = {
    "similarity_mean": "everything looks the same to f: raise huber_offset or lower adjacency_scale",
    "effective_states": "everything looks distinct to f: lower similarity_scale or raise adjacency_scale",
    "embedding_norm": "f grows without limit: raise embedding_penalty or lower reward_learning_rate",
}


def collapse_warnings(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Returns a warning for each metric beyond its limit. Empty for methods without a learned f."""
    if metrics["update"] <= GRACE_UPDATES or "embedding_norm" not in metrics:
        return {}
    limits = {
        "similarity_mean": MAX_SIMILARITY,
        "effective_states": MAX_STATES_PER_FRAME * metrics["frames"] / metrics["update"],
        "embedding_norm": MAX_EMBEDDING_NORM,
    }
    return {
        name: f"{name} is {metrics[name]:.3g}, {ADVICE[name]}."
        for name, limit in limits.items()
        if metrics.get(name) is not None and metrics[name] > limit
    }


class CollapseMonitor:
    """Filters warnings: one that continues is reported once."""

    def __init__(self) -> None:
        self._last_seen: dict[str, int] = {}

    def new_warnings(self, metrics: Mapping[str, Any]) -> list[str]:
        """Returns the warnings that did not occur in the last `GRACE_UPDATES` updates."""
        update, warnings = int(metrics["update"]), collapse_warnings(metrics)
        # A metric that oscillates around its limit has not recovered.
        new = [
            warning
            for name, warning in warnings.items()
            if name not in self._last_seen or update - self._last_seen[name] > GRACE_UPDATES
        ]
        self._last_seen |= dict.fromkeys(warnings, update)
        return new


class MeanReturn(NamedTuple):
    """The mean return of the last episodes after an update."""

    mean: float
    std: float
    """Standard deviation of these returns."""
    update: int


class ReturnMonitor:
    """Warns if the return falls far below its peak, because a policy that had found a reward has lost it.

    Args:
        run: Path of the run, named in the advice.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._start: MeanReturn | None = None
        self._peak: MeanReturn | None = None
        self._low_since: int | None = None
        self._has_warned = False

    def new_warnings(self, metrics: Mapping[str, Any]) -> list[str]:
        """Returns a warning if the return has been low for `FALL_UPDATES`. It is not repeated until a recovery."""
        now = _mean_return(metrics)
        if now is None:
            return []
        self._start = self._start or now
        self._peak = now if self._peak is None or now.mean > self._peak.mean else self._peak
        if _lost_share(self._start, self._peak, now) <= RECOVERED_SHARE:
            self._has_warned = False
        if not has_fallen(self._start, self._peak, now):
            self._low_since = None
            return []
        self._low_since = self._low_since or now.update
        if self._has_warned or now.update - self._low_since < FALL_UPDATES:
            return []
        self._has_warned = True
        return [fall_warning(self._run, self._peak, now)]


def has_fallen(start: MeanReturn, peak: MeanReturn, now: MeanReturn) -> bool:
    """Returns whether most of the gain since the start is lost, and neither gain nor loss can be noise."""
    standard_error = math.hypot(peak.std, now.std) / math.sqrt(NUM_RECENT_RETURNS)
    change = min(peak.mean - start.mean, peak.mean - now.mean)
    return change > MIN_STANDARD_ERRORS * standard_error and _lost_share(start, peak, now) > MAX_LOST_SHARE


def _lost_share(start: MeanReturn, peak: MeanReturn, now: MeanReturn) -> float:
    """Returns which share of its gain since the start the return has lost since its peak."""
    gain = peak.mean - start.mean
    return (peak.mean - now.mean) / gain if gain > 0 else 0.0


def _mean_return(metrics: Mapping[str, Any]) -> MeanReturn | None:
    """Returns the mean return of a line of metrics. None before enough episodes have ended."""
    mean, std = metrics.get("recent_return"), metrics.get("recent_return_std")
    if mean is None or std is None or metrics["episodes"] < NUM_RECENT_RETURNS:
        return None
    return MeanReturn(mean, std, int(metrics["update"]))


def fall_warning(run: Path, peak: MeanReturn, now: MeanReturn) -> str:
    """Returns the warning about a return that fell from its peak."""
    return (
        f"the return of the last {NUM_RECENT_RETURNS} episodes fell from {peak.mean:.3g} (update {peak.update}) to "
        f"{now.mean:.3g}: the policy is losing what it had learned. The best checkpoint keeps the earlier policy: "
        f"`gemax evaluate {run} --checkpoint best`. A lower learning_rate usually helps, in a new run or in one that "
        f"starts with `--from {run} --from-checkpoint best`."
    )

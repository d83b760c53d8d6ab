"""Warns if the metrics indicate that the embedding f collapses."""

from collections.abc import Mapping
from typing import Any

GRACE_UPDATES = 50
"""No warnings in the first updates, when f has hardly learned. A warning is not repeated within this many updates."""
MAX_SIMILARITY = 0.9
MAX_STATES_PER_FRAME = 1e5
"""Limit of `effective_states` per frame. In continuous environments thousands are harmless; at a million f learns
nothing."""
MAX_EMBEDDING_NORM = 1e3
ADVICE = {
    "similarity_mean": "everything looks the same to f: raise huber_offset or lower adjacency_scale",
    "effective_states": "everything looks distinct to f: lower similarity_scale or raise adjacency_scale",
    "embedding_norm": "f grows without limit: raise regularisation or lower reward_learning_rate",
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

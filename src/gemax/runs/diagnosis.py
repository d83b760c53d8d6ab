"""Whether the geometry that f learns has collapsed, read from the metrics."""

from collections.abc import Mapping
from typing import Any

FIRST_UPDATES = 50
"""Before these f has hardly learned anything: nothing is said of it."""
LARGEST_SIMILARITY = 0.9
STATES_A_FRAME = 1e5
"""How many states a frame may stand for: thousands do no harm in continuous worlds, at a million nothing is learned."""
LARGEST_NORM = 1e3


def diagnose(metrics: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong, in words, by the name of the metric that shows it; nothing where no f is learned."""
    if metrics["update"] <= FIRST_UPDATES or "embedding_norm" not in metrics:
        return {}
    most_states = STATES_A_FRAME * metrics["frames"] / metrics["update"]
    limits = {
        "similarity_mean": (
            LARGEST_SIMILARITY,
            "everything looks the same to f: raise huber_offset or lower adjacency_scale",
        ),
        "effective_states": (
            most_states,
            "everything looks distinct to f: lower similarity_scale or raise adjacency_scale",
        ),
        "embedding_norm": (
            LARGEST_NORM,
            "f grows without limit: raise regularisation or lower reward_learning_rate",
        ),
    }
    return {
        name: f"{name} is {metrics[name]:.3g}, {words}."
        for name, (limit, words) in limits.items()
        if metrics.get(name) is not None and metrics[name] > limit
    }


class Watchman:
    """Says what is wrong when it sets in, and once more only if it was well in between."""

    def __init__(self) -> None:
        self._last_seen: dict[str, int] = {}

    def news(self, metrics: Mapping[str, Any]) -> list[str]:
        """What was not wrong for a while, and is now."""
        update, wrong = int(metrics["update"]), diagnose(metrics)
        # A number that goes up and down around its limit has not recovered.
        news = [
            words
            for name, words in wrong.items()
            if name not in self._last_seen or update - self._last_seen[name] > FIRST_UPDATES
        ]
        self._last_seen |= dict.fromkeys(wrong, update)
        return news

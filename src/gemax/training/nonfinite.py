"""Updates with non-finite gradients: they are skipped and counted, and too many consecutive ones stop the run."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool

from gemax.errors import NumericalError
from gemax.training.collector import History
from gemax.training.state import TrainState
from gemax.types import Metrics, Tree, tree_where

MAX_CONSECUTIVE_NONFINITE = 10
"""Number of consecutive non-finite updates that stops a run, or freezes one seed of several."""
RETURNS = ("return", "recent_return", "recent_return_std")
"""Metrics that are undefined before the first episode ends."""
ADVICE = "The last good checkpoint is kept. A smaller learning_rate or reward_learning_rate may help."


def nonfinite_leaves(state: Tree, num_seeds: int = 1) -> list[str]:
    """Returns the names of arrays that are not finite. Of several seeds, arrays that are not finite in every seed.

    So a seed that is frozen does not keep the others from being saved.
    """

    def is_finite(leaf: Any) -> bool:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return True
        return bool(np.isfinite(np.asarray(leaf, np.float32)).reshape(num_seeds, -1).all(axis=1).any())

    leaves = jax.tree_util.tree_leaves_with_path(state)
    return [jax.tree_util.keystr(path) for path, leaf in leaves if not is_finite(leaf)]


def nonfinite_metrics(state: TrainState) -> Metrics:
    """Returns the number of all skipped updates, and of consecutive skipped updates up to now."""
    return {
        "skipped_updates": sum(_counters(state, "total_notfinite")) + jnp.zeros(()),
        "consecutive_nonfinite": _consecutive_nonfinite(state).astype(float),
    }


def update_unless_frozen(
    update: Callable[[TrainState], tuple[TrainState, Metrics]], state: TrainState
) -> tuple[TrainState, Metrics]:
    """Updates the state, unless too many consecutive updates were not finite. The metrics are then invalid."""
    following, metrics = update(state)
    is_frozen: Bool[Array, ""] = _consecutive_nonfinite(state) >= MAX_CONSECUTIVE_NONFINITE
    return tree_where(is_frozen, state, following), metrics


def _consecutive_nonfinite(state: TrainState) -> Array:
    return jnp.max(jnp.asarray(_counters(state, "notfinite_count")))


def _counters(state: TrainState, name: str) -> list[Array]:
    """Returns a counter of `optax.apply_if_finite` for every optimiser."""
    trees = (state.opt_state, state.reward)
    return [count for _, count in optax.tree_utils.tree_get_all_with_path(trees, name)]


def check_finite(history: History, last_update: int) -> None:
    """Stops a run of one seed after too many consecutive non-finite updates.

    Raises:
        NumericalError: The message gives the first of these updates and the metrics that were not finite.
    """
    (counts,) = history["consecutive_nonfinite"]
    if counts.max() < MAX_CONSECUTIVE_NONFINITE:
        return
    index = int(np.argmax(counts >= MAX_CONSECUTIVE_NONFINITE))
    names = nonfinite_names({name: values[0, index] for name, values in history.items()})
    message = nonfinite_message(last_update - len(counts) + index + 1, names)
    raise NumericalError(f"{message}. {ADVICE}")


def check_not_all_frozen(metrics_of_seeds: list[dict[str, float] | None], updates: np.ndarray) -> None:
    """Stops a run of several seeds once all of them are frozen.

    Raises:
        NumericalError: The message gives the metrics that were not finite in the seeds that were frozen last.
    """
    if not all(metrics is None or is_frozen(metrics) for metrics in metrics_of_seeds):
        return
    messages = [
        nonfinite_message(int(update), nonfinite_names(metrics))
        for metrics, update in zip(metrics_of_seeds, updates, strict=True)
        if metrics is not None
    ]
    raise NumericalError(f"all {len(metrics_of_seeds)} seeds are frozen: {'; '.join(messages)}. {ADVICE}")


def is_frozen(metrics: Mapping[str, float | None]) -> bool:
    """Returns whether a seed is frozen after the update with these metrics."""
    return (metrics["consecutive_nonfinite"] or 0) >= MAX_CONSECUTIVE_NONFINITE


def nonfinite_names(metrics: Mapping[str, float | None]) -> list[str]:
    """Returns the names of non-finite metrics, except returns, which are undefined before the first episode ends."""
    return [
        name
        for name, value in metrics.items()
        if name not in RETURNS and (value is None or not math.isfinite(value))
    ]


def nonfinite_message(update: int, names: list[str]) -> str:
    """Returns the message for consecutive non-finite updates. `update` is the last of them."""
    first = update - MAX_CONSECUTIVE_NONFINITE + 1
    return (
        f"{MAX_CONSECUTIVE_NONFINITE} consecutive updates were not finite, from update {first} on; "
        f"not finite: {', '.join(names) or 'a gradient'}"
    )

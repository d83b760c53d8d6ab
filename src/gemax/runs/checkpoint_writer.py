"""Writes the checkpoints of a run. A full disk stops the run only at the last checkpoint.

A state that is not finite is never written, so that the last good checkpoint is not replaced.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gemax.errors import CheckpointError
from gemax.runs.checkpoints import save_checkpoint
from gemax.runs.provenance import provenance
from gemax.runs.run_directory import RunDirectory
from gemax.training.config import Config
from gemax.training.nonfinite import nonfinite_leaves
from gemax.training.state import TrainState

MAX_LISTED_LEAVES = 3


def update_reached(state: TrainState) -> int:
    """Returns the number of updates done. Of several seeds, it is the largest: frozen seeds do not advance."""
    return int(np.max(state.update))


def save(run: RunDirectory, config: Config, state: TrainState, seconds: float) -> None:
    """Saves the state, the training time so far, the configuration and the provenance."""
    metadata = {"seconds": seconds, "config": config.to_json(), **provenance()}
    save_checkpoint(run.checkpoints, update_reached(state), state, metadata, config.run.keep_checkpoints)


def save_last(
    run: RunDirectory, config: Config, state: TrainState, seconds: float, log: Callable[[str], None]
) -> None:
    """Saves the final state. Logs a warning instead if it is not finite.

    Raises:
        CheckpointError: The checkpoint cannot be written.
    """
    if _warn_if_nonfinite(run, state, log):
        return
    try:
        save(run, config, state, seconds)
    except OSError as error:
        raise CheckpointError(
            f"{_failure(run, state, error)} Earlier checkpoints are kept: free some space and resume."
        ) from error


def save_or_warn(
    run: RunDirectory, config: Config, state: TrainState, seconds: float, log: Callable[[str], None]
) -> None:
    """Saves the state, or logs a warning if the disk is full or the state not finite. Earlier checkpoints are kept."""
    if _warn_if_nonfinite(run, state, log):
        return
    try:
        save(run, config, state, seconds)
    except OSError as error:
        log(f"Warning: {_failure(run, state, error)} Training continues without it.")


def bytes_needed(config: Config, state: TrainState) -> int:
    """Returns the disk space for the checkpoints that a run keeps, the best one, and one more that is being written.

    Several seeds also get one checkpoint each at the end. Together these are as large as one checkpoint of all seeds.
    """
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return size * (config.run.keep_checkpoints + 2 + (config.run.seeds > 1))


def rounding_warnings(metadata: dict[str, Any]) -> list[str]:
    """Returns a warning for each difference to the machine of a checkpoint that changes rounding errors."""
    now = provenance()
    return [
        f"Not bit-exact: the checkpoint was written with {name} {metadata.get(name)}, this is {now[name]}."
        for name in ("jax", "jaxlib", "cores")
        if metadata.get(name) != now[name]
    ]


def _warn_if_nonfinite(run: RunDirectory, state: TrainState, log: Callable[[str], None]) -> bool:
    names = nonfinite_leaves(state, np.size(state.update))
    if names:
        listed = ", ".join(names[:MAX_LISTED_LEAVES]) + (", …" if len(names) > MAX_LISTED_LEAVES else "")
        log(
            f"Warning: the state of update {update_reached(state)} is not finite and not written to "
            f"{run.checkpoints} ({listed}). The last good checkpoint is kept."
        )
    return bool(names)


def _failure(run: RunDirectory, state: TrainState, error: OSError) -> str:
    return f"the checkpoint of update {update_reached(state)} could not be written to {run.checkpoints}: {error}."

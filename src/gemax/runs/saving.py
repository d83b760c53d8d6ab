"""The checkpoints of a run as it goes on: one that does not fit on the disk costs no more than itself."""

import math
from collections.abc import Callable
from typing import Any

import jax

from gemax.runs.checkpoints import CheckpointError, save_checkpoint
from gemax.runs.directory import RunDirectory
from gemax.runs.provenance import provenance
from gemax.runs.seeds import shapes, update_reached
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.state import TrainState


def save(run: RunDirectory, config: Config, state: TrainState, seconds: float) -> None:
    """Saves the state, and how long it took to get there."""
    facts = {"seconds": seconds, **provenance()}
    save_checkpoint(run.checkpoints, update_reached(state), state, facts, keep=config.keep_checkpoints)


def save_the_last(run: RunDirectory, config: Config, state: TrainState, seconds: float) -> None:
    """Saves the state that a run ends with, or says that it could not."""
    try:
        save(run, config, state, seconds)
    except OSError as error:
        words = _not_written(run, state, error)
        raise CheckpointError(f"{words} The ones before it are kept: make room and resume.") from error


def save_or_tell(
    run: RunDirectory, config: Config, state: TrainState, seconds: float, tell: Callable[[str], None]
) -> None:
    """A full disk must not end a run: the checkpoint before is still there, and the next one may fit."""
    try:
        save(run, config, state, seconds)
    except OSError as error:
        words = _not_written(run, state, error)
        tell(f"Warning: {words} Training goes on; the next checkpoint is tried in its turn.")


def space_needed(trainer: Trainer) -> int:
    """Bytes of the checkpoints that a run will keep, and of one more that is being written.

    At its end every seed of a group has one of its own: as much again as one of the group.
    """
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes(trainer)))
    return size * (trainer.config.keep_checkpoints + 1 + (trainer.config.seeds > 1))


def not_bit_exact(facts: dict[str, Any]) -> list[str]:
    """What differs from the machine that wrote the checkpoint, as far as it changes rounding."""
    now = provenance()
    return [
        f"Not bit for bit: the checkpoint was written with {name} {facts.get(name)}, this is {now[name]}."
        for name in ("jax", "jaxlib", "cores")
        if facts.get(name) != now[name]
    ]


def _not_written(run: RunDirectory, state: TrainState, error: OSError) -> str:
    update = update_reached(state)
    return f"the checkpoint of update {update} could not be written to {run.checkpoints}: {error}."

"""The best checkpoint of every seed: its state when the mean return of its last 100 episodes was highest.

A new best state is copied in memory after the compiled call that found it, and written before the next checkpoint. So
it is written at most as often as the other checkpoints, and a policy that was good for a few updates is not lost.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gemax.runs.checkpoint_format import DamagedCheckpointError
from gemax.runs.checkpoints import NoBestError, read_best, save_best
from gemax.runs.metrics_file import read_metrics
from gemax.runs.provenance import provenance
from gemax.runs.run_directory import RunDirectory
from gemax.runs.summary import Line
from gemax.training.config import NUM_RECENT_RETURNS, Config
from gemax.training.learn import Trainer
from gemax.training.loop import state_of_seed
from gemax.training.nonfinite import nonfinite_leaves
from gemax.training.state import TrainState

TOLERANCE = 1e-6
"""Relative rounding error of a mean return in float32."""


class BestState(NamedTuple):
    """The best state so far, or where it stands on the disk."""

    update: int
    recent_return: float
    seconds: float
    """Training time up to this state."""
    state: TrainState | None
    """A copy of the state. None if it is on the disk."""


class BestCheckpoint:
    """Finds, copies and writes the best state of one seed.

    Args:
        run: Directory of the seed. A best checkpoint in it is the best so far.
        log: Called with messages.
    """

    def __init__(self, run: RunDirectory, log: Callable[[str], None]) -> None:
        self._run, self._log = run, log
        self._best = _best_on_disk(run, log)

    def consider(self, line: Line, copy_state: Callable[[], TrainState]) -> None:
        """Copies the state if its return is higher than the best so far."""
        if self._best is not None and not _is_higher(line["recent_return"], self._best.recent_return):
            return
        if missing_requirement(line) is None:
            state = copy_state()
            if not nonfinite_leaves(state):
                self._best = BestState(line["update"], line["recent_return"], line["seconds"], state)

    def write(self) -> None:
        """Writes the best state, unless it is on the disk already. A failure is logged, and the copy is kept."""
        best = self._best
        if best is None or best.state is None:
            return
        metadata = {"seconds": best.seconds, "recent_return": best.recent_return, **provenance()}
        try:
            save_best(self._run.checkpoints, best.update, best.state, metadata)
        except OSError as error:
            self._log(
                f"Warning: the best checkpoint, of update {best.update}, could not be written to "
                f"{self._run.checkpoints}: {error}. The next checkpoint tries it again."
            )
        else:
            self._best = best._replace(state=None)

    def summary(self) -> dict[str, Any]:
        """Returns the fields of `summary.json` that describe the best checkpoint."""
        best = self._best
        return {
            "best_update": None if best is None else best.update,
            "best_return": None if best is None else best.recent_return,
        }


class BestCheckpoints:
    """The best checkpoints of all seeds of a run. A reward-free run has none, because its agent sees no return.

    Args:
        trainer: The parts of the run.
        seeds: Directory of each seed.
        log: Called with messages.
    """

    def __init__(self, trainer: Trainer, seeds: dict[int, RunDirectory], log: Callable[[str], None]) -> None:
        self._trainer = trainer
        is_free = trainer.config.env.reward_free
        self._seeds = {} if is_free else {seed: BestCheckpoint(run, log) for seed, run in seeds.items()}

    def consider(self, lines: dict[int, Line], state: TrainState) -> None:
        """Copies the states of seeds whose return is higher than ever, given the line of each seed's metrics."""
        for seed in lines.keys() & self._seeds.keys():
            self._seeds[seed].consider(lines[seed], lambda seed=seed: self._copy(state, seed))

    def write(self) -> None:
        """Writes the best states that are not on the disk yet."""
        for best in self._seeds.values():
            best.write()

    def summary(self, seed: int) -> dict[str, Any]:
        """Returns the fields of `summary.json` that describe the best checkpoint of a seed."""
        return self._seeds[seed].summary() if self._seeds else {}

    def _copy(self, state: TrainState, seed: int) -> TrainState:
        # The next compiled call overwrites the memory of the state.
        return jax.tree.map(_copy_to_host, state_of_seed(self._trainer, state, seed))


def _copy_to_host(leaf: jax.Array) -> np.ndarray | jax.Array:
    """Copies a leaf as a NumPy array, which is faster than as a JAX array. NumPy has no random keys."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jnp.array(leaf) if is_key else np.array(leaf)


def missing_requirement(line: Line) -> str | None:
    """Returns why the state after this line of metrics cannot be the best one, or None if it can be."""
    mean, spread = line.get("recent_return"), line.get("recent_return_std")
    if line["episodes"] < NUM_RECENT_RETURNS:
        return f"{line['episodes']:.0f} of the {NUM_RECENT_RETURNS} episodes that it needs have ended"
    if mean is None or spread is None or not math.isfinite(mean):
        return "the return is not finite"
    if spread <= TOLERANCE * abs(mean) and math.isclose(line["return"], mean, rel_tol=TOLERANCE):
        return f"all episodes had the same return, {mean:.4g}"
    return None


def why_there_is_no_best(run: RunDirectory, config: Config) -> str:
    """Returns an error message for a run without a best checkpoint: the reason, and what to do."""
    if config.env.reward_free:
        return (
            f"{run.path} has no best checkpoint: that is the one with the highest return, and this run was trained "
            "reward-free. Choose the newest one."
        )
    lines = read_metrics(run.metrics)
    reason = missing_requirement(lines[-1]) if lines else "nothing has been logged yet"
    reason = reason or "the best state so far is written together with the next checkpoint"
    return f"{run.path} has no best checkpoint yet: {reason}. Choose the newest one, or train the run for longer."


def _best_on_disk(run: RunDirectory, log: Callable[[str], None]) -> BestState | None:
    try:
        update, _, metadata = read_best(run.checkpoints)
        return BestState(update, float(metadata["recent_return"]), float(metadata["seconds"]), None)
    except NoBestError:
        return None
    except (DamagedCheckpointError, KeyError, TypeError, ValueError) as damage:
        log(
            f"The best checkpoint in {run.checkpoints} is damaged: {damage}. The next best state replaces it."
        )
        return None


def _is_higher(value: float | None, best: float) -> bool:
    return value is not None and value > best + TOLERANCE * max(abs(value), abs(best))

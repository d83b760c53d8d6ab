"""A training run from start to end: train → metrics → checkpoints → summary and plots."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax

from gemax.core.ceiling import entropy_ceiling, num_operations
from gemax.errors import CheckpointError, ClusterError, EnvFault
from gemax.runs.best_checkpoint import BestCheckpoints
from gemax.runs.checkpoint_writer import (
    bytes_needed,
    rounding_warnings,
    save,
    save_last,
    save_or_warn,
    update_reached,
)
from gemax.runs.checkpoints import Checkpoint, delete_later, load_checkpoint
from gemax.runs.free_memory import release_free_memory
from gemax.runs.metric_logger import MetricLogger
from gemax.runs.metrics_file import read_metrics, rewind_metrics
from gemax.runs.paths import check_space, free_path
from gemax.runs.run_directory import RunDirectory, RunLostError, check_in_place, create_run, resume_run
from gemax.runs.seed_directories import check_not_grouped, new_run_path, open_seed_directories
from gemax.runs.sinks import OpenSink, combine_sinks
from gemax.runs.snapshots.writer import SnapshotWriter
from gemax.runs.solving import reaches_goal
from gemax.runs.stored_config import changed_config, check_not_edited, read_trusted_config
from gemax.runs.summary import Line, summary_of_group, summary_of_seed
from gemax.runs.warm_start import first_state
from gemax.stopping import Stopped, StopRequest, catch_stop_signals, check_stop
from gemax.training.assemble import CustomParts, assemble
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.loop import state_shapes, states_by_seed, train
from gemax.training.state import TrainState

Callback: TypeAlias = Callable[[dict[str, Any]], None]
"""Called with the metrics of every compiled call."""
Log: TypeAlias = Callable[[str], None]
"""Called with messages for the user."""
Place: TypeAlias = Callable[[Trainer], Trainer]
"""Returns a trainer with another collector, which acts and learns elsewhere."""
LARGE_MAP = 1_000
"""Characters of a map whose states take seconds to enumerate."""


class Outcome(NamedTuple):
    """The directory of a run, and how it ended."""

    path: Path
    summary: dict[str, Any]
    stop_signal: int | None
    """Number of the signal that stopped the run early, or None."""


LATE_SECONDS = 0.7
"""Time after a stop signal from which on no plot is begun. The run should end within two seconds."""
SLOW_OPERATIONS = 10**6
"""A ceiling with more operations per iteration takes more than a few seconds."""


class Hooks(NamedTuple):
    """Receivers of messages and metrics, and optional outputs of a run."""

    log: Log = print
    callback: Callback | None = None
    sinks: Sequence[OpenSink] = ()
    plots: bool = True
    """Whether plots are written at the end."""
    place: Place = lambda trainer: trainer
    """Decides where the run executes. The default is this process."""
    snapshots: bool = True
    """Whether snapshots for `gemax view` are written during training."""


class Session(NamedTuple):
    """The open run that `_train` works on."""

    trainer: Trainer
    run: RunDirectory
    seeds: dict[int, RunDirectory]
    """Directory of each seed. For a single seed it is the run directory."""
    ceiling: float | None
    """Maximum visitation entropy, if it is known."""
    best: BestCheckpoints
    hooks: Hooks


def start_run(
    config: Config, out: Path | None = None, custom: CustomParts | None = None, hooks: Hooks | None = None
) -> Outcome:
    """Trains a new run in a new run directory."""
    hooks = _tolerant(hooks or Hooks())
    for name in ("grouped", "start_update"):
        if getattr(config.run, name):
            raise ValueError(f"{name} is set by gemax itself. Leave it out.")
    path = new_run_path(config, out)
    with catch_stop_signals() as stop:
        if len(config.env.map_text) > LARGE_MAP:
            hooks.log("The map is large. Enumerating its states …")
        trainer = hooks.place(assemble(config, custom))
        check_stop()
        hooks.log(f"Run directory: {path}")
        trainer, state = first_state(trainer, hooks.log)
        check_space(path, bytes_needed(trainer.config, state))
        check_stop()
        path.parent.mkdir(parents=True, exist_ok=True)
        with create_run(path, trainer.config.to_json()) as run:
            session = _open_session(trainer, run, hooks)
            # Saved at once: a run that is killed early can then be resumed without the run that it started from.
            save(run, trainer.config, state, seconds=0.0)
            return _train(session, state, 0.0, stop)


def resume(
    path: Path,
    changes: Mapping[str, Any] | None = None,
    custom: CustomParts | None = None,
    hooks: Hooks | None = None,
    checkpoint: Checkpoint = "newest",
) -> Outcome:
    """Resumes a run, with some settings changed that `stored_config` allows.

    If the checkpoint is not the newest one, the metrics and checkpoints after it are deleted.
    """
    hooks = _tolerant(hooks or Hooks())
    with catch_stop_signals() as stop, resume_run(path) as run:
        config = read_trusted_config(run, custom)
        check_not_grouped(path, config)
        changed = changed_config(config, changes or {})
        trainer = hooks.place(assemble(changed, custom))
        check_stop()
        if not any(run.checkpoints.glob("update-*")) and not read_metrics(run.metrics):
            hooks.log("Nothing was saved yet. The run starts from the beginning.")
            trainer, state = first_state(trainer, hooks.log)
            run.write_config(trainer.config.to_json())
            reached, seconds, messages = 0, 0.0, []
        else:
            loaded = load_checkpoint(run.checkpoints, state_shapes(trainer), checkpoint)
            check_not_edited(run, config, loaded.metadata)
            reached, seconds = loaded.update, float(loaded.metadata.get("seconds", 0.0))
            # The loop overwrites the memory of its state, so NumPy arrays are copied.
            state = jax.tree.map(jax.numpy.array, loaded.tree)
            messages = [*loaded.messages, *rounding_warnings(loaded.metadata)]
            if checkpoint != "newest":
                messages += delete_later(run.checkpoints, reached)
        _check_updates(path, changed, reached, is_changed=changed.run.updates != config.run.updates)
        run.write_config(trainer.config.to_json())
        session = _open_session(trainer, run, hooks)
        if reached >= trainer.config.run.updates:
            hooks.log(f"Already at {reached} of {trainer.config.run.updates} updates.")
        for message in [*run.messages, *messages, *_rewind_metrics(session, reached)]:
            hooks.log(message)
        return _train(session, state, seconds, stop)


def _tolerant(hooks: Hooks) -> Hooks:
    """Returns the hooks with a log that cannot end the run if its stream is closed, full or not UTF-8."""

    def log(message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            hooks.log(message)

    return hooks._replace(log=log)


def _open_session(trainer: Trainer, run: RunDirectory, hooks: Hooks) -> Session:
    for note in trainer.spec.notes:
        hooks.log(note)
    seeds = open_seed_directories(run, trainer.config)
    best = BestCheckpoints(trainer, seeds, hooks.log)
    return Session(trainer, run, seeds, ceiling_of(trainer, hooks.log), best, hooks)


def ceiling_of(trainer: Trainer, log: Log = print) -> float | None:
    """Returns the maximum visitation entropy of a finite environment, without its reward."""
    if trainer.finite is None:
        return None
    model = trainer.finite.reward_free_model
    if num_operations(model) > SLOW_OPERATIONS:
        log(
            f"Computing the largest possible entropy of {len(model.start):,} states, which can take minutes …"
        )
    return entropy_ceiling(model, callback=check_stop).entropy


def _check_updates(path: Path, config: Config, reached: int, *, is_changed: bool) -> None:
    """Raises ValueError if a new number of updates is not more than the run has done."""
    if is_changed and config.run.updates <= reached:
        raise ValueError(
            f"updates must be more than the {reached} that {path} has reached; got {config.run.updates}."
        )


def _rewind_metrics(session: Session, update: int) -> list[str]:
    """Drops the metrics of the run and of its seeds after an update. Returns messages."""
    messages = rewind_metrics(session.run.metrics, update)
    if session.trainer.config.run.seeds > 1:
        for directory in session.seeds.values():
            messages += [*directory.messages, *rewind_metrics(directory.metrics, update)]
    return messages


def _train(session: Session, state: TrainState, seconds_before: float, stop: StopRequest) -> Outcome:
    """Trains to the end or until a stop signal, and writes metrics, checkpoints, summary and plots."""
    trainer, run, best, hooks = session.trainer, session.run, session.best, session.hooks
    log = hooks.log
    config, started = trainer.config, time.monotonic()
    saved, seconds = update_reached(state), seconds_before
    with contextlib.ExitStack() as stack:
        is_done = saved >= config.run.updates
        opened = [] if is_done else [open_sink(run, saved + 1) for open_sink in hooks.sinks]
        sink = combine_sinks(opened)
        stack.callback(sink.close)
        # Whatever ends the run, an error too, the best state is not lost.
        stack.callback(best.write)
        metric_logger = MetricLogger(trainer, run, session.seeds, sink, session.ceiling, log)
        stack.callback(metric_logger.close)
        snapshots = None
        if hooks.snapshots and not is_done:
            snapshots = SnapshotWriter(trainer, session.seeds, saved, log)
            stack.callback(snapshots.close)
        try:
            for state, metrics in train(trainer, state):  # noqa: B020 (continues from the argument)
                # Read once: a signal that arrives later in this round is handled in the next one.
                is_stopping = stop.signal is not None
                update, seconds = update_reached(state), seconds_before + time.monotonic() - started
                check_in_place(run)
                logged = metric_logger.write(state, seconds, metrics)
                if snapshots is not None and not is_stopping:
                    snapshots.consider(state)
                best.consider(logged.seeds, state)
                is_at_goal = all(reaches_goal(config, line) for line in logged.seeds.values())
                if is_stopping or is_at_goal or update >= config.run.updates:
                    best.write()
                    save_last(run, config, state, seconds, log)
                elif update // config.run.checkpoint_every > saved // config.run.checkpoint_every:
                    # Before the checkpoint: a run that is killed between both finds the best state again.
                    best.write()
                    # Without its metrics, a run that is resumed from the checkpoint would have a gap.
                    if metric_logger.flush():
                        save_or_warn(run, config, state, seconds, log)
                    release_free_memory()
                    saved = update
                if hooks.callback is not None:
                    hooks.callback(logged.run)
                if hooks.plots:
                    _import_plots()
                if is_stopping or is_at_goal:
                    break
        except Stopped:
            # Raised in the middle of a rollout in a host environment, which a resumed run starts again.
            best.write()
            save_last(run, config, state, seconds, log)
        except RunLostError as lost:
            raise _rescue(session, state, seconds, lost) from lost
        except (EnvFault, ClusterError) as fault:
            if stop.signal is None:
                raise _save_fault(session, state, seconds, fault) from fault
            # The signal may also have stopped the processes of the environments, which is not an error.
            log(str(fault))
            best.write()
            save_last(run, config, state, seconds, log)
        if snapshots is not None:
            snapshots.finish(state, wait=stop.signal is None)
    summary = _write_results(session, state, seconds, stop)
    return Outcome(run.path, summary, stop.signal if summary["status"] == "stopped" else None)


def _save_fault(
    session: Session, state: TrainState, seconds: float, fault: EnvFault | ClusterError
) -> Exception:
    """Saves the last state before an environment failed. Returns the error with instructions to resume."""
    session.best.write()
    save_last(session.run, session.trainer.config, state, seconds, session.hooks.log)
    _write_results(session, state, seconds, StopRequest())
    advice = "fix the environment" if isinstance(fault, EnvFault) else "repair the cluster"
    return type(fault)(
        f"{fault} The state of update {update_reached(state)} is saved: {advice}, then "
        f"`gemax resume {session.run.path}`."
    )


def _rescue(session: Session, state: TrainState, seconds: float, lost: RunLostError) -> RunLostError:
    """Saves the state beside a run directory that is gone. Returns the error with the path of the copy."""
    config, path = session.trainer.config, session.run.path
    try:
        with create_run(free_path(path.parent, f"{path.name}-rescued"), config.to_json()) as rescued:
            save(rescued, config, state, seconds)
    except OSError as error:
        return RunLostError(f"{lost} Its state could not be saved elsewhere: {error}")
    return RunLostError(
        f"{lost} The state of update {update_reached(state)} is saved: `gemax resume {rescued.path}`."
    )


def _import_plots() -> None:
    """Imports Matplotlib, which takes half a second. Called after an update, so that the first one need not wait.

    After a stop signal, there is no time for it.
    """
    import gemax.runs.plots  # noqa: F401


def _write_results(session: Session, state: TrainState, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """Writes summary and plots, or says that the disk is full. Returns the summary of the run."""
    try:
        states = states_by_seed(session.trainer, state)
        # Read from the file, which also holds metrics from before the run was resumed.
        lines = {seed: read_metrics(directory.metrics) for seed, directory in session.seeds.items()}
        summary = _write_summaries(session, states, lines, seconds)
        if session.hooks.plots:
            _write_plots(session, states, lines, stop)
        return summary
    except OSError as error:
        raise CheckpointError(f"{error}. The checkpoints are kept: free some space and resume.") from error


def _write_summaries(
    session: Session, states: dict[int, TrainState], lines: dict[int, list[Line]], seconds: float
) -> dict[str, Any]:
    """Writes the summary of every seed and of the run. Returns the summary of the run."""
    trainer, run, ceiling = session.trainer, session.run, session.ceiling
    config, summaries = trainer.config, {}
    updates = {seed: update_reached(state) for seed, state in states.items()}
    for seed, directory in session.seeds.items():
        if config.run.seeds > 1:
            save_last(directory, config, states[seed], seconds, session.hooks.log)
        summaries[seed] = summary_of_seed(trainer, lines[seed], updates[seed], seconds, ceiling)
        summaries[seed] |= session.best.summary(seed)
        directory.write_summary(summaries[seed])
    if config.run.seeds == 1:
        return summaries[config.run.seed]
    means, update = read_metrics(run.metrics), max(updates.values())
    summary = summary_of_group(trainer, means, update, seconds, ceiling, summaries)
    run.write_summary(summary)
    return summary


def _write_plots(
    session: Session, states: dict[int, TrainState], lines: dict[int, list[Line]], stop: StopRequest
) -> None:
    """Writes the plots of the run and of every seed.

    A run that is stopped must end soon: it writes its learning curve and its heatmap only, and neither of them if
    `LATE_SECONDS` have passed since the signal.
    """

    def is_late() -> bool:
        return is_stopping and stop.age > LATE_SECONDS

    is_stopping = stop.signal is not None
    if is_late():
        session.hooks.log("No plots were written, to stop sooner. They are written when the run is resumed.")
        return
    from gemax.runs.plots import write_group_plots, write_plots

    trainer, run, ceiling = session.trainer, session.run, session.ceiling
    is_group = trainer.config.run.seeds > 1
    if is_group or is_stopping:
        lines_of_seeds = list(lines.values()) if is_group else []
        means = read_metrics(run.metrics)
        write_group_plots(run.path, trainer, list(states.values()), means, lines_of_seeds, ceiling, is_late)
    if not is_stopping:
        for seed, directory in session.seeds.items():
            write_plots(directory.path, trainer, states[seed], lines[seed], ceiling)

"""A training run from its first byte to its last: train → metrics → checkpoints → summary and pictures."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gemax.core.ceiling import entropy_ceiling
from gemax.environments.base import Environment
from gemax.environments.faults import EnvironmentFault
from gemax.runs.checkpoints import load_checkpoint
from gemax.runs.directory import RunDirectory, check_space, create_run, read_metrics, resume_run
from gemax.runs.journal import Journal
from gemax.runs.pictures import draw_group_pictures, draw_pictures
from gemax.runs.saving import not_bit_exact, save, save_or_tell, save_the_last, space_needed
from gemax.runs.seeds import (
    open_seeds,
    refuse_seed_of_group,
    refuse_taken,
    shapes,
    states_of_seeds,
    train_seeds,
    update_reached,
)
from gemax.runs.signals import listening
from gemax.runs.sinks import OpenSink, all_of, jsonl_sink
from gemax.runs.starting import begin_run
from gemax.runs.summary import summary_of_group, summary_of_seed
from gemax.training.assemble import Own, assemble
from gemax.training.config import config_from
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

Watch = Callable[[dict[str, Any]], None]
"""Is shown the metrics of every compiled call."""
Tell = Callable[[str], None]
"""Is told what a user should know."""


class Run(NamedTuple):
    """A run on disk, and how it ended."""

    path: Path
    summary: dict[str, Any]
    stopped_by: int | None
    """The signal that stopped it before its end."""


@dataclasses.dataclass(frozen=True)
class Session:
    """What a run is driven with, from wherever it starts."""

    trainer: Trainer
    run: RunDirectory
    seeds: dict[int, RunDirectory]
    """The directory of each seed; of a lone one, the run itself."""
    ceiling: float | None
    """The largest entropy of visits; None where there are no squares."""
    pictures: bool
    """Whether any are drawn in the end."""
    tell: Tell


def start_run(
    trainer: Trainer,
    path: Path,
    *,
    watch: Watch | None = None,
    sinks: Sequence[OpenSink] = (),
    pictures: bool = True,
    tell: Tell = print,
) -> Run:
    """Trains from the beginning, into a new run directory."""
    config = trainer.config
    if config.grouped:
        raise ValueError("grouped is for gemax to set, on the seeds of a group. Set seeds to train several.")
    if config.start_update:
        raise ValueError(
            "start_update is for gemax to set: a run starts with the newest checkpoint of start_from. "
            "Leave it out."
        )
    refuse_taken(path, config)
    check_space(path, space_needed(trainer))
    trainer, state, messages = begin_run(trainer)
    for message in messages:
        tell(message)
    path.parent.mkdir(parents=True, exist_ok=True)
    with create_run(path, dataclasses.asdict(trainer.config)) as run:
        session = _session(trainer, run, tell, pictures)
        # Saved at once, so that a run can be resumed whenever it is killed, and needs no other run to go on from.
        save(run, config, state, seconds=0.0)
        return _drive(session, state, 0.0, watch, sinks)


def resume(
    path: Path,
    *,
    updates: int | None = None,
    own: Own | None = None,
    watch: Watch | None = None,
    sinks: Sequence[OpenSink] = (),
    pictures: bool = True,
    tell: Tell = print,
) -> Run:
    """Goes on with a run from its newest good checkpoint, bit for bit; to another number of updates if one is given."""
    refuse_seed_of_group(path)
    with resume_run(path) as run:
        for message in run.messages:
            tell(message)
        trainer = assemble(config_from(run.read_config()), own=own)
        if not any(run.checkpoints.glob("update-*")) and not read_metrics(run.metrics):
            tell("Nothing was saved yet: this run starts from its beginning.")
            trainer, state, messages = begin_run(trainer)
            run.write_config(dataclasses.asdict(trainer.config))
            for message in messages:
                tell(message)
            session = _session(_prolonged(trainer, run, 0, updates), run, tell, pictures)
            return _drive(session, state, 0.0, watch, sinks)
        loaded = load_checkpoint(run.checkpoints, shapes(trainer))
        session = _session(_prolonged(trainer, run, loaded.update, updates), run, tell, pictures)
        if loaded.update >= session.trainer.config.updates:
            tell(f"Already at {loaded.update} of {session.trainer.config.updates} updates.")
        for message in [*loaded.messages, *_rewound(session, loaded.update), *not_bit_exact(loaded.facts)]:
            tell(message)
        # The loop donates its state: numpy arrays become buffers of their own.
        state = jax.tree.map(jax.numpy.array, loaded.tree)
        return _drive(session, state, float(loaded.facts["seconds"]), watch, sinks)


def _session(trainer: Trainer, run: RunDirectory, tell: Tell, pictures: bool) -> Session:
    seeds = open_seeds(run, trainer.config)
    if isinstance(trainer.world, Environment):
        for note in trainer.world.notes:
            tell(note)
    finite = trainer.world.finite
    ceiling = None if finite is None else entropy_ceiling(finite.reward_free_model).entropy
    return Session(trainer, run, seeds, ceiling, pictures, tell)


def _prolonged(trainer: Trainer, run: RunDirectory, reached: int, updates: int | None) -> Trainer:
    """The trainer with another number of updates, which is the run's from now on."""
    if updates is None or updates == trainer.config.updates:
        return trainer
    if updates <= reached:
        raise ValueError(
            f"updates must be more than the {reached} that {run.path} has reached; got {updates}."
        )
    config = dataclasses.replace(trainer.config, updates=updates)
    run.write_config(dataclasses.asdict(config))
    return trainer._replace(config=config)


def _rewound(session: Session, update: int) -> list[str]:
    """Forgets what was logged after an update, in the run and in its seeds; gives the messages."""
    messages = session.run.rewind_metrics(update)
    if session.trainer.config.seeds > 1:
        for directory in session.seeds.values():
            messages += [*directory.messages, *directory.rewind_metrics(update)]
    return messages


def _drive(
    session: Session,
    state: TrainState,
    seconds_before: float,
    watch: Watch | None,
    sinks: Sequence[OpenSink],
) -> Run:
    trainer, run, tell = session.trainer, session.run, session.tell
    config, started = trainer.config, time.monotonic()
    saved, seconds = update_reached(state), seconds_before
    with contextlib.ExitStack() as at_the_end, listening() as stop:
        others = [] if saved >= config.updates else [open_sink(run, saved + 1) for open_sink in sinks]
        sink = all_of([jsonl_sink(run), *others])
        at_the_end.callback(sink.close)
        journal = Journal(trainer, session.seeds, sink, session.ceiling, tell)
        try:
            for state, numbers in train_seeds(trainer, state):  # noqa: B020 the state goes on
                # Asked once: a signal that comes later in this round is for the next one, which saves again.
                is_stopping = stop.signal is not None
                update, seconds = update_reached(state), seconds_before + time.monotonic() - started
                metrics = journal.write(state, seconds, numbers)
                if is_stopping or update >= config.updates:
                    save_the_last(run, config, state, seconds)
                elif update // config.checkpoint_every > saved // config.checkpoint_every:
                    save_or_tell(run, config, state, seconds, tell)
                    saved = update
                if watch is not None:
                    watch(metrics)
                if is_stopping:
                    break
        except EnvironmentFault as fault:
            if stop.signal is None:
                raise _left_behind(session, state, seconds, fault) from fault
            # Who stops a run may stop its environments too, which is then no fault of theirs.
            tell(str(fault))
            save_the_last(run, config, state, seconds)
    summary = _conclude(session, state, seconds)
    return Run(run.path, summary, stop.signal if summary["status"] == "stopped" else None)


def _left_behind(
    session: Session, state: TrainState, seconds: float, fault: EnvironmentFault
) -> EnvironmentFault:
    """Saves what was learned before an environment failed, and says so."""
    save_the_last(session.run, session.trainer.config, state, seconds)
    _conclude(session, state, seconds)
    return EnvironmentFault(
        f"{fault} What was learned up to update {update_reached(state)} is saved: mend the environment, then "
        f"`gemax resume {session.run.path}`."
    )


def _conclude(session: Session, state: TrainState, seconds: float) -> dict[str, Any]:
    """Leaves a summary and pictures, of every seed and of the run."""
    trainer, run, ceiling = session.trainer, session.run, session.ceiling
    config, summaries, lines = trainer.config, {}, {}
    states = states_of_seeds(config, state)
    for seed, directory in session.seeds.items():
        lines[seed] = read_metrics(directory.metrics)
        update = update_reached(states[seed])
        if config.seeds > 1:
            save_the_last(directory, config, states[seed], seconds)
        summaries[seed] = summary_of_seed(trainer, lines[seed], update, seconds, ceiling)
        directory.write_summary(summaries[seed])
        if session.pictures:
            draw_pictures(directory.path, trainer, states[seed], lines[seed], ceiling)
    if config.seeds == 1:
        return summaries[config.seed]
    means, update = read_metrics(run.metrics), update_reached(state)
    summary = summary_of_group(trainer, means, update, seconds, ceiling, summaries)
    run.write_summary(summary)
    if session.pictures:
        draw_group_pictures(run.path, trainer, list(states.values()), means, list(lines.values()), ceiling)
    return summary

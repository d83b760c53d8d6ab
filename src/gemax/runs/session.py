"""A training run from its first byte to its last: train → metrics → checkpoints → summary and pictures."""

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gemax.core.ceiling import entropy_ceiling
from gemax.runs.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from gemax.runs.directory import RunDirectory, check_space, create_run, read_metrics, resume_run
from gemax.runs.pictures import draw_pictures
from gemax.runs.provenance import provenance
from gemax.runs.sinks import Sink, all_of, jsonl_sink
from gemax.training.assemble import assemble
from gemax.training.config import Config, config_from
from gemax.training.learn import Trainer, initial_state
from gemax.training.loop import begin, train
from gemax.training.state import RETURNS_KEPT, TrainState

Watch = Callable[[dict[str, Any]], None]
"""Is shown the metrics of every compiled call."""


class Run(NamedTuple):
    """A run on disk, and how it ended."""

    path: Path
    summary: dict[str, Any]
    stopped_by: int | None
    """The signal that stopped it before its end."""


class Stop:
    """Whether a signal has asked the run to end."""

    def __init__(self) -> None:
        self.signal: int | None = None


def start_run(
    config: Config,
    path: Path,
    *,
    watch: Watch | None = None,
    sinks: tuple[Sink, ...] = (),
    tell: Callable[[str], None] = print,
) -> Run:
    """Trains from the beginning, into a new run directory."""
    trainer = assemble(config)
    like = _shapes(trainer)
    check_space(path, (config.keep_checkpoints + 1) * _size(like))
    with create_run(path, dataclasses.asdict(config)) as run:
        state = begin(trainer)
        # Saved at once, so that a run can be resumed whenever it is killed.
        _save(run, trainer, state, seconds=0.0)
        return _drive(trainer, run, state, 0.0, watch, sinks, tell)


def resume(
    path: Path,
    *,
    watch: Watch | None = None,
    sinks: tuple[Sink, ...] = (),
    tell: Callable[[str], None] = print,
) -> Run:
    """Goes on with a run from its newest good checkpoint, bit for bit."""
    with resume_run(path) as run:
        for message in run.messages:
            tell(message)
        trainer = assemble(config_from(run.read_config()))
        if not any(run.checkpoints.glob("update-*")) and not read_metrics(run.metrics):
            tell("Nothing was saved yet: this run starts from its beginning.")
            return _drive(trainer, run, begin(trainer), 0.0, watch, sinks, tell)
        loaded = load_checkpoint(run.checkpoints, _shapes(trainer))
        if loaded.update >= trainer.config.updates:
            tell(f"Already at {loaded.update} of {trainer.config.updates} updates.")
        for message in [*loaded.messages, *run.rewind_metrics(loaded.update), *_not_bit_exact(loaded.facts)]:
            tell(message)
        # The loop donates its state: numpy arrays become buffers of their own.
        state = jax.tree.map(jax.numpy.array, loaded.tree)
        return _drive(trainer, run, state, float(loaded.facts["seconds"]), watch, sinks, tell)


def _drive(
    trainer: Trainer,
    run: RunDirectory,
    state: TrainState,
    seconds_before: float,
    watch: Watch | None,
    sinks: tuple[Sink, ...],
    tell: Callable[[str], None],
) -> Run:
    config, started = trainer.config, time.monotonic()
    ceiling = (
        None
        if trainer.world.finite is None
        else entropy_ceiling(trainer.world.finite.reward_free_model).entropy
    )
    sink = all_of([jsonl_sink(run), *sinks])
    saved, seconds = int(state.update), seconds_before
    with contextlib.ExitStack() as at_the_end, _listening() as stop:
        at_the_end.callback(sink.close)
        for state, numbers in train(trainer, state):  # noqa: B020 the state goes on
            # Asked once: a signal that comes later in this round is for the next one, which saves again.
            is_stopping = stop.signal is not None
            update, seconds = int(state.update), seconds_before + time.monotonic() - started
            metrics = _record(config, update, seconds, numbers, ceiling)
            sink.write(update, metrics)
            is_last = is_stopping or update >= config.updates
            if is_last or update // config.checkpoint_every > saved // config.checkpoint_every:
                _save_or_tell(run, trainer, state, seconds, is_last, tell)
                saved = update
            if watch is not None:
                watch(metrics)
            if is_stopping:
                break
    summary = _summary(trainer, run, state, seconds, ceiling)
    run.write_summary(summary)
    draw_pictures(run.path, trainer, state, read_metrics(run.metrics), ceiling)
    return Run(run.path, summary, stop.signal if summary["status"] == "stopped" else None)


def _save(run: RunDirectory, trainer: Trainer, state: TrainState, seconds: float) -> None:
    facts = {"seconds": seconds, **provenance()}
    save_checkpoint(run.checkpoints, int(state.update), state, facts, keep=trainer.config.keep_checkpoints)


def _shapes(trainer: Trainer) -> TrainState:
    """What a state of this run looks like, without computing one."""
    return jax.eval_shape(partial(initial_state, trainer), jax.random.key(0))


def _size(like: TrainState) -> int:
    """Bytes of a state."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(like))


def _save_or_tell(
    run: RunDirectory,
    trainer: Trainer,
    state: TrainState,
    seconds: float,
    is_last: bool,
    tell: Callable[[str], None],
) -> None:
    """A full disk must not end a run: the checkpoint before is still there, and the next one may fit."""
    try:
        _save(run, trainer, state, seconds)
    except OSError as error:
        words = f"the checkpoint of update {int(state.update)} could not be written to {run.checkpoints}: {error}."
        if is_last:
            raise CheckpointError(f"{words} The ones before it are kept: make room and resume.") from error
        tell(f"Warning: {words} Training goes on; the next checkpoint is tried in its turn.")


def _record(
    config: Config, update: int, seconds: float, numbers: dict[str, float], ceiling: float | None
) -> dict[str, Any]:
    record = {
        "update": update,
        "frames": update * config.frames_per_update,
        "seconds": round(seconds, 3),
        **numbers,
    }
    if ceiling is not None:
        record["entropy_share"] = numbers["visitation_entropy"] / ceiling
    return record


def _summary(
    trainer: Trainer, run: RunDirectory, state: TrainState, seconds: float, ceiling: float | None
) -> dict[str, Any]:
    metrics = read_metrics(run.metrics)
    last = metrics[-1] if metrics else {}
    solved = [
        line
        for line in metrics
        if line["episodes"] >= RETURNS_KEPT
        and line["return"] is not None
        and line["return"] >= trainer.world.solved_return
    ]
    return {
        "status": "finished" if int(state.update) >= trainer.config.updates else "stopped",
        "updates": int(state.update),
        "frames": int(state.update) * trainer.config.frames_per_update,
        "seconds": round(seconds, 1),
        "return": last.get("return"),
        "solved_at_update": solved[0]["update"] if solved else None,
        "solved_at_seconds": solved[0]["seconds"] if solved else None,
        "visitation_entropy": last.get("visitation_entropy") if ceiling is not None else None,
        "entropy_ceiling": ceiling,
        **provenance(),
    }


def _not_bit_exact(facts: dict[str, Any]) -> list[str]:
    """What differs from the machine that wrote the checkpoint, as far as it changes rounding."""
    now = provenance()
    return [
        f"Not bit for bit: the checkpoint was written with {name} {facts.get(name)}, this is {now[name]}."
        for name in ("jax", "jaxlib", "cores")
        if facts.get(name) != now[name]
    ]


@contextlib.contextmanager
def _listening() -> Iterator[Stop]:
    """Turns the first Ctrl-C or SIGTERM into a wish; a second one stops at once."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Signals can be caught in the main thread only; elsewhere they are somebody else's.
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

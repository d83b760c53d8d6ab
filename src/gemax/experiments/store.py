"""Stores the finished runs of the experiments, and trains the missing ones.

A run is identified by its configuration, so that experiments share runs. Several runs are trained at the same time, in
processes of this machine or on a cluster. A run that was interrupted continues from its last checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gemax.experiments.damaged import is_readable
from gemax.experiments.records import GENERATION, Record, is_record_of, load_record, run_name, write_record
from gemax.launch.worker import DONE, MakeWorkers, WorkerOptions, WriteRecord, local_workers
from gemax.runs.locks import locked
from gemax.runs.provenance import provenance
from gemax.stopping import catch_stop_signals
from gemax.training.config import Config

POLL_SECONDS = 0.1


class Progress(NamedTuple):
    """The progress of the missing runs."""

    num_finished: int
    num_runs: int
    fraction: float
    """Estimated cost of the training so far, divided by the cost of all runs."""
    running: tuple[str, ...]
    """Names of the current runs."""


class Outcome(NamedTuple):
    """The result of training the missing runs."""

    failures: dict[str, str]
    """Error messages by the names of the runs."""
    stop_signal: int | None
    """The signal that stopped the training, if any."""


class RunStore:
    """A folder of finished runs. Subclasses decide the form of the records."""

    write_record: WriteRecord = staticmethod(write_record)
    """Writes the record of a finished run, in the worker process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unfinished = folder / "unfinished"

    def name(self, config: Config) -> str:
        """Returns the name of a run."""
        return run_name(config)

    def path(self, config: Config) -> Path:
        """Returns the file of a finished run."""
        return self.folder / f"{self.name(config)}.npz"

    def is_finished(self, config: Config) -> bool:
        """Returns whether there is a record of the run."""
        return is_readable(self.path(config), lambda path: is_record_of(path, config))

    def load(self, config: Config) -> Record | None:
        """Reads a finished run. Returns None if it is missing."""
        return load_record(self.path(config)) if self.is_finished(config) else None

    def missing(self, configs: Sequence[Config]) -> list[Config]:
        """Returns the configurations without a finished run, without duplicates."""
        distinct = {self.path(config): config for config in configs}
        return [config for config in distinct.values() if not self.is_finished(config)]

    def worker_options(self, quick: bool) -> WorkerOptions:
        """Returns what the workers that train the runs have in common."""
        return WorkerOptions(self.unfinished / "compiled", self.write_record, quick)

    def run_folder(self, config: Config) -> Path:
        """Returns the folder of a run that is being trained. Code of another generation does not continue it."""
        return self.unfinished / f"{self.name(config)}-generation-{GENERATION}"


def train_missing(
    store: RunStore,
    configs: Sequence[Config],
    jobs: int,
    on_progress: Callable[[Progress], None],
    on_finished: Callable[[], None] = lambda: None,
    *,
    quick: bool = False,
    make_workers: MakeWorkers = local_workers,
) -> Outcome:
    """Trains the missing runs in the given order, `jobs` at a time. Calls `on_finished` after each of them.

    `quick` reduces compile time at the expense of run time, for very short runs. `make_workers` decides where they run.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; got {jobs}.")
    commit = provenance()["commit"]
    if not store.missing(configs):
        return Outcome({}, None)
    store.unfinished.mkdir(parents=True, exist_ok=True)
    with locked(store.unfinished / "training.lock"), catch_stop_signals() as stop:
        queue = store.missing(configs)
        costs = {store.name(config): relative_cost(config) for config in queue}
        workers = make_workers(jobs, len(queue), store.worker_options(quick))
        finished: list[str] = []
        failures: dict[str, str] = {}
        while queue or any(worker.config for worker in workers):
            for worker in workers:
                if stop.signal is not None:
                    queue.clear()
                    worker.stop()
                elif worker.config is None and queue:
                    config = queue.pop(0)
                    worker.train(config, store.run_folder(config), store.path(config), commit)
            time.sleep(POLL_SECONDS)
            for worker in workers:
                if worker.config is None or (answer := worker.answer()) is None:
                    continue
                finished.append(store.name(worker.config))
                worker.config = None
                if answer == DONE:
                    on_finished()
                elif stop.signal is None:
                    failures[finished[-1]] = answer
            fractions = {store.name(worker.config): worker.fraction() for worker in workers if worker.config}
            cost = sum(costs[name] for name in finished)
            cost += sum(costs[name] * fraction for name, fraction in fractions.items())
            on_progress(Progress(len(finished), len(costs), cost / sum(costs.values()), tuple(fractions)))
        for worker in workers:
            worker.close()
    return Outcome(failures, stop.signal)


def relative_cost(config: Config) -> float:
    """Returns the approximate cost of a run relative to others, to estimate the remaining time."""
    per_frame = {"sixteen-leaves": 2.0, "two-rooms-noisy": 3.0, "mountain-car": 2.5, "cartpole-swingup": 2.5}
    frames = config.run.updates * config.frames_per_update
    pixels = 4.0 if config.env.observation == "pixels" else 1.0
    return pixels * per_frame.get(config.env.env_id, 1.0) * frames

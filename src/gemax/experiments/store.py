"""The finished runs of the experiments, and how those that are missing are made: several at a time, in processes.

A run is kept under the name of its configuration, whichever figure asked for it. What is stopped, by Ctrl-C or by a
crash, goes on from its last checkpoint the next time.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gemax.experiments.records import Record, is_record_of, load_record, name_of
from gemax.experiments.worker import COMPILED, DONE, RUN, WANTED, Worker
from gemax.runs.files import write_json
from gemax.runs.locks import locked
from gemax.runs.signals import listening
from gemax.training.config import Config

SECONDS_BETWEEN_LOOKS = 0.1
UNFINISHED = "unfinished"


class Standing(NamedTuple):
    """How far the missing runs are."""

    finished: int
    of: int
    work_done: float
    """In updates, each counted by what it costs."""
    work: float
    running: tuple[str, ...]


class Outcome(NamedTuple):
    """How the making of runs ended."""

    failures: dict[str, str]
    """What went wrong with which run."""
    stopped_by: int | None


class Store:
    """A folder of finished runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, config: Config) -> Path:
        """Where a run is kept."""
        return self.folder / f"{name_of(config)}.npz"

    def load(self, config: Config) -> Record | None:
        """A finished run; None where there is none."""
        path = self.path(config)
        return load_record(path) if is_record_of(path, config) else None

    def missing(self, configs: Sequence[Config]) -> list[Config]:
        """What has yet to be trained, each configuration once."""
        distinct = {self.path(config): config for config in configs}
        return [config for path, config in distinct.items() if not is_record_of(path, config)]

    def unfinished(self, config: Config) -> Path:
        """Where a run is while it is made."""
        return self.folder / UNFINISHED / name_of(config)


def make_missing(
    store: Store,
    configs: Sequence[Config],
    jobs: int,
    watch: Callable[[Standing], None],
    finished: Callable[[], None] = lambda: None,
    *,
    quick: bool = False,
) -> Outcome:
    """Trains what the store does not have yet, in the order given; tells whenever another one is there.

    `quick` is for runs so short that compiling takes longer: it is then done without care.
    """
    shares = shares_of_cores(jobs)
    if not store.missing(configs):
        return Outcome({}, None)
    (store.folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
    with locked(store.folder / UNFINISHED / "making.lock"), listening() as stop:
        waiting = store.missing(configs)
        works = {name_of(config): work_of(config) for config in waiting}
        desks = [Desk(share, quick) for share in shares[: len(waiting)]]
        done: list[str] = []
        failures: dict[str, str] = {}
        while desks and (stop.signal is None or any(desk.config for desk in desks)):
            for desk in desks:
                if stop.signal is not None:
                    desk.ask_to_stop()
                elif desk.config is None and waiting:
                    desk.begin(store, waiting.pop(0))
            time.sleep(SECONDS_BETWEEN_LOOKS)
            for desk in desks:
                if desk.config is None or (answer := desk.answer()) is None:
                    continue
                done.append(name_of(desk.config))
                if answer == DONE:
                    finished()
                elif stop.signal is None:
                    failures[name_of(desk.config)] = answer
                desk.config = None
            busy = [(desk, desk.config) for desk in desks if desk.config is not None]
            work_done = sum(works[name] for name in done)
            work_done += sum(works[name_of(config)] * desk.share_done() for desk, config in busy)
            names = tuple(name_of(config) for _, config in busy)
            watch(Standing(len(done), len(works), work_done, sum(works.values()), names))
            if not waiting and not busy:
                break
        for desk in desks:
            desk.close()
    return Outcome(failures, stop.signal)


class Desk:
    """A share of the cores, the worker who sits there and the run that it makes."""

    def __init__(self, cores: list[int], quick: bool) -> None:
        self._cores, self._quick = cores, quick
        self._worker: Worker | None = None
        self._folder = Path()
        self._is_asked = False
        self.config: Config | None = None

    def begin(self, store: Store, config: Config) -> None:
        """Hands over a run; whoever died over the last one is replaced."""
        self.config, self._folder = config, store.unfinished(config)
        write_json(self._folder / WANTED, dataclasses.asdict(config))
        if self._worker is None or not self._worker.is_alive:
            self._worker = Worker(self._cores, store.folder / UNFINISHED / COMPILED, quick=self._quick)
        self._worker.give(self._folder, store.path(config))

    def answer(self) -> str | None:
        """How the run ended; None while it goes on."""
        return self._worker.answer() if self._worker is not None else None

    def ask_to_stop(self) -> None:
        """Once: a second signal would not wait for the checkpoint."""
        if self._worker is not None and not self._is_asked:
            self._worker.ask_to_stop()
        self._is_asked = True

    def share_done(self) -> float:
        """From what the run has logged so far: a line for each compiled call."""
        try:
            lines = (self._folder / RUN / "metrics.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0.0
        assert self.config is not None
        return min(lines * self.config.updates_per_call / self.config.updates, 1.0)

    def close(self) -> None:
        """Sends the worker home."""
        if self._worker is not None:
            self._worker.dismiss()


def shares_of_cores(jobs: int) -> list[list[int]]:
    """The cores of each job. Two runs on a core each are faster than one after the other on both."""
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; got {jobs}.")
    cores = sorted(os.sched_getaffinity(0))
    return [cores[job % len(cores) :: jobs] or cores for job in range(jobs)]


def work_of(config: Config) -> float:
    """What a run costs beside others, roughly: for the time left."""
    per_frame = {"sixteen-leaves": 2.0, "two-rooms-noisy": 3.0, "mountain-car": 2.5, "cartpole-swingup": 2.5}
    frames = config.updates * config.frames_per_update
    pixels = 4.0 if config.observation == "pixels" else 1.0
    return pixels * per_frame.get(config.world, 1.0) * frames

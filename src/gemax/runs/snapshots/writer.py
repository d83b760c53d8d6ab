"""Writes snapshots while a run trains: at most a fixed number, and for at most a small share of its time."""

import time
from collections.abc import Callable

from gemax.runs.checkpoint_writer import update_reached
from gemax.runs.files import remove_temporary_files
from gemax.runs.run_directory import RunDirectory
from gemax.runs.snapshots.files import (
    FOLDER,
    SCENE,
    snapshot_path,
    snapshot_updates,
    thinned,
    write_scene,
    write_snapshot,
)
from gemax.runs.snapshots.sampler import quick_arrays
from gemax.runs.snapshots.scene import scene_of
from gemax.runs.snapshots.sources import source_of
from gemax.training.learn import Trainer
from gemax.training.loop import state_of_seed
from gemax.training.state import TrainState

MAX_SNAPSHOTS = 48
"""Snapshots per seed. Beyond it every second one is deleted, and later ones are further apart."""
MAX_SHARE = 0.02
"""Share of the training time that snapshots may take."""
COMPILE_AFTER_SECONDS = 2.0
"""Shorter runs store the visits only, since compiling the rest would take a large share of their time."""


class SnapshotWriter:
    """Writes the snapshots of all seeds of a run. An error switches it off with a message and never stops the run.

    Args:
        trainer: The parts of the run.
        seeds: Directory of each seed.
        reached: Number of updates that the run starts from. Later snapshots are deleted.
        log: Called with messages.
    """

    def __init__(
        self, trainer: Trainer, seeds: dict[int, RunDirectory], reached: int, log: Callable[[str], None]
    ) -> None:
        self._trainer, self._log, self._is_on = trainer, log, True
        self._folders = {seed: run.path / FOLDER for seed, run in seeds.items()}
        self._source = source_of(trainer)
        self._first_call: float | None = None
        self._next_time = 0.0
        """No snapshot before this time, so that they take at most `MAX_SHARE`."""
        self._updates: list[int] = []
        self._min_gap = 1
        """Minimum number of updates between two snapshots."""
        self._guard(lambda: self._open(reached))

    def consider(self, state: TrainState) -> None:
        """Writes a snapshot if one is due. Called after every compiled call."""
        self._guard(lambda: self._consider(state))

    def finish(self, state: TrainState, *, wait: bool) -> None:
        """Writes the last snapshot. `wait`: if its program is still being compiled, waits for it."""
        self._guard(lambda: self._write(state, update_reached(state), wait=wait))

    def close(self) -> None:
        """Ends threads and closes environments. Must be called once, however the run ends."""
        self._guard(self._source.close)

    def _guard(self, work: Callable[[], None]) -> None:
        """Does the work unless the writer is off. Any error switches it off: a picture is not worth a run."""
        if not self._is_on:
            return
        try:
            work()
        except Exception as error:
            self._is_on = False
            self._log(
                f"No more snapshots for `gemax view`: {type(error).__name__}: {error}. The run continues."
            )

    def _consider(self, state: TrainState) -> None:
        now, update = time.monotonic(), update_reached(state)
        self._source.observe(state)
        self._first_call = self._first_call or now
        if now - self._first_call >= COMPILE_AFTER_SECONDS:
            self._source.start(self._state_of(state, next(iter(self._folders))))
        is_apart = not self._updates or update - self._updates[-1] >= self._min_gap
        if is_apart and now >= self._next_time:
            self._write(state, update, wait=False)
            self._next_time = time.monotonic() + (time.monotonic() - now) / MAX_SHARE

    def _open(self, reached: int) -> None:
        """Deletes what a killed process left and what a resumed run computes again."""
        for folder in self._folders.values():
            if folder.is_symlink():
                raise OSError(f"{folder} is a link")
            folder.mkdir(exist_ok=True)
            remove_temporary_files(folder, (SCENE, "*.npz"))
            write_scene(folder, scene_of(self._trainer))
            for update in snapshot_updates(folder):
                if update > reached:
                    snapshot_path(folder, update).unlink()
        self._updates = snapshot_updates(next(iter(self._folders.values())))
        if len(self._updates) > 1:
            self._min_gap = max((self._updates[-1] - self._updates[0]) // (len(self._updates) - 1), 1)

    def _write(self, state: TrainState, update: int, *, wait: bool) -> None:
        for seed, folder in self._folders.items():
            of_seed = self._state_of(state, seed)
            arrays = quick_arrays(of_seed) | self._source.arrays(of_seed, wait=wait)
            if arrays:
                write_snapshot(folder, update, arrays)
        if update not in self._updates:
            self._updates.append(update)
        if len(self._updates) > MAX_SNAPSHOTS:
            self._thin()

    def _thin(self) -> None:
        kept = thinned(self._updates)
        for folder in self._folders.values():
            for update in set(self._updates) - set(kept):
                snapshot_path(folder, update).unlink(missing_ok=True)
        self._updates = kept
        self._min_gap = 2 * max((kept[-1] - kept[0]) // (2 * (len(kept) - 1)), 1)

    def _state_of(self, state: TrainState, seed: int) -> TrainState:
        return state_of_seed(self._trainer, state, seed)

"""Trains runs on the machines of a Ray cluster, with the same worker process as on this machine.

The machines need no shared file system. A run is trained in a temporary folder of its machine. With each new checkpoint
its files are copied to the folder on this machine, from where another machine can continue the run.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gemax.launch.temporary import temporary_folder
from gemax.launch.worker import (
    DONE,
    RUN,
    MakeWorkers,
    Worker,
    WorkerOptions,
    WriteRecord,
    local_workers,
    prepare_folder,
)
from gemax.runs.files import write_bytes
from gemax.version import VERSION

if TYPE_CHECKING:
    from gemax.launch.options import RunLaunchOptions
    from gemax.training.config import Config

Files: TypeAlias = dict[str, bytes]
"""Content by path, relative to a folder."""
MAX_DEATHS = 3
"""A run whose machine or worker dies this often without progress has failed."""
POLL_SECONDS = 1.0
TEMPORARY = (".tmp", ".lock", ".replaced")
"""Ends of the names of files that are not copied."""
FOLDER_PREFIX = "gemax-run-"
"""Start of the name of the temporary folder of a worker."""
LOST = "lost"
"""Answer of a worker that was restarted and has no run."""


class Progress(NamedTuple):
    """What has changed on the machine of a run."""

    answer: str | None
    """The result of the run, or None while it is running."""
    fraction: float
    files: Files | None
    """All files of the run's folder, if there is a new checkpoint or a result."""
    record: Files
    """The record of a finished run: a file, with the path ".", or the files of a folder."""


class NodeWorker:
    """Runs on a machine of the cluster, as a Ray actor: trains one run after the other in a worker process."""

    def __init__(self, write_record: WriteRecord, quick: bool, version: str) -> None:
        if version != VERSION:
            raise ValueError(
                f"the machine has gemax {VERSION}, and this one has {version}. Install the same version."
            )
        self._resources = contextlib.ExitStack()
        self._folder = self._resources.enter_context(temporary_folder(FOLDER_PREFIX))
        options = WorkerOptions(self._folder / "compiled", write_record, quick)
        self._worker = Worker(sorted(os.sched_getaffinity(0)), options)
        self._checkpoints: set[str] = set()

    def train(self, config: "Config", name: str, files: Files, commit: str | None) -> None:
        """Starts a run, or continues it from its files."""
        self._run = self._folder / name
        self._record = self._folder / f"{name}.record"
        write_files(self._run, files)
        self._checkpoints = self._checkpoint_names()
        self._worker.train(config, self._run, self._record, commit)

    def poll(self) -> Progress:
        """Returns the progress of the run, and its files if there is a new checkpoint."""
        if self._worker.config is None:
            return Progress(LOST, 0.0, None, {})
        answer, fraction = self._worker.answer(), self._worker.fraction()
        names = self._checkpoint_names()
        files = None
        if answer not in (None, DONE) or names - self._checkpoints:
            files = read_files(self._run)
        self._checkpoints = names
        record = read_files(self._record) if answer == DONE else {}
        if answer is not None:
            self._worker.config = None
            _delete(self._run)
            _delete(self._record)
        return Progress(answer, fraction, files, record)

    def stop(self) -> None:
        """Stops the run after a checkpoint."""
        self._worker.stop()

    def close(self) -> None:
        """Ends the worker process and deletes the temporary folder."""
        self._worker.stop()
        self._worker.close()
        self._resources.close()

    def _checkpoint_names(self) -> set[str]:
        return {path.name for path in (self._run / RUN / "checkpoints").glob("update-*")}


class RayWorker:
    """A `RunWorker` on a Ray cluster. If its machine dies, the run continues on another one."""

    def __init__(self, ray: Any, options: WorkerOptions, num_cpus: float, log: Callable[[str], None]) -> None:
        self._ray, self._log = ray, log
        actor_class = ray.remote(num_cpus=num_cpus, max_restarts=-1, max_task_retries=0)(NodeWorker)
        self._handle = actor_class.remote(options.write_record, options.quick, VERSION)
        self._poll: Any = None
        self._next_poll = 0.0
        self._is_stopping = False
        self.config: Config | None = None
        """The configuration of the current run. None while the worker is idle."""

    def train(self, config: "Config", folder: Path, record: Path, commit: str | None) -> None:
        """Starts a run. Its files are copied to the folder, which is deleted once its record is written."""
        prepare_folder(folder, config, commit)
        self.config, self._arguments = config, (folder, record, commit)
        self._fraction, self._deaths, self._fraction_at_death = 0.0, 0, 0.0
        self._start()

    def answer(self) -> str | None:
        """Returns the result of the run. None while it is running."""
        if self._poll is None and time.monotonic() >= self._next_poll:
            self._poll = self._handle.poll.remote()
        if self._poll is None or not self._ray.wait([self._poll], timeout=0)[0]:
            return None
        poll, self._poll, self._next_poll = self._poll, None, time.monotonic() + POLL_SECONDS
        errors = self._ray.exceptions
        try:
            progress = self._ray.get(poll)
        except (errors.RayTaskError, errors.ActorDiedError) as error:
            return self._after_death(error)
        except (errors.RayActorError, errors.ObjectLostError) as error:
            return self._after_death(error)
        if progress.answer == LOST:
            self._start()
            return None
        self._write(progress)
        return progress.answer

    def fraction(self) -> float:
        """Returns the finished fraction of the run."""
        return self._fraction

    def stop(self) -> None:
        """Stops the run after a checkpoint."""
        if not self._is_stopping:
            self._handle.stop.remote()
        self._is_stopping = True

    def close(self) -> None:
        """Ends the worker."""
        self._ray.wait([self._handle.close.remote()], timeout=10.0)
        self._ray.kill(self._handle)

    def _start(self) -> None:
        folder, _, commit = self._arguments
        self._handle.train.remote(self.config, folder.name, read_files(folder), commit)

    def _after_death(self, error: Exception) -> str | None:
        """Continues the run elsewhere, unless it has died too often without progress."""
        reason = " ".join(str(error).split())
        if self._fraction > self._fraction_at_death:
            self._deaths = 0
        self._deaths, self._fraction_at_death = self._deaths + 1, self._fraction
        if self._deaths >= MAX_DEATHS or isinstance(error, self._ray.exceptions.RayTaskError):
            return f"its worker on the cluster died {self._deaths} times: {reason}"
        self._log(
            f"{self._arguments[0].name} continues from its last checkpoint, because its worker died: {reason}"
        )
        self._start()
        return None

    def _write(self, progress: Progress) -> None:
        """Copies the files of the run to this machine."""
        folder, record, _ = self._arguments
        self._fraction = progress.fraction
        if progress.files is not None:
            write_files(folder, progress.files)
        if progress.answer == DONE:
            write_files(record, progress.record)
            shutil.rmtree(folder)


@contextlib.contextmanager
def run_workers(options: "RunLaunchOptions", jobs: int, log: Callable[[str], None]) -> Iterator[MakeWorkers]:
    """Yields a function that makes workers: on this machine, or on a Ray cluster, which ends with the block."""
    if options.launcher == "local":
        yield local_workers
        return
    from gemax.launch.ray_cluster import ray_cluster

    num_cpus = options.cpus_per_run
    with ray_cluster(options.ray_address, num_cpus=int(-(-jobs * num_cpus // 1))) as ray:
        yield partial(_ray_workers, ray, num_cpus, log)


def _ray_workers(
    ray: Any, num_cpus: float, log: Callable[[str], None], jobs: int, num_runs: int, options: WorkerOptions
) -> list[RayWorker]:
    return [RayWorker(ray, options, num_cpus, log) for _ in range(min(jobs, num_runs))]


def read_files(path: Path) -> Files:
    """Returns the content of a file, or of all files of a folder, except temporary ones."""
    if path.is_file():
        return {".": path.read_bytes()}
    files = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and not file.name.endswith(TEMPORARY):
            with contextlib.suppress(FileNotFoundError):  # an old checkpoint that was deleted meanwhile
                files[str(file.relative_to(path))] = file.read_bytes()
    return files


def write_files(path: Path, files: Files) -> None:
    """Writes a file, or the files of a folder. Deletes all others of the folder."""
    for file in path.rglob("*"):
        if file.is_file() and str(file.relative_to(path)) not in files:
            file.unlink()
    for name, content in files.items():
        write_bytes(path / name, content)
    for folder in sorted(path.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):  # not empty, or no folder
            folder.rmdir()


def _delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

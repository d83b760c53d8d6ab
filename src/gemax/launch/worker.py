"""Worker processes on this machine that train runs one after the other, each on its own cores."""

import contextlib
import gc
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from gemax.runs.files import write_bytes, write_json
from gemax.runs.metrics_file import read_last_metrics

if TYPE_CHECKING:
    from gemax.training.config import Config

CONFIG, RUN, LOG, COMMITS = "config.json", "run", "log.txt", "commits.txt"
"""Files in the folder of a run that is being trained. A run has several commits if it was resumed at another one."""
DONE, STOPPED = "done", "stopped"
"""Answers of a worker process. Any other answer is an error message."""
WriteRecord: TypeAlias = Callable[[Path, Path, bool], None]
"""`write_record(folder, record, quick)` evaluates the finished run in a folder and writes its record. Worker processes
import it by its name."""
QUICK_XLA_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Halves the compile time, in addition to `jax_disable_most_optimizations`."""


class RunWorker(Protocol):
    """Trains one run after the other, somewhere."""

    config: "Config | None"
    """The configuration of the current run. None while the worker is idle."""

    def train(self, config: "Config", folder: Path, record: Path, commit: str | None) -> None:
        """Starts a run in a folder. Its record is written at the end, and the folder is deleted."""
        ...

    def answer(self) -> str | None:
        """Returns the result of the run. None while it is running."""
        ...

    def fraction(self) -> float:
        """Returns the finished fraction of the run."""
        ...

    def stop(self) -> None:
        """Stops the run after a checkpoint."""
        ...

    def close(self) -> None:
        """Ends the worker."""
        ...


class RunOutputs(NamedTuple):
    """What a run writes beside metrics and checkpoints."""

    plots: bool = False
    snapshots: bool = False
    tensorboard: bool = False
    wandb: str | None = None


class WorkerOptions(NamedTuple):
    """What all workers of a store have in common."""

    cache: Path
    """Folder of compiled programs."""
    write_record: WriteRecord
    quick: bool = False
    in_place: bool = False
    """Whether a run is trained where its record belongs, and not in its folder."""
    outputs: RunOutputs = RunOutputs()
    trust: bool = False
    """Whether the module of an environment may be imported if its run was made elsewhere."""

    def run_directory(self, folder: Path, record: Path) -> Path:
        """Returns where a run is trained."""
        return record if self.in_place else folder / RUN


MakeWorkers: TypeAlias = Callable[[int, int, WorkerOptions], Sequence[RunWorker]]
"""`make_workers(jobs, num_runs, options)` returns at most `jobs` workers."""


def local_workers(jobs: int, num_runs: int, options: WorkerOptions) -> "list[Worker]":
    """Returns worker processes that share the cores of this machine."""
    return [Worker(cores, options) for cores in split_cores(jobs)[:num_runs]]


def split_cores(jobs: int) -> list[list[int]]:
    """Returns the cores of each job. Two runs at once on one core each are faster than two in turn on both."""
    cores = sorted(os.sched_getaffinity(0))
    return [cores[job % len(cores) :: jobs] or cores for job in range(jobs)]


class Worker:
    """The parent's handle of a worker process. The process starts with its first run, and again if it died."""

    def __init__(self, cores: list[int], options: WorkerOptions) -> None:
        self._arguments, self._options = (cores, options), options
        self._process = None
        self._first_fraction = 0.0
        """The finished fraction of the run when the worker began it."""
        self._is_stopping = False
        self.config: Config | None = None
        """The configuration of the current run. None while the worker is idle."""

    def train(self, config: "Config", folder: Path, record: Path, commit: str | None) -> None:
        """Starts a run in a folder. Its record is written at the end, and the folder is deleted."""
        self.config, self._run = config, self._options.run_directory(folder, record)
        self._first_fraction = self.fraction()
        prepare_folder(folder, config, commit)
        if self._process is None or not self._process.is_alive():
            context = get_context("spawn")
            self._connection, child = context.Pipe()
            self._process = context.Process(target=serve, args=(child, *self._arguments), daemon=True)
            with _hidden_main():
                self._process.start()
            child.close()
        self._connection.send((str(folder), str(record)))

    def answer(self) -> str | None:
        """Returns the result of the run. None while it is running."""
        assert self._process is not None
        with contextlib.suppress(EOFError, ConnectionResetError):
            if self._connection.poll():
                return self._connection.recv()
        if self._process.is_alive():
            return None
        return f"the worker process died with exit code {self._process.exitcode}"

    def fraction(self) -> float:
        """Returns the finished fraction of the run."""
        assert self.config is not None
        return finished_fraction(self._run, self.config.run.updates)

    def stop(self) -> None:
        """Stops the worker after a checkpoint. Signals it only once, since a second signal skips the checkpoint.

        A worker that is still compiling has nothing to save and would not hear the signal for a while, so it is killed.
        """
        if self._process is not None and not self._is_stopping:
            has_trained = self.config is not None and self.fraction() != self._first_fraction
            self._process.terminate() if has_trained else self._process.kill()
        self._is_stopping = True

    def close(self) -> None:
        """Ends the worker process. It has written everything before its answer, and Python would exit slowly."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()


def finished_fraction(run: Path, updates: int) -> float:
    """Returns the finished fraction of a run, from the last line of its metrics."""
    metrics = read_last_metrics(run / "metrics.jsonl")
    return 0.0 if metrics is None else min(metrics["update"] / updates, 1.0)


def prepare_folder(folder: Path, config: "Config", commit: str | None) -> None:
    """Writes the configuration and the commit of a run into its folder."""
    write_json(folder / CONFIG, config.to_json())
    if (commit := commit or "unknown") not in (commits := read_commits(folder)):
        write_bytes(folder / COMMITS, "\n".join([*commits, commit]).encode())


def read_commits(folder: Path) -> list[str]:
    """Returns the commits that the run in a folder was trained at."""
    return (folder / COMMITS).read_text().split() if (folder / COMMITS).exists() else []


def serve(connection: Connection, cores: list[int], options: WorkerOptions) -> None:
    """Trains runs in the worker process until the parent closes the connection, or dies."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A daemon could not start processes for its environments.
    current_process().daemon = False
    quick = options.quick
    # Ctrl-C must reach the worker only through its parent, so it leaves the process group of the terminal.
    os.setsid()
    # JAX counts the cores when it starts.
    os.sched_setaffinity(0, cores)
    if quick:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_XLA_FLAGS}"
    import jax

    # The cache is shared, because all seeds run the same program.
    jax.config.update("jax_compilation_cache_dir", str(options.cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    if quick:
        jax.config.update("jax_disable_most_optimizations", True)
        # Tracing creates millions of objects that are never freed, and the collector would scan them again and again.
        gc.disable()
    answer = ""
    while answer != STOPPED:
        try:
            folder, record = map(Path, connection.recv())
        except (EOFError, ConnectionResetError):
            return
        with (folder / LOG).open("w") as log:
            # Redirects the file descriptors, because C++ libraries do not write to `sys.stdout`.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
                os.dup2(log.fileno(), stream.fileno())
        answer = train_run(folder, record, options)
        if answer == DONE:
            shutil.rmtree(folder)
        connection.send(answer)
        if not quick:
            # Compiled programs are large, and there are hundreds of runs.
            jax.clear_caches()


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Hides the main module from a new process, which would import the user's script and so train again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _end_with_parent() -> None:
    """Ends this process at once when its parent dies. A run resumes from its checkpoint."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def train_run(folder: Path, record: Path, options: WorkerOptions) -> str:
    """Starts or resumes a run, evaluates its policy and writes its record. Returns the worker's answer.

    A run that is resumed gets those settings of its configuration that can change.
    """
    from gemax.runs.run_directory import RunDirectory
    from gemax.runs.session import Hooks, resume, start_run
    from gemax.runs.sinks import sinks_for
    from gemax.training.assemble import CustomParts
    from gemax.training.config import config_from_json, safe_changes

    outputs, path = options.outputs, options.run_directory(folder, record)
    try:
        sinks = sinks_for(tensorboard=outputs.tensorboard, wandb=outputs.wandb)
        hooks = Hooks(sinks=sinks, plots=outputs.plots, snapshots=outputs.snapshots)
        config = config_from_json(json.loads((folder / CONFIG).read_text()))
        if (path / "config.json").exists():
            changes = safe_changes(config_from_json(RunDirectory(path).read_config()), config)
            outcome = resume(path, changes, CustomParts(trust=options.trust), hooks)
        else:
            shutil.rmtree(path, ignore_errors=True)
            outcome = start_run(config, path, hooks=hooks)
        if outcome.stop_signal is not None:
            return STOPPED
        options.write_record(folder, record, options.quick)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return DONE

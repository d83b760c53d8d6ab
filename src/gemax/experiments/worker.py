"""A process that makes runs for the experiments, one after the other, on its own share of the cores."""

import contextlib
import gc
import json
import os
import shutil
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

WANTED, RUN, LOG, COMPILED = "wanted.json", "run", "log.txt", "compiled"
DONE, STOPPED = "done", "stopped"
"""Answers of a worker; any other one says what went wrong."""
FEW_EPISODES = 16
"""That the policy of a quick run plays in the end."""
QUICKER_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false"
"""Half the time, on top of no optimisation."""


class Worker:
    """The parent's end."""

    def __init__(self, cores: list[int], compiled: Path, *, quick: bool) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, cores, str(compiled), quick), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, unfinished: Path, record: Path) -> None:
        """A run to make. The folder holds the configuration; the record is what is left in the end."""
        self._connection.send((str(unfinished), str(record)))

    def answer(self) -> str | None:
        """How the run ended; None while it goes on."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            if self._connection.poll():
                return self._connection.recv()
        return None if self._process.is_alive() else f"it died with exit code {self._process.exitcode}"

    @property
    def is_alive(self) -> bool:
        """Whether it can be given more."""
        return self._process.is_alive()

    def ask_to_stop(self) -> None:
        """A run that is under way is saved first."""
        self._process.terminate()

    def dismiss(self) -> None:
        """No more runs."""
        self._connection.close()
        self._process.join()


def serve(connection: Connection, cores: list[int], compiled: str, quick: bool) -> None:
    """The worker's end: until nobody is there any more. `quick` compiles in less time what then runs slower."""
    # No part of the terminal's group: Ctrl-C reaches us through our parent, once.
    os.setsid()
    # Before jax counts them.
    os.sched_setaffinity(0, cores)
    if quick:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKER_TO_COMPILE}"
    import jax

    # Seeds differ in numbers only: what was compiled for one serves all.
    jax.config.update("jax_compilation_cache_dir", compiled)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    jax.config.update("jax_disable_most_optimizations", quick)
    if quick:
        # Tracing makes millions of objects that live as long as their program.
        gc.disable()
    answer = ""
    while answer != STOPPED:
        try:
            unfinished, record = map(Path, connection.recv())
        except (EOFError, ConnectionResetError):
            return
        with (unfinished / LOG).open("w") as log, _said_to(log.fileno()):
            answer = make_run(unfinished, record, quick)
        if answer == DONE:
            shutil.rmtree(unfinished)
        connection.send(answer)
        if not quick:
            # Large programs, and hundreds of runs.
            jax.clear_caches()


def make_run(unfinished: Path, record: Path, quick: bool) -> str:
    """Trains from wherever the run is, plays with its policy and keeps the record."""
    from gemax.experiments.records import EPISODES, record_of, save_record
    from gemax.runs.session import resume, start_run
    from gemax.training.assemble import assemble
    from gemax.training.config import config_from

    run = unfinished / RUN
    try:
        if (run / "config.json").exists():
            outcome = resume(run, pictures=False)
        else:
            shutil.rmtree(run, ignore_errors=True)
            config = config_from(json.loads((unfinished / WANTED).read_text()))
            outcome = start_run(assemble(config), run, pictures=False)
        if outcome.stopped_by is not None:
            return STOPPED
        save_record(record, record_of(run, FEW_EPISODES if quick else EPISODES))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return DONE


@contextlib.contextmanager
def _said_to(descriptor: int):
    """What is printed, by Python or below it, goes there."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)

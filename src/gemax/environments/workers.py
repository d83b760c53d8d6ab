"""Environments in a process each: they start undisturbed, say what went wrong, and end, whatever they are busy with.

It knows neither jax nor networks: worker processes import it.
"""

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pickle import PicklingError
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import _async_worker

from gemax.environments.faults import EnvironmentFault

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SECONDS_AFTER_A_FAULT = 1.0
"""For those that are not stuck to close their environments, when all must end."""


class Processes(AsyncVectorEnv):
    """Gymnasium's processes, which do not die of signals that are meant for the run."""

    def __init__(self, makers: Sequence[Callable[[], gymnasium.Env]], share: bool) -> None:
        resource_tracker.ensure_running()  # which unblocks signals when it starts, hence before they are blocked
        self._unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            super().__init__(
                makers,
                shared_memory=share,
                # Not a fork: jax has threads, whose locks would stay closed in the child for ever.
                context="spawn",
                worker=work,
                autoreset_mode=AutoresetMode.DISABLED,
            )
        except (TypeError, PicklingError) as error:
            raise ValueError(
                f"what makes the environment cannot be sent to another process: {error}. Open files and connections "
                "in it, or set env_workers to sync."
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._unblocked)

    def _check_spaces(self) -> None:
        # All have started, with signals blocked as here. Ours may come again: this can take a while.
        signal.pthread_sigmask(signal.SIG_SETMASK, self._unblocked)
        try:
            super()._check_spaces()
        except BaseException as error:
            is_dead = isinstance(error, EOFError | ConnectionError)
            who = who_died(self) if is_dead else ""  # before the others end too
            end(self, SECONDS_AFTER_A_FAULT)
            if not is_dead:
                raise
            raise EnvironmentFault(
                f"{who} before its first step. Where a script trains, it must do so below "
                'if __name__ == "__main__", since every process imports it.'
            ) from error

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        with warnings.catch_warnings():
            # Gymnasium prints the traceback. What is raised has all that a user needs.
            warnings.simplefilter("ignore")
            super()._raise_if_errors(successes)


def work(index: int, make: Callable[[], gymnasium.Env], pipe: Any, *others: Any) -> None:
    """What each process does, as Gymnasium has it; but an environment that cannot be made says why."""
    # Ctrl-C, and the signals of `timeout`, go to all of a group. The run stops in its own time, and closes us then.
    os.setsid()
    for number in SIGNALS:
        before = signal.signal(number, signal.SIG_IGN)  # forgets those that came while we started
        signal.signal(number, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        env = make()
    except Exception as error:
        _, _, errors, *_ = others
        pipe.recv()
        errors.put((index, type(error), str(error), ""))
        pipe.send((None, False))
        return
    with contextlib.suppress(EOFError, ConnectionError):  # a run that was killed closes nobody
        _async_worker(index, lambda: env, pipe, *others)


def end(vector: AsyncVectorEnv, seconds: float) -> None:
    """Asks all processes to close their environments; those that have not done so in time are killed."""
    try:
        for pipe in vector.parent_pipes:
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.send(("close", None))
        until = time.monotonic() + seconds
        for process in vector.processes:
            process.join(max(0.0, until - time.monotonic()))
    finally:
        for process in vector.processes:
            process.kill()
            process.join()
        for pipe in vector.parent_pipes:
            if pipe is not None:
                pipe.close()
        vector.closed = True  # or Gymnasium would wait for them again


def who_died(vector: AsyncVectorEnv) -> str:
    """Which process went away, and how."""
    ended = wait([process.sentinel for process in vector.processes], SECONDS_AFTER_A_FAULT)
    for index, process in enumerate(vector.processes):
        if process.sentinel in ended:
            process.join()
            return f"environment {index}: its process ({process.pid}) {_death(process.exitcode)}"
    return "an environment's process went away"


def _death(exit_code: int | None) -> str:
    if exit_code == -signal.SIGKILL:
        return "was killed (signal 9), maybe because memory ran out,"
    if exit_code is not None and exit_code < 0:
        return f"died of signal {-exit_code}"
    return f"ended with exit code {exit_code}"

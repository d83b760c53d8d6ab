"""Environments in other processes, several in each: a message a process and step, however many it has.

Each process steps its share as this one would, and the shares are put side by side: the same episodes, whoever steps
them. Limits of time hold here too, where a process is stuck in what never comes back to Python; such a one is killed.
It knows neither jax nor networks: worker processes import it.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from gemax.environments.arrival import Arrival
from gemax.environments.faults import EnvironmentFault, in_words

OpenShare: TypeAlias = Callable[[range], Any]
"""Opens the environments with these numbers, to be stepped side by side: what gives `Episodes`."""

PROCESSES_A_CORE = 4
"""Environments that wait share a core with others; those that compute are not hurt by it."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SECONDS_TO_CLOSE = 10.0
SECONDS_OF_GRACE = 1.0
"""For whoever is not stuck: to say which environment was too slow, and to close its environments after a fault."""


class Worker(NamedTuple):
    """A process, and its share of the environments."""

    process: BaseProcess
    pipe: Any
    share: range

    @property
    def name(self) -> str:
        """Of its environments."""
        first, last = self.share[0], self.share[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"


class ProcessEpisodes:
    """Environments side by side, each in one of several processes.

    Args:
        open_share: Opens some of them, in their process.
        translate: From a policy's actions to theirs.
        number: How many there are.
        num_processes: How many processes they share; 0 is four a core.
        timeout_seconds: How long all of them together may take for a step; 0 lets them.
    """

    def __init__(
        self,
        open_share: OpenShare,
        translate: Callable[[np.ndarray], np.ndarray],
        number: int,
        num_processes: int,
        timeout_seconds: float,
    ) -> None:
        self._translate, self._timeout, self._steps = translate, timeout_seconds, 0
        self._workers: list[Worker] = []
        self._is_well = False  # while nobody has answered
        try:
            with _blocked_signals():
                for share in shares_of(number, num_processes or PROCESSES_A_CORE * _cores()):
                    self._workers.append(_started(open_share, share))
            self._answers(time_is_limited=False)
        except BaseException:
            self.close()
            raise

    def reset(self, seed: int) -> np.ndarray:
        """Starts an episode in all of them; gives what they show."""
        # As Gymnasium's own vectors do: a seed more for every environment.
        self._ask("reset", [seed + worker.share.start for worker in self._workers])
        return np.concatenate(self._answers())

    def step(self, action: np.ndarray) -> Arrival:
        """Takes an action in each of them."""
        self._steps += 1
        action = self._translate(action)
        self._ask("step", [action[worker.share.start : worker.share.stop] for worker in self._workers])
        return Arrival(*(np.concatenate(parts) for parts in zip(*self._answers(), strict=True)))

    def close(self) -> None:
        """Ends them all. To close again does no harm."""
        workers, self._workers = self._workers, []
        seconds = SECONDS_TO_CLOSE if self._is_well else SECONDS_OF_GRACE
        end([worker.process for worker in workers], [worker.pipe for worker in workers], seconds)

    def _ask(self, what: str, arguments: Sequence[Any]) -> None:
        for worker, argument in zip(self._workers, arguments, strict=True):
            with contextlib.suppress(ConnectionError):  # its answer will be missing
                worker.pipe.send((what, argument))

    def _answers(self, *, time_is_limited: bool = True) -> list[Any]:
        # A step may be followed by a reset, which has a limit of its own.
        limit = 2 * self._timeout + SECONDS_OF_GRACE if self._timeout and time_is_limited else None
        until = None if limit is None else time.monotonic() + limit
        self._is_well = False
        answers = [self._answer(worker, until) for worker in self._workers]
        self._is_well = True
        return answers

    def _answer(self, worker: Worker, until: float | None) -> Any:
        if not worker.pipe.poll(None if until is None else max(0.0, until - time.monotonic())):
            raise EnvironmentFault(
                f"{worker.name}, step {self._steps}: did not answer within {self._timeout:g} s. "
                "A longer env_timeout may help."
            )
        try:
            is_well, answer = worker.pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFault(self._death(worker)) from error
        if not is_well:
            raise answer
        return answer

    def _death(self, worker: Worker) -> str:
        words = f"{worker.name}: {death_of(worker.process)}"
        if self._steps:
            return f"{words} at step {self._steps}."
        return (
            f"{words} before the first step. Where a script trains, it must do so below "
            'if __name__ == "__main__", since every process imports it.'
        )


def shares_of(number: int, num_processes: int) -> list[range]:
    """The numbers of the environments of each process: as many in one as in another, or one more."""
    edges = np.linspace(0, number, min(number, num_processes) + 1).astype(int).tolist()
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def end(processes: Sequence[BaseProcess], pipes: Sequence[Any], seconds: float) -> None:
    """Asks processes to close their environments; those that have not done so in time are killed."""
    try:
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        until = time.monotonic() + seconds
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()


def death_of(process: BaseProcess) -> str:
    """How a process went away that no longer answers."""
    process.join(SECONDS_TO_CLOSE)
    code = process.exitcode
    words = f"its process ({process.pid})"
    if code == -signal.SIGKILL:
        return f"{words} was killed (signal 9), maybe because memory ran out,"
    if code is not None and code < 0:
        return f"{words} died of signal {-code}"
    return f"{words} ended with exit code {code}"


def _cores() -> int:
    return os.cpu_count() or 1


def _started(open_share: OpenShare, share: range) -> Worker:
    # Not a fork: jax has threads, whose locks would stay closed in the child for ever.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(
        target=_work,
        args=(there, CloudpickleWrapper(partial(open_share, share))),
        name=f"environments-{share.start}",
        daemon=True,
    )
    try:
        process.start()
    except (TypeError, AttributeError, PicklingError) as error:
        raise ValueError(
            f"what makes the environment cannot be sent to another process: {error}. Open files and connections in "
            "it, or set env_workers to sync."
        ) from error
    there.close()
    return Worker(process, here, share)


@contextlib.contextmanager
def _blocked_signals():
    """For processes that start: they would die of what is meant for the run."""
    resource_tracker.ensure_running()  # which unblocks signals when it starts, hence before they are blocked
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _work(pipe: Any, open_mine: Callable[[], Any]) -> None:
    """What each process does, until it is told to close or nobody is left to tell it."""
    # Ctrl-C, and the signals of `timeout`, go to all of a group. The run stops in its own time, and closes us then.
    os.setsid()
    for number in SIGNALS:
        before = signal.signal(number, signal.SIG_IGN)  # forgets those that came while we started
        signal.signal(number, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        try:
            with contextlib.closing(open_mine()) as episodes:
                pipe.send((True, None))
                doing = {"reset": episodes.reset, "step": episodes.step}
                while (asked := pipe.recv())[0] in doing:
                    pipe.send((True, doing[asked[0]](asked[1])))
        except (EOFError, ConnectionError):
            raise
        except (EnvironmentFault, ValueError) as error:
            kind = EnvironmentFault if isinstance(error, EnvironmentFault) else ValueError
            pipe.send((False, kind(str(error))))
        except Exception as error:
            pipe.send((False, EnvironmentFault(f"a process of the environments {in_words(error)}.")))

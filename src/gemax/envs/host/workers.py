"""Steps environments in worker processes, several in each, with one message per process and step.

Each process steps some of the environments, with the same code and seeds as `sync`: both give the same episodes. The
main process kills a worker that does not answer in time, even if it is stuck in code that never returns to Python.

Worker processes import this module, so it does not import JAX.
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

from gemax.envs.host.base import VectorTransition
from gemax.envs.host.faults import CLOSE_SECONDS, STOP_CHECK_SECONDS, describe_exception, timeout_fault
from gemax.envs.host.restarts import RestartBudget, RestartLimit
from gemax.errors import EnvFault
from gemax.stopping import check_stop

OpenEnvs: TypeAlias = Callable[[range], Any]
"""Opens the environments with these indices and returns them as a `HostVectorEnv`."""

PROCESSES_PER_CORE = 4
"""More than one process per core keeps the cores busy while some environments wait, for example for a simulator."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
START_SECONDS = 120.0
"""Time for a process to start and import its modules, on a busy machine too."""
GRACE_SECONDS = 1.0
"""Extra time for a worker to report which environment was too slow, and to close its environments after a fault."""


class Worker(NamedTuple):
    """A process, and the environments that it steps."""

    process: BaseProcess
    pipe: Any
    indices: range

    @property
    def name(self) -> str:
        """The indices of the environments, for error messages."""
        first, last = self.indices[0], self.indices[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"


class ProcessVectorEnv:
    """A `HostVectorEnv` that distributes its environments over worker processes.

    Args:
        open_envs: Opens the environments of one process. Called in that process.
        decode: Converts actions of the policy into actions of the environments.
        num_envs: Number of environments.
        num_processes: Number of processes. 0 stands for four per core.
        timeout_seconds: Time limit of a step of all environments. 0 stands for no limit.
        restarts: Limit of restarts of processes that die or hang. None stops at the first one.
    """

    def __init__(
        self,
        open_envs: OpenEnvs,
        decode: Callable[[np.ndarray], np.ndarray],
        num_envs: int,
        num_processes: int,
        timeout_seconds: float,
        restarts: RestartLimit | None = None,
    ) -> None:
        self._open_envs, self._decode = open_envs, decode
        self._timeout, self._steps, self._seed = timeout_seconds, 0, 0
        self._budget = None if restarts is None else RestartBudget(restarts)
        self._observation: np.ndarray | None = None
        self._workers: list[Worker] = []
        self._is_responsive = False
        num_processes = num_processes or PROCESSES_PER_CORE * (os.cpu_count() or 1)
        try:
            with _blocked_signals():
                for indices in split_envs(num_envs, num_processes):
                    self._workers.append(_start_worker(open_envs, indices))
            self._receive_all(self._start_limit())
        except BaseException:
            self.close()
            raise

    def reset(self, seed: int, first_limits: np.ndarray | None = None) -> np.ndarray:
        """Starts an episode in every environment. Returns the observations. See `HostVectorEnv.reset`."""
        ranges = [slice(worker.indices.start, worker.indices.stop) for worker in self._workers]
        limits = [None if first_limits is None else first_limits[part] for part in ranges]
        # Environment i gets seed + i, as in Gymnasium's vector environments.
        seeds = [seed + part.start for part in ranges]
        self._seed = seed
        self._observation = np.concatenate(self._call("reset", list(zip(seeds, limits, strict=True))))
        return self._observation

    def step(self, action: np.ndarray) -> VectorTransition:
        """Takes one action per environment. Returns the transitions."""
        self._steps += 1
        action = self._decode(action)
        parts = self._call("step", [(action[w.indices.start : w.indices.stop],) for w in self._workers])
        transition = VectorTransition(*map(np.concatenate, zip(*parts, strict=True)))
        self._observation = transition.current_observation
        return transition

    def close(self) -> None:
        """Closes all environments. Can be called more than once."""
        workers, self._workers = self._workers, []
        seconds = CLOSE_SECONDS if self._is_responsive else GRACE_SECONDS
        close_processes([worker.process for worker in workers], [worker.pipe for worker in workers], seconds)

    def _call(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        for worker, argument in zip(self._workers, arguments, strict=True):
            with contextlib.suppress(ConnectionError):  # reported when its answer is missing
                worker.pipe.send((method, argument))
        # A step may be followed by a reset, which has its own time limit.
        return self._receive_all(2 * self._timeout + GRACE_SECONDS if self._timeout else None)

    def _receive_all(self, limit_seconds: float | None) -> list[Any]:
        deadline = None if limit_seconds is None else time.monotonic() + limit_seconds
        self._is_responsive = False
        answers = [
            self._receive_or_restart(position, worker, deadline)
            for position, worker in enumerate(self._workers)
        ]
        self._is_responsive = True
        return answers

    def _start_limit(self) -> float | None:
        """Returns the time limit of starting a process. Its environments are made in turn, each with its own limit."""
        if not self._timeout:
            return None
        return START_SECONDS + self._timeout * max(len(worker.indices) for worker in self._workers)

    def _receive_or_restart(self, position: int, worker: Worker, deadline: float | None) -> Any:
        try:
            return self._receive(worker, deadline)
        except EnvFault as fault:
            # Before the first step, a fault is not the end of an episode but an error of the set-up.
            if self._budget is None or not self._steps:
                raise
            self._budget.spend(self._steps, fault)
        close_processes([worker.process], [worker.pipe], GRACE_SECONDS)
        with _blocked_signals():
            restarted = _start_worker(self._open_envs, worker.indices)
        self._workers[position] = restarted
        limit = self._start_limit()
        start_deadline = None if limit is None else time.monotonic() + limit
        self._receive(restarted, start_deadline)
        restarted.pipe.send(("reset", (self._seed + self._steps + worker.indices.start, None)))
        return self._dropped(worker.indices, self._receive(restarted, start_deadline))

    def _dropped(self, indices: range, observation: np.ndarray) -> VectorTransition:
        """Returns a step that ends all episodes of a process at their last observation."""
        assert self._observation is not None
        last, yes = self._observation[indices.start : indices.stop], np.ones(len(indices), bool)
        return VectorTransition(
            next_observation=last,
            reward=np.zeros(len(indices), np.float32),
            terminated=~yes,
            truncated=yes,
            current_observation=observation,
            is_first=yes,
            is_valid=yes,
            is_dropped=yes,
        )

    def _receive(self, worker: Worker, deadline: float | None) -> Any:
        while not worker.pipe.poll(_wait_seconds(deadline)):
            check_stop()
            if deadline is not None and time.monotonic() >= deadline:
                raise timeout_fault(f"{worker.name}, step {self._steps}", self._timeout)
        try:
            is_result, answer = worker.pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise EnvFault(self._exit_message(worker)) from error
        if not is_result:
            raise answer
        return answer

    def _exit_message(self, worker: Worker) -> str:
        message = f"{worker.name}: {describe_exit(worker.process)}"
        if self._steps:
            return f"{message} at step {self._steps}."
        return (
            f"{message} before the first step. A script that trains must do so below "
            'if __name__ == "__main__", because every process imports it.'
        )


def _wait_seconds(deadline: float | None) -> float:
    if deadline is None:
        return STOP_CHECK_SECONDS
    return min(STOP_CHECK_SECONDS, max(0.0, deadline - time.monotonic()))


def split_envs(num_envs: int, num_processes: int) -> list[range]:
    """Returns the indices of the environments in each process. The sizes differ by at most one."""
    edges = np.linspace(0, num_envs, min(num_envs, num_processes) + 1).astype(int).tolist()
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def close_processes(processes: Sequence[BaseProcess], pipes: Sequence[Any], seconds: float) -> None:
    """Asks processes to close their environments. Kills the processes that have not ended in time."""
    try:
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        deadline = time.monotonic() + seconds
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()


def describe_exit(process: BaseProcess) -> str:
    """Returns why a process ended, as a clause without a full stop."""
    process.join(CLOSE_SECONDS)
    code, name = process.exitcode, f"its process ({process.pid})"
    if code == -signal.SIGKILL:
        return f"{name} was killed (signal 9), maybe because memory ran out,"
    if code is not None and code < 0:
        return f"{name} died of signal {-code}"
    return f"{name} ended with exit code {code}"


def _start_worker(open_envs: OpenEnvs, indices: range) -> Worker:
    # Not fork: a lock that a thread of JAX holds would stay locked forever in the child.
    context = multiprocessing.get_context("spawn")
    pipe, worker_pipe = context.Pipe()
    process = context.Process(
        target=_run_worker,
        args=(worker_pipe, CloudpickleWrapper(partial(open_envs, indices))),
        name=f"environments-{indices.start}",
        daemon=True,
    )
    try:
        process.start()
    except (TypeError, AttributeError, PicklingError) as error:
        raise ValueError(
            f"the function that makes the environment cannot be sent to another process: {error}. Open files and "
            "connections inside of it, or set vectorization_mode to sync."
        ) from error
    worker_pipe.close()
    return Worker(process, pipe, indices)


@contextlib.contextmanager
def _blocked_signals():
    """Blocks SIGINT and SIGTERM while workers start, because a signal to the process group would kill them."""
    resource_tracker.ensure_running()  # unblocks signals when it starts, so it must start first
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _run_worker(pipe: Any, open_envs: Callable[[], Any]) -> None:
    """Runs in a worker: answers calls until the main process closes the worker or ends."""
    # In a process group of its own, the worker does not get Ctrl-C. The main process does, and closes the workers.
    os.setsid()
    for number in SIGNALS:
        handler = signal.signal(number, signal.SIG_IGN)  # discards signals that arrived during the start
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        try:
            with contextlib.closing(open_envs()) as envs:
                pipe.send((True, None))
                methods = {"reset": envs.reset, "step": envs.step}
                while (message := pipe.recv())[0] in methods:
                    pipe.send((True, methods[message[0]](*message[1])))
        except (EOFError, ConnectionError):
            raise
        except (EnvFault, ValueError) as error:
            kind = EnvFault if isinstance(error, EnvFault) else ValueError
            pipe.send((False, kind(str(error))))
        except (Exception, SystemExit) as error:
            pipe.send((False, EnvFault(f"a process of the environments {describe_exception(error)}.")))

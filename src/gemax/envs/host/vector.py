"""Steps Gymnasium's vector environments, with a time limit and error messages that name the environment.

Worker processes import this module, so it does not import JAX.
"""

import contextlib
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from gemax.envs.host.autoreset import autoreset_mode, interpret_step, resets_next, where_env
from gemax.envs.host.base import VectorTransition
from gemax.envs.host.checks import CheckedEnv, VectorCheck
from gemax.envs.host.faults import (
    CLOSE_SECONDS,
    close_in_time,
    describe_exception,
    in_main_thread,
    time_limit,
    timeout_fault,
)
from gemax.envs.host.make import MakeEnv, make_checked_env
from gemax.envs.host.observations import ObservationEncoder, observation_encoder
from gemax.envs.host.restarts import RestartBudget, RestartedEnv, RestartLimit
from gemax.envs.host.workers import GRACE_SECONDS, close_processes, describe_exit
from gemax.errors import EnvFault


class GymnasiumVectorEnv:
    """A Gymnasium vector environment as a `HostVectorEnv`. Supports all autoreset modes.

    Args:
        vector: The vector environment.
        encoder: Encodes its observations.
        decode: Converts actions of the policy into actions of the environments.
        timeout_seconds: Time limit for one step of all environments together. 0 means no limit.
        max_episode_steps: Truncates episodes after this many steps, if given.
        is_checked: Whether the single environments are `CheckedEnv`s. Otherwise results are checked here.
    """

    def __init__(
        self,
        vector: VectorEnv,
        encoder: ObservationEncoder,
        decode: Callable[[np.ndarray], np.ndarray],
        timeout_seconds: float,
        max_episode_steps: int | None,
        is_checked: bool,
    ) -> None:
        self._vector, self._encoder, self._decode = vector, encoder, decode
        self._timeout, self._steps, self._call_unfinished = timeout_seconds, 0, False
        self._mode = autoreset_mode(vector)
        # Environments whose next step only resets them (NEXT_STEP).
        self._resets_now = np.zeros(vector.num_envs, bool)
        self._max_episode_steps = max_episode_steps or np.iinfo(int).max
        self._limits: np.ndarray = np.full(vector.num_envs, self._max_episode_steps)
        self._lengths: np.ndarray = np.zeros(vector.num_envs, int)
        self._check = None if is_checked else VectorCheck(vector)

    def reset(self, seed: int, first_limits: np.ndarray | None = None) -> np.ndarray:
        """Starts an episode in every environment. Returns the observations. See `HostVectorEnv.reset`."""
        if self._timeout and not in_main_thread() and not isinstance(self._vector, AsyncVectorEnv):
            warnings.warn(
                "env_timeout only works in the main thread, and this is another thread: an environment that hangs "
                "blocks the run. Set vectorization_mode to async to have a time limit in every thread.",
                stacklevel=2,
            )
        observation = self._reset(seed=seed)
        self._resets_now, self._lengths[:] = np.zeros_like(self._resets_now), 0
        self._limits[:] = self._max_episode_steps
        if first_limits is not None and self._mode is AutoresetMode.DISABLED:
            self._limits = np.minimum(self._limits, first_limits)
        return observation

    def step(self, action: np.ndarray) -> VectorTransition:
        """Takes one action per environment. Returns the transitions."""
        self._steps += 1
        observations, rewards, terminated, truncated, infos = self._step(self._decode(action))
        truncated = self._apply_step_limit(np.asarray(terminated, bool), np.asarray(truncated, bool))
        result = observations, rewards, terminated, truncated, infos
        transition = interpret_step(self._mode, self._encoder, self._resets_now, result)
        self._resets_now = resets_next(self._mode, transition)
        ends: np.ndarray = np.logical_or(transition.terminated, transition.truncated)
        if self._mode is not AutoresetMode.DISABLED or not ends.any():
            return transition
        observation = self._reset(options={"reset_mask": ends.copy()})
        current = where_env(ends, observation, transition.current_observation)
        return transition._replace(current_observation=current, is_first=ends)

    def close(self) -> None:
        """Closes all environments, and kills processes that do not respond. Can be called more than once."""
        if isinstance(self._vector, AsyncVectorEnv):
            pipes = [pipe for pipe in self._vector.parent_pipes if pipe is not None]
            seconds = GRACE_SECONDS if self._call_unfinished else CLOSE_SECONDS
            close_processes(self._vector.processes, pipes, seconds)
            self._vector.closed = True  # otherwise Gymnasium waits for the processes again
            return
        # Each environment has its own time, so that one that hangs does not keep the others open.
        for env in self._vector.envs if isinstance(self._vector, SyncVectorEnv) else [self._vector]:
            close_in_time(env, "the environments")
        self._vector.closed = True

    def _reset(self, **arguments: Any) -> np.ndarray:
        observations, _ = self._call("reset", **arguments)
        if self._check is not None:
            self._check.check_observations(observations, self._steps)
        return self._encoder.encode(observations)

    def _step(self, actions: np.ndarray) -> tuple[Any, ...]:
        result = self._call("step", actions)
        if self._check is not None:
            self._check.check_result(result, self._steps)
        return result

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with self._limit_time_and_convert_errors() as wait_seconds:
            if not isinstance(self._vector, AsyncVectorEnv):
                return getattr(self._vector, method)(*args, **kwargs)
            getattr(self._vector, f"{method}_async")(*args, **kwargs)
            return getattr(self._vector, f"{method}_wait")(wait_seconds)

    def _apply_step_limit(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """Returns `truncated`, also true for episodes that have reached their limit."""
        self._lengths[self._resets_now] = -1  # a step that only resets does not count
        self._lengths += 1
        is_too_long = (self._lengths >= self._limits) & ~terminated & ~truncated
        if is_too_long.any() and self._mode is not AutoresetMode.DISABLED:
            raise EnvFault(
                f"environment {np.argmax(is_too_long)}, step {self._steps}: its episode has not ended after "
                f"{self._max_episode_steps:,} steps, and gemax cannot truncate episodes of a vector environment that "
                "resets itself. "
                "Give it a time limit, or raise max_episode_steps."
            )
        ended = terminated | truncated | is_too_long
        self._lengths[ended], self._limits[ended] = 0, self._max_episode_steps
        return truncated | is_too_long

    @contextlib.contextmanager
    def _limit_time_and_convert_errors(self) -> Iterator[float | None]:
        """Applies the time limit and converts exceptions to `EnvFault`.

        Yields the timeout for `*_wait`: None in the main thread, where an alarm enforces the limit.
        """
        self._call_unfinished = True
        try:
            with time_limit(self._timeout, self._timeout_fault):
                yield None if in_main_thread() else self._timeout or None
            self._call_unfinished = False
        except EnvFault:
            raise
        except multiprocessing.TimeoutError as error:
            raise self._timeout_fault() from error
        except (Exception, SystemExit) as error:
            if isinstance(error, EOFError | ConnectionError) and isinstance(self._vector, AsyncVectorEnv):
                raise self._exit_fault(self._vector) from error
            message = f"the vector environment, step {self._steps}: {describe_exception(error)}."
            raise EnvFault(message) from error

    def _exit_fault(self, vector: AsyncVectorEnv) -> EnvFault:
        ended = wait([process.sentinel for process in vector.processes], GRACE_SECONDS)
        for index, process in enumerate(vector.processes):
            if process.sentinel in ended:
                return EnvFault(f"environment {index}: {describe_exit(process)} at step {self._steps}.")
        return EnvFault(f"a process of the environments ended at step {self._steps}.")

    def _timeout_fault(self) -> EnvFault:
        location = f"the environments, step {self._steps}"
        if isinstance(self._vector, SyncVectorEnv):
            checked = (CheckedEnv, RestartedEnv)
            busy = [env for env in self._vector.envs if isinstance(env, checked) and env.is_busy]
            location = busy[0].location() if busy else location
        if isinstance(self._vector, AsyncVectorEnv):
            silent = [str(i) for i, pipe in enumerate(self._vector.parent_pipes) if pipe and not pipe.poll(0)]
            location = f"environment {', '.join(silent)}, step {self._steps}" if silent else location
        return timeout_fault(location, self._timeout)


def open_checked_envs(
    name: str,
    make: MakeEnv,
    timeout_seconds: float,
    max_episode_steps: int | None,
    restarts: RestartLimit | None,
    indices: range,
    decode: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> GymnasiumVectorEnv:
    """Makes one environment per index and steps them as one vector environment of `CheckedEnv`s.

    Error messages give the index. Environments that fail are restarted if `restarts` gives a limit.
    """
    makers = [partial(make_checked_env, name, make, timeout_seconds, index) for index in indices]
    if restarts is not None:
        budget = RestartBudget(restarts)
        makers = [partial(RestartedEnv, maker, budget) for maker in makers]
    # `GymnasiumVectorEnv` resets them, so that no terminal observation is lost and episodes can be truncated.
    # The encoder copies the observations.
    vector = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
    encoder = observation_encoder(vector.single_observation_space)
    return GymnasiumVectorEnv(vector, encoder, decode, timeout_seconds, max_episode_steps, is_checked=True)

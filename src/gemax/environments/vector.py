"""Gymnasium's vector environments: one way to step them, whoever resets them and when.

It knows neither jax nor networks: worker processes import it.
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
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from gemax.environments.arrival import Arrival
from gemax.environments.checking import Guard, complaint_about, kind_of, number_of
from gemax.environments.faults import EnvironmentFault, has_alarm, in_words, time_limit
from gemax.environments.flattening import Flattening, flattening_of
from gemax.environments.making import Make, guarded
from gemax.environments.processes import SECONDS_OF_GRACE, SECONDS_TO_CLOSE, death_of, end


class VectorEpisodes:
    """Steps environments, and starts their next episodes.

    Args:
        vector: The environments.
        flattening: What becomes of their observations.
        translate: From a policy's actions to theirs.
        timeout_seconds: How long all of them together may take for a step; 0 lets them.
        looks: Whether observations and rewards are looked at here: those of a `Guard` were already.
        longest: Steps after which an episode is cut; None lets it go on.
    """

    def __init__(
        self,
        vector: VectorEnv,
        flattening: Flattening,
        translate: Callable[[np.ndarray], np.ndarray],
        timeout_seconds: float,
        looks: bool = False,
        longest: int | None = None,
    ) -> None:
        self._vector, self._flattening, self._translate = vector, flattening, translate
        self._timeout, self._steps, self._is_waiting = timeout_seconds, 0, False
        self._mode = autoreset_mode_of(vector)
        self._was_over = np.zeros(vector.num_envs, bool)
        self._longest, self._lengths = longest, np.zeros(vector.num_envs, int)
        self._complaint = complaint_about(vector.observation_space) if looks else None
        self._complaint_of_one = complaint_about(vector.single_observation_space)

    def reset(self, seed: int) -> np.ndarray:
        """Starts an episode in all of them; gives what they show."""
        if self._timeout and not has_alarm() and not isinstance(self._vector, AsyncVectorEnv):
            warnings.warn(
                "env_timeout holds in the main thread only, and this is another one: for an environment that hangs we "
                "shall wait for ever. With env_workers async it holds everywhere.",
                stacklevel=2,
            )
        observations = self._reset_those(seed=seed)
        self._was_over[:], self._lengths[:] = False, 0
        self._look(observations)
        return self._flattening.flatten(observations)

    def step(self, action: np.ndarray) -> Arrival:
        """Takes an action in each of them."""
        self._steps += 1
        observations, rewards, terminated, truncated, infos = self._stepped(self._translate(action))
        self._look(observations)
        seen = self._flattening.flatten(observations)
        # Copies: vector environments may write into the same arrays again.
        reward, terminated = np.array(rewards, np.float32), np.array(terminated, bool)
        truncated = self._cut(terminated, np.asarray(truncated, bool)) & ~terminated
        is_over = terminated | truncated
        if self._mode == AutoresetMode.NEXT_STEP:
            was_over, self._was_over = self._was_over, is_over
            return Arrival(seen, reward, terminated, truncated, seen, was_over, ~was_over)
        if not is_over.any():
            return Arrival(seen, reward, terminated, truncated, seen, is_over, ~is_over)
        happened = np.ones_like(is_over)
        if self._mode == AutoresetMode.SAME_STEP:
            arrived = self._with_final(seen, infos, is_over)
            return Arrival(arrived, reward, terminated, truncated, seen, is_over, happened)
        observations = self._reset_those(options={"reset_mask": is_over.copy()})
        self._look(observations)
        current = seen.copy()
        current[is_over] = self._flattening.flatten(observations)[is_over]
        return Arrival(seen, reward, terminated, truncated, current, is_over, happened)

    def close(self) -> None:
        """Ends them all, the hard way where they do not listen. To close again does no harm."""
        if isinstance(self._vector, AsyncVectorEnv):
            pipes = [pipe for pipe in self._vector.parent_pipes if pipe is not None]
            end(self._vector.processes, pipes, SECONDS_OF_GRACE if self._is_waiting else SECONDS_TO_CLOSE)
            self._vector.closed = True  # or Gymnasium would wait for them again
            return
        fault = EnvironmentFault("the environments did not close in time.")
        with contextlib.suppress(Exception), time_limit(SECONDS_TO_CLOSE, lambda: fault):
            self._vector.close()

    def _reset_those(self, **which: Any) -> Any:
        """What is seen after a reset."""
        with self._watched() as patience:
            if isinstance(self._vector, AsyncVectorEnv):
                self._vector.reset_async(**which)
                return self._vector.reset_wait(patience)[0]
            return self._vector.reset(**which)[0]

    def _stepped(self, actions: np.ndarray) -> tuple[Any, ...]:
        """What a step gives."""
        with self._watched() as patience:
            if isinstance(self._vector, AsyncVectorEnv):
                self._vector.step_async(actions)
                result = self._vector.step_wait(patience)
            else:
                result = self._vector.step(actions)
        self._look_at_all_but_observations(result)
        return result

    def _cut(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """Which episodes are interrupted, those included that have become too long."""
        if self._longest is None:
            return truncated
        self._lengths[self._was_over] = -1  # where the next episode starts in a step of its own
        self._lengths += 1
        is_late = (self._lengths >= self._longest) & ~terminated & ~truncated
        if is_late.any() and self._mode != AutoresetMode.DISABLED:
            raise EnvironmentFault(
                f"environment {np.argmax(is_late)}, step {self._steps}: its episode has no end after {self._longest:,} "
                "steps, and what resets itself cannot be cut. Give it a time limit, or set another longest."
            )
        self._lengths[terminated | truncated | is_late] = 0
        return truncated | is_late

    def _with_final(self, seen: np.ndarray, infos: dict[str, Any], is_over: np.ndarray) -> np.ndarray:
        if "final_obs" not in infos:
            raise EnvironmentFault(
                "the vector environment resets in the same step, and must give the last observation of an episode as "
                f"infos['final_obs']; it gave {', '.join(infos) or 'nothing'}."
            )
        arrived, space = seen.copy(), self._vector.single_observation_space
        final = [infos["final_obs"][index] for index in np.flatnonzero(is_over)]
        batch = concatenate(space, final, create_empty_array(space, len(final)))
        arrived[is_over] = self._flattening.flatten(batch)
        return arrived

    def _look(self, observations: Any) -> None:
        """Names the environment that broke its promise, where no `Guard` has done so."""
        if self._complaint is None or (about_all := self._complaint(observations)) is None:
            return
        with contextlib.suppress(TypeError):  # what is no batch has no entries to look at
            for index, observation in enumerate(iterate(self._vector.observation_space, observations)):
                if (words := self._complaint_of_one(observation)) is not None:
                    raise EnvironmentFault(f"environment {index}, step {self._steps}: {words}.")
        raise EnvironmentFault(f"the vector environment, step {self._steps}: {about_all}.")

    def _look_at_all_but_observations(self, result: Any) -> None:
        if self._complaint is None:
            return
        who = f"the vector environment, step {self._steps}"
        if not isinstance(result, tuple) or len(result) != 5:
            raise EnvironmentFault(f"{who}: must return 5 values; got {kind_of(result)}.")
        for name, values in zip(("rewards", "terminated", "truncated"), result[1:4], strict=True):
            if np.shape(values) != (self._vector.num_envs,):
                words = f"must have the shape {(self._vector.num_envs,)}; got {np.shape(values)}"
                raise EnvironmentFault(f"{who}: {name} {words}.")
        for index, reward in enumerate(np.asarray(result[1], object)):
            if number_of(reward) is None:
                words = f"must return a reward that is a finite number; got {reward!r}"
                raise EnvironmentFault(f"environment {index}, step {self._steps}: {words}.")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[float | None]:
        """Time is limited, and whatever is raised is said in words. Gives how long to wait where no alarm rings."""
        self._is_waiting = True
        try:
            with time_limit(self._timeout, self._too_slow):
                yield None if has_alarm() else self._timeout or None
            self._is_waiting = False
        except EnvironmentFault:
            raise
        except multiprocessing.TimeoutError as error:
            raise self._too_slow() from error
        except Exception as error:
            if isinstance(error, EOFError | ConnectionError) and isinstance(self._vector, AsyncVectorEnv):
                raise EnvironmentFault(self._who_died(self._vector)) from error
            raise EnvironmentFault(
                f"the vector environment, step {self._steps}: {in_words(error)}."
            ) from error

    def _who_died(self, vector: AsyncVectorEnv) -> str:
        ended = wait([process.sentinel for process in vector.processes], SECONDS_OF_GRACE)
        for index, process in enumerate(vector.processes):
            if process.sentinel in ended:
                return f"environment {index}: {death_of(process)} at step {self._steps}."
        return f"a process of the environments went away at step {self._steps}."

    def _too_slow(self) -> EnvironmentFault:
        words = f"did not answer within {self._timeout:g} s. A longer env_timeout may help"
        if isinstance(self._vector, SyncVectorEnv):
            busy = [env for env in self._vector.envs if isinstance(env, Guard) and env.is_busy]
            if busy:
                return EnvironmentFault(f"{busy[0].where()}: {words}.")
        if isinstance(self._vector, AsyncVectorEnv):
            silent = [str(i) for i, pipe in enumerate(self._vector.parent_pipes) if pipe and not pipe.poll(0)]
            if silent:
                return EnvironmentFault(f"environment {', '.join(silent)}, step {self._steps}: {words}.")
        return EnvironmentFault(f"the environments, step {self._steps}: {words}.")


def side_by_side(
    name: str,
    make: Make,
    timeout_seconds: float,
    longest: int | None,
    numbers: range,
    translate: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> VectorEpisodes:
    """Opens single environments with these numbers, each looked at in every step."""
    makers = [partial(guarded, name, make, number) for number in numbers]
    # Ends are for us to see, before anything is reset: no observation is lost.
    vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    flattening = flattening_of(vector.single_observation_space)
    return VectorEpisodes(vector, flattening, translate, timeout_seconds, longest=longest)


def autoreset_mode_of(vector: VectorEnv) -> AutoresetMode:
    """When a vector environment starts new episodes. One that does not say so is refused: guesses lose steps."""
    mode = vector.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"a vector environment must say when it resets: metadata['autoreset_mode'] of "
            f"{type(vector.unwrapped).__name__} must be one of "
            f"{', '.join(f'AutoresetMode.{known.name}' for known in AutoresetMode)}; got {mode!r}."
        ) from None

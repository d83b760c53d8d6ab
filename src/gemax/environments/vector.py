"""Gymnasium's vector environments: one way to step them, whoever resets them and when."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from gemax.environments.base import Arrival
from gemax.environments.checking import Guard, complaint_about, number_of
from gemax.environments.faults import EnvironmentFault, time_limit
from gemax.environments.flattening import Flattening

SECONDS_TO_CLOSE = 10.0


class VectorEpisodes:
    """Steps environments, and starts their next episodes.

    Args:
        vector: The environments.
        flattening: What becomes of their observations.
        translate: From a policy's actions to theirs.
        timeout_seconds: How long all of them together may take for a step; 0 lets them.
        looks: Whether observations and rewards are looked at here: those of a `Guard` were already.
    """

    def __init__(
        self,
        vector: VectorEnv,
        flattening: Flattening,
        translate: Callable[[np.ndarray], np.ndarray],
        timeout_seconds: float,
        looks: bool = False,
    ) -> None:
        self._vector, self._flattening, self._translate = vector, flattening, translate
        self._timeout, self._steps = timeout_seconds, 0
        self._mode = autoreset_mode_of(vector)
        self._was_over = np.zeros(vector.num_envs, bool)
        self._complaint = complaint_about(vector.observation_space) if looks else None
        self._complaint_of_one = complaint_about(vector.single_observation_space)

    def reset(self, seed: int) -> np.ndarray:
        """Starts an episode in all of them; gives what they show."""
        with self._watched():
            observations, _ = self._vector.reset(seed=seed)
        self._was_over[:] = False
        self._look(observations)
        return self._flattening.flatten(observations)

    def step(self, action: np.ndarray) -> Arrival:
        """Takes an action in each of them."""
        self._steps += 1
        with self._watched():
            observations, rewards, terminated, truncated, infos = self._vector.step(self._translate(action))
        self._look(observations, rewards)
        seen = self._flattening.flatten(observations)
        # Copies: vector environments may write into the same arrays again.
        reward, terminated = np.array(rewards, np.float32), np.array(terminated, bool)
        truncated = np.asarray(truncated, bool) & ~terminated
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
        with self._watched():
            observations, _ = self._vector.reset(options={"reset_mask": is_over.copy()})
        self._look(observations)
        current = seen.copy()
        current[is_over] = self._flattening.flatten(observations)[is_over]
        return Arrival(seen, reward, terminated, truncated, current, is_over, happened)

    def close(self) -> None:
        """Ends them all, the hard way where they do not listen. To close again does no harm."""
        fault = EnvironmentFault("the environments did not close in time.")
        with (
            contextlib.suppress(Exception),
            warnings.catch_warnings(),
            time_limit(SECONDS_TO_CLOSE, lambda: fault),
        ):
            warnings.simplefilter("ignore")
            if isinstance(self._vector, AsyncVectorEnv):
                self._vector.close(terminate=True)
            else:
                self._vector.close()

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

    def _look(self, observations: Any, rewards: Any = None) -> None:
        """Names the environment that broke its promise, where no `Guard` has done so."""
        if self._complaint is None:
            return
        if rewards is not None:
            for index, reward in enumerate(np.asarray(rewards, object).reshape(-1)):
                if number_of(reward) is None:
                    words = f"must return a reward that is a finite number; got {reward!r}"
                    raise EnvironmentFault(f"environment {index}, step {self._steps}: {words}.")
        if self._complaint(observations) is None:
            return
        for index, observation in enumerate(iterate(self._vector.observation_space, observations)):
            if (words := self._complaint_of_one(observation)) is not None:
                raise EnvironmentFault(f"environment {index}, step {self._steps}: {words}.")
        raise EnvironmentFault(f"step {self._steps}: {self._complaint(observations)}.")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Time is limited, and whatever is raised is said in words."""
        try:
            with time_limit(self._timeout, self._too_slow):
                yield
        except EnvironmentFault:
            raise
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFault(f"{self._who_died()} at step {self._steps}.") from error
        except Exception as error:
            words = f"raised {type(error).__name__}: {error}"
            raise EnvironmentFault(f"the vector environment, step {self._steps}: {words}") from error

    def _too_slow(self) -> EnvironmentFault:
        words = f"did not answer within {self._timeout:g} s. A longer env_timeout may help"
        if isinstance(self._vector, SyncVectorEnv):
            busy = [env for env in self._vector.envs if isinstance(env, Guard) and env.is_busy]
            if busy:
                return EnvironmentFault(f"{busy[0].where()}: {words}.")
        if isinstance(self._vector, AsyncVectorEnv):
            silent = [str(i) for i, pipe in enumerate(self._vector.parent_pipes) if not pipe.poll(0)]
            if silent:
                return EnvironmentFault(f"environment {', '.join(silent)}, step {self._steps}: {words}.")
        return EnvironmentFault(f"the environments, step {self._steps}: {words}.")

    def _who_died(self) -> str:
        processes = self._vector.processes if isinstance(self._vector, AsyncVectorEnv) else []
        for index, process in enumerate(processes):
            process.join(0.1)
            code = process.exitcode
            if code is not None and code < 0:
                return f"environment {index}: its process ({process.pid}) died of signal {-code}, maybe out of memory,"
            if code:
                return f"environment {index}: its process ({process.pid}) ended with exit code {code}"
        return "an environment's process went away"


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

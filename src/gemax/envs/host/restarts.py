"""Restarts environments that fail: makes them again and drops their episode, a limited number of times.

Worker processes import this module, so it does not import JAX.
"""

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium

from gemax.envs.host.faults import close_in_time
from gemax.errors import EnvFault

DROPPED = "gemax_dropped"
"""Key in the infos of a step that ends an episode because its environment failed."""


class RestartLimit(NamedTuple):
    """How often environments may be restarted: at most `max_restarts` times within `num_steps` steps."""

    max_restarts: int
    num_steps: int


class RestartBudget:
    """Counts restarts. Raises the fault if there were too many of them lately."""

    def __init__(self, limit: RestartLimit) -> None:
        self._limit = limit
        self._steps: deque[int] = deque(maxlen=limit.max_restarts)

    def spend(self, step: int, fault: EnvFault) -> None:
        """Counts a restart at a step, and warns about the fault that caused it.

        Raises:
            EnvFault: The limit is exceeded.
        """
        max_restarts, num_steps = self._limit
        if len(self._steps) == max_restarts and step - self._steps[0] < num_steps:
            raise EnvFault(
                f"{fault} This is the fault after {max_restarts} restarts within {num_steps:,} steps: giving up."
            ) from fault
        self._steps.append(step)
        warnings.warn(f"{fault} It is restarted, and its episode is dropped.", stacklevel=2)


class RestartedEnv(gymnasium.Wrapper):
    """An environment that is made again if it fails. The step that fails ends the episode, without a reward.

    Args:
        make: Makes the environment.
        budget: Shared by all environments of a process.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], budget: RestartBudget) -> None:
        super().__init__(make())
        self._make, self._budget = make, budget
        self._num_steps, self._observation = 0, None
        self._seed, self._next_seed = 0, None

    @property
    def is_busy(self) -> bool:
        """Whether the environment is executing a call."""
        return getattr(self.env, "is_busy", False)

    def location(self) -> str:
        """Returns the environment, step, episode and last call, for error messages."""
        return self.env.get_wrapper_attr("location")()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode, in a new environment if this one fails."""
        self._seed = self._seed if seed is None else seed
        while True:
            try:
                first_seed = self._next_seed if seed is None else seed
                self._observation, info = self.env.reset(seed=first_seed, options=options)
                self._next_seed = None
                return self._observation, info
            except EnvFault as fault:
                self._restart(fault)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes an action. If the environment fails, truncates the episode at its last observation."""
        self._num_steps += 1
        try:
            result: Any = self.env.step(action)
        except EnvFault as fault:
            self._restart(fault)
            return self._observation, 0.0, False, True, {DROPPED: True}
        self._observation = result[0]
        return result

    def _restart(self, fault: EnvFault) -> None:
        while True:
            self._budget.spend(self._num_steps, fault)
            close_in_time(self.env, "the environment that failed")
            try:
                self.env = self._make()
            except EnvFault as another:
                fault = another
            else:
                # A new environment has no seed yet. This one is the same if the run is repeated.
                self._next_seed = (self._seed + self._num_steps) % 2**31
                return

"""Records episodes in the environment's own format: observations before encoding, actions after decoding."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from gemax.types import Episode


class Recorder(gymnasium.Wrapper):
    """Records the first episodes of an environment. Every episode has its own seed.

    Args:
        env: The environment.
        seeds: Yields the seed of each episode. Several environments may share the iterator.
        num_episodes: Number of episodes to record.
    """

    def __init__(self, env: gymnasium.Env, seeds: Iterator[int], num_episodes: int) -> None:
        super().__init__(env)
        self._seeds, self._seed = seeds, 0
        self._observations: list[Any] = []
        self._steps: list[tuple[Any, float, bool, bool]] = []
        """Action, reward, terminated and truncated of each step of the current episode."""
        self._finished: list[Episode] = []
        self.num_remaining = num_episodes
        """Number of episodes that are still to be recorded."""

    def take(self) -> list[Episode]:
        """Returns the episodes that have ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts the next episode, with the next of `seeds`. Ignores the argument `seed`."""
        if self._steps:
            # The last episode was reset before its end, so it counts as truncated.
            self._steps[-1] = (*self._steps[-1][:3], True)
            self._finish()
        self._seed = next(self._seeds)
        observation, info = self.env.reset(seed=self._seed, options=options)
        self._observations = [_copy(observation)]
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes an action and records the step."""
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        self._observations.append(_copy(observation))
        self._steps.append((_copy(action), float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            self._finish()
        return result

    def _finish(self) -> None:
        steps, self._steps = self._steps, []
        if self.num_remaining:
            self.num_remaining -= 1
            columns = (_stack(list(column)) for column in zip(*steps, strict=True))
            self._finished.append(Episode(_stack(self._observations), *columns, seed=self._seed))


def _copy(value: Any) -> Any:
    """Copies arrays, because environments may reuse them."""
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    return value if isinstance(value, str) else np.array(value)


def _stack(values: list[Any]) -> Any:
    """Stacks values into arrays, one per leaf of a dict or tuple. Strings stay a list."""
    if isinstance(values[0], dict):
        return {name: _stack([value[name] for value in values]) for name in values[0]}
    if isinstance(values[0], tuple):
        return tuple(_stack(list(parts)) for parts in zip(*values, strict=True))
    return values if isinstance(values[0], str) else np.stack(values)

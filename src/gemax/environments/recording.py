"""An environment that keeps what happens in it, as it happens: nothing is flattened, cast or centred."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np


@dataclass
class Recorded:
    """An episode on the host. There is one observation more than there are actions."""

    seed: int
    observations: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminations: list[bool] = field(default_factory=list)
    truncations: list[bool] = field(default_factory=list)


class Recorder(gymnasium.Wrapper):
    """Records the first episodes of an environment, each of which starts from a seed of its own.

    Args:
        env: The environment.
        seeds: Where the next seed comes from; environments side by side may share it.
        number: How many episodes are kept.
    """

    def __init__(self, env: gymnasium.Env, seeds: Iterator[int], number: int) -> None:
        super().__init__(env)
        self._finished: list[Recorded] = []
        self._seeds = seeds
        self._current: Recorded | None = None
        self.missing = number
        """How many episodes are yet to be recorded."""
        self.cut = 0
        """How many of them had no end."""

    def take(self) -> list[Recorded]:
        """The episodes that have ended since they were last taken."""
        finished, self._finished = self._finished, []
        return finished

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts the next episode, from its own seed instead of the one that is given."""
        if self._current is not None and self._current.actions:
            # It is left before its end.
            self._current.truncations[-1] = True
            self.cut += self.missing > 0
            self._finish(self._current)
        seed = next(self._seeds)
        observation, info = self.env.reset(seed=seed, options=options)
        self._current = Recorded(seed, [_copy(observation)])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes an action."""
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        now = self._current
        assert now is not None, "an episode starts with a reset"
        now.observations.append(_copy(observation))
        now.actions.append(_copy(action))
        now.rewards.append(float(reward))
        now.terminations.append(bool(terminated))
        now.truncations.append(bool(truncated))
        if terminated or truncated:
            self._finish(now)
        return result

    def _finish(self, episode: Recorded) -> None:
        self._current = None
        if self.missing:
            self._finished.append(episode)
            self.missing -= 1


def _copy(value: Any) -> Any:
    """Environments may write into the same arrays again."""
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_copy(part) for part in value)
    return value if isinstance(value, str) else np.array(value)

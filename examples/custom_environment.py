"""Trains an agent in a custom Gymnasium environment: a corridor with a reward at its end.

`python examples/custom_environment.py [UPDATES]` takes a minute or two. There is no other reward, so an agent without
an intrinsic reward (`method="none"`) does not learn.
"""

import sys
from typing import Any

import gymnasium
import numpy as np

import gemax


class Corridor(gymnasium.Env):
    """Twenty cells in a row. The last cell has reward 1 and ends the episode."""

    observation_space = gymnasium.spaces.Discrete(20)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts in the first cell."""
        super().reset(seed=seed)
        self._cell, self._time = 0, 0
        return self._cell, {}

    def step(self, action: int):
        """Moves left (0) or right (1)."""
        self._cell = int(np.clip(self._cell + (1 if action else -1), 0, 19))
        self._time += 1
        terminated = self._cell == 19
        return self._cell, float(terminated), terminated, self._time >= 40, {}


def main(updates: int = 600, out: str = "runs/corridor", **settings: Any) -> float:
    """Trains, then runs one episode with the policy. Returns its last reward."""
    run = gemax.train(Corridor, updates=updates, horizon=40, out=out, **settings)
    policy, env = run.policy(), Corridor()
    observation, _ = env.reset(seed=0)
    reward, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward))
        done = terminated or truncated
    print(f"The episode took {env._time} steps and ended with reward {reward}.")
    return reward


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))

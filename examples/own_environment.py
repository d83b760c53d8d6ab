"""An agent that explores an environment of your own: a corridor with a reward at its far end.

`python examples/own_environment.py` takes a minute or two. Nothing is earned on the way, so an agent without an
intrinsic reward walks to and fro; try `method="none"`.
"""

import sys
from typing import Any

import gymnasium
import numpy as np

import gemax


class Corridor(gymnasium.Env):
    """Twenty places in a row. The last one pays 1 and ends the episode."""

    observation_space = gymnasium.spaces.Discrete(20)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts at the first place."""
        super().reset(seed=seed)
        self._place, self._time = 0, 0
        return self._place, {}

    def step(self, action: int):
        """Goes left or right."""
        self._place = int(np.clip(self._place + (1 if action else -1), 0, 19))
        self._time += 1
        is_there = self._place == 19
        return self._place, float(is_there), is_there, self._time >= 40, {}


def main(updates: int = 600, out: str = "runs/corridor") -> float:
    """Trains, then walks once with what was learned; gives what the walk earned."""
    run = gemax.train(Corridor, updates=updates, horizon=40, out=out)
    policy, env = gemax.load(run.path, environment=Corridor), Corridor()
    observation, _ = env.reset(seed=0)
    reward, is_over = 0.0, False
    while not is_over:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward))
        is_over = terminated or truncated
    print(f"The walk took {env._time} steps and earned {reward}.")
    return reward


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))

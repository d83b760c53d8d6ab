"""Environments for actors in other processes, which import them by name."""

import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

SIZE = 5


class Corner(gymnasium.Env):
    """A square room. The agent starts in one corner, and the reward is in the opposite one."""

    observation_space = Box(0.0, 1.0, (2 * SIZE,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._row = self._column = 0
        return self._observation(), {}

    def step(self, action):
        self._row = min(max(self._row + (action == 0) - (action == 1), 0), SIZE - 1)
        self._column = min(max(self._column + (action == 2) - (action == 3), 0), SIZE - 1)
        is_there = self._row == self._column == SIZE - 1
        return self._observation(), float(is_there), is_there, False, {}

    def _observation(self):
        return np.eye(SIZE, dtype=np.float32)[[self._row, self._column]].reshape(-1)


class Waiting(Corner):
    """Waits in every step, as for a simulator on another machine."""

    def step(self, action):
        time.sleep(float(os.environ.get("GEMAX_TEST_STEP_SECONDS", "0.005")))
        return super().step(action)


def in_actor():
    """Whether this is a process of Ray."""
    return "default_worker" in sys.argv[0] or sys.argv[0].startswith("ray::")


class FailsOnNode(Corner):
    """Raises an exception where it is made, but only in actors."""

    def __init__(self):
        if in_actor():
            raise FileNotFoundError("no licence on this machine")


class DiesOnNode(Corner):
    """Ends its process without an exception, as a crash in compiled code does, but only in actors."""

    def step(self, action):
        if in_actor():
            os._exit(139)
        return super().step(action)


for env in (Corner, Waiting, FailsOnNode, DiesOnNode):
    gymnasium.register(f"{env.__name__}-v0", env, max_episode_steps=20, reward_threshold=0.9)

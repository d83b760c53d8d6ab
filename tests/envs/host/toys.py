"""Environments for tests: one that counts, one with faults, and variants of them."""

import ctypes
import os
import signal
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

FAULTS = {
    "nan": (np.array([np.nan, 0.0], np.float32), 0.0),
    "infinite": (np.array([np.inf, 0.0], np.float32), 0.0),
    "shape": (np.zeros(3, np.float32), 0.0),
    "dtype": (np.array(["a", "b"]), 0.0),
    "range": (np.array([1e9, 0.0], np.float32), 0.0),
    "reward nan": (np.zeros(2, np.float32), float("nan")),
    "reward none": (np.zeros(2, np.float32), None),
    "reward text": (np.zeros(2, np.float32), "one"),
}


class Counting(gymnasium.Env):
    """Observes a random number of the episode and the step. The reward is the step plus the action.

    Episodes terminate after a random number of steps, at least one, and are truncated after `limit` steps.
    """

    observation_space = spaces.Box(-1000.0, 1000.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, limit: int = 5) -> None:
        self._limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._number = int(self.np_random.integers(1000))
        self._length, self._step = int(self.np_random.integers(1, 8)), 0
        return self._observation(), {}

    def step(self, action):
        self._step += 1
        terminated, truncated = self._step >= self._length, self._step >= self._limit
        return self._observation(), float(self._step + action), terminated, truncated, {}

    def _observation(self):
        return np.array([self._number, self._step], np.float32)


class JaxDetector(Counting):
    """Observes whether its process has imported JAX."""

    def _observation(self):
        return np.asarray(["jax" in sys.modules, 0.0], np.float32)


class Faulty(Counting):
    """Has a fault at a given step, counted over all episodes."""

    def __init__(self, fault: str, at: int = 3) -> None:
        super().__init__()
        self._fault, self._at, self._steps = fault, at, 0

    def reset(self, *, seed=None, options=None):
        if self._fault == "reset" and self._steps >= self._at:
            raise RuntimeError("the robot does not get up")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._steps += 1
        observation, reward, terminated, truncated, info = super().step(action)
        if self._steps == self._at:
            if self._fault == "raises":
                raise RuntimeError("the robot fell over")
            if self._fault == "hangs":
                time.sleep(1000)
            if self._fault == "stuck":
                # Blocks all signals, and does not return to Python.
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                ctypes.PyDLL(None).sleep(1000)
            if self._fault == "exits":
                sys.exit("the simulator exits")
            if self._fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._fault == "four":
                return observation, reward, terminated, info
            if self._fault in FAULTS:
                observation, reward = FAULTS[self._fault]
        return observation, reward, terminated, truncated, info


class LeavesFile(Faulty):
    """Creates a file when it is closed."""

    def __init__(self, folder) -> None:
        super().__init__("raises")
        self._folder = folder

    def close(self):
        (self._folder / f"{os.getpid()}-{id(self)}").touch()


class HangsIn(Counting):
    """Hangs in, or raises or exits from, its constructor or `close`."""

    def __init__(self, method: str, how: str) -> None:
        super().__init__()
        self._fail_in = {method: how}
        self._fail("constructor")

    def close(self):
        self._fail("close")

    def _fail(self, method):
        how = self._fail_in.get(method)
        if how == "hangs":
            time.sleep(1000)
        if how == "raises":
            raise RuntimeError("the cable is stuck")
        if how == "exits":
            sys.exit(7)


class Endless(Counting):
    """Its episodes never end."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}


class Slow(Counting):
    """Steps slowly, so that tests can interrupt an update."""

    def step(self, action):
        time.sleep(0.2)
        return super().step(action)


def fragile() -> Counting:
    """Kills its process after some steps, unless MENDED is set."""
    return Slow() if "MENDED" in os.environ else Faulty("killed", at=11)


class SamplesSpace(gymnasium.Env):
    """Observes random samples of a space, and checks that actions are in another space."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space | None = None) -> None:
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self._step = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self._step += 1
        return self.observation_space.sample(), 0.0, False, self._step == 4, {}


gymnasium.register("gemax-test/Counting-v0", entry_point=Counting, max_episode_steps=50, reward_threshold=3.0)
gymnasium.register("gemax-test/Fragile-v0", entry_point=fragile)

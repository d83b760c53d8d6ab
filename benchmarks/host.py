"""Measures the throughput of training in a Gymnasium environment, as a share of the environment's own throughput.

`make bench-host`

A step of the environment takes a millisecond. It either waits, as for a remote simulator, or computes. The time of
the agent, the learner and the checks should be hidden behind it. Without training, it is stepped by Gymnasium's
vector environments and by those of gemax. In async mode, Gymnasium uses one process per environment, gemax fewer.
"""

import json
import statistics
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gemax.runs.provenance import provenance
from gemax.training.assemble import CUSTOM_ENV, CustomParts, assemble
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure

SECONDS_PER_STEP = 1e-3
ROUNDS = 5
UPDATES = 15
"""Updates per round."""


class SlowEnv(gymnasium.Env):
    """An environment whose steps take a fixed time."""

    observation_space = spaces.Box(-1.0, 1.0, (16,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, computes: bool) -> None:
        self._computes = computes

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Resets the observation to zero."""
        super().reset(seed=seed)
        self._time, self._history = 0, np.zeros(16, np.float32)
        return self._history, {}

    def step(self, action: int):
        """Waits or computes, then shifts the action into the observation."""
        end = time.perf_counter() + SECONDS_PER_STEP
        if self._computes:
            while time.perf_counter() < end:
                pass
        else:
            time.sleep(SECONDS_PER_STEP)
        self._time += 1
        self._history = np.roll(self._history, 1) * 0.99
        self._history[0] = (action - 1.5) / 2.0
        return self._history, 0.0, False, self._time >= 200, {}


def main() -> None:
    cases = {
        "waits": (False, "sync"),
        "computes": (True, "sync"),
        "waits, processes": (False, "async"),
        "computes, processes": (True, "async"),
    }
    results = {name: measure(*case) for name, case in cases.items()}
    for name, result in results.items():
        print(f"{name:>20}: " + ", ".join(f"{key} {value:,.2f}" for key, value in result.items()))
    content = {"seconds_a_step": SECONDS_PER_STEP, **results, **provenance()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


def measure(computes: bool, workers: str) -> dict[str, float]:
    """Measures bare steps and training in turn, so that other load on the machine affects both."""
    config = configure(CUSTOM_ENV, updates=(ROUNDS + 1) * UPDATES, vectorization_mode=workers)
    trainer = assemble(config, custom=CustomParts(make_env=partial(SlowEnv, computes)))
    num_envs = config.env.num_envs
    bare = _gymnasium_envs(computes, workers, num_envs)
    bare.reset(seed=0)
    ours, action = trainer.collector.env.open(num_envs), np.zeros(num_envs, int)
    ours.reset(0)
    training = train(trainer, initial_states(trainer))
    _seconds(partial(_train, training))  # compiles
    num_steps = UPDATES * config.agent.unroll_period
    seconds = [
        (
            _seconds(partial(_step, bare, num_steps)),
            _seconds(lambda: [ours.step(action) for _ in range(num_steps)]),
            _seconds(partial(_train, training)),
        )
        for _ in range(ROUNDS)
    ]
    training.close()
    ours.close()
    bare.close()
    frames = num_steps * num_envs
    return {
        "Gymnasium's frames/s": statistics.median(frames / bare for bare, _, _ in seconds),
        "ours, untrained": statistics.median(frames / alone for _, alone, _ in seconds),
        "trained": statistics.median(frames / trained for _, _, trained in seconds),
        "share of Gymnasium's": statistics.median(bare / trained for bare, _, trained in seconds),
        "share of ours": statistics.median(alone / trained for _, alone, trained in seconds),
    }


def _gymnasium_envs(computes: bool, workers: str, num_envs: int) -> gymnasium.vector.VectorEnv:
    makers = [partial(SlowEnv, computes)] * num_envs
    if workers == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    return gymnasium.vector.AsyncVectorEnv(makers, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)


def _step(envs: gymnasium.vector.VectorEnv, num_steps: int) -> None:
    for _ in range(num_steps):
        envs.step(envs.action_space.sample())


def _train(training) -> None:
    for _ in range(UPDATES):
        next(training)


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

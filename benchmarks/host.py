"""Steps per second of training in an environment on the host, as a share of what the environment gives alone.

`make bench-host`

The environment costs a millisecond a step: it either waits, as for a simulator elsewhere, or computes. What the
agent, the learner and our checks add should hide behind it. Alone it is stepped by Gymnasium's own vectors, a process
each where there are any, and by ours, which deal the environments out to fewer processes.
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
from gemax.training.assemble import OWN_ENVIRONMENT, Own, assemble
from gemax.training.loop import begin
from gemax.training.outside import train_outside
from gemax.training.presets import configure

SECONDS_A_STEP = 1e-3
ROUNDS = 5
UPDATES = 15
"""In a round."""


class Slow(gymnasium.Env):
    """A walk of many steps, each of which takes its time."""

    observation_space = spaces.Box(-1.0, 1.0, (16,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, computes: bool) -> None:
        self._computes = computes

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Starts an episode."""
        super().reset(seed=seed)
        self._step, self._place = 0, np.zeros(16, np.float32)
        return self._place, {}

    def step(self, action: int):
        """Walks."""
        end = time.perf_counter() + SECONDS_A_STEP
        if self._computes:
            while time.perf_counter() < end:
                pass
        else:
            time.sleep(SECONDS_A_STEP)
        self._step += 1
        self._place = np.roll(self._place, 1) * 0.99
        self._place[0] = (action - 1.5) / 2.0
        return self._place, 0.0, False, self._step >= 200, {}


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
    path = Path(__file__).with_suffix(".json")
    path.write_text(
        json.dumps({"seconds_a_step": SECONDS_A_STEP, **results, **provenance()}, indent=2) + "\n"
    )


def measure(computes: bool, workers: str) -> dict[str, float]:
    """Bare steps and training in turn, so that a busy machine slows both alike."""
    config = configure(OWN_ENVIRONMENT, updates=(ROUNDS + 1) * UPDATES, env_workers=workers)
    trainer = assemble(config, own=Own(environment=partial(Slow, computes)))
    bare = _bare(computes, workers, config.num_worlds)
    bare.reset(seed=0)
    ours, action = trainer.world.open(config.num_worlds), np.zeros(config.num_worlds, int)
    ours.reset(0)
    episodes = trainer.world.open(config.num_worlds)
    training = train_outside(trainer, begin(trainer), trainer.world, episodes)
    _seconds(partial(_train, training))  # compiles
    steps = UPDATES * config.trace_period
    seconds = [
        (
            _seconds(partial(_step, bare, steps)),
            _seconds(lambda: [ours.step(action) for _ in range(steps)]),
            _seconds(partial(_train, training)),
        )
        for _ in range(ROUNDS)
    ]
    episodes.close()
    ours.close()
    bare.close()
    frames = steps * config.num_worlds
    return {
        "Gymnasium's frames/s": statistics.median(frames / bare for bare, _, _ in seconds),
        "ours, untrained": statistics.median(frames / alone for _, alone, _ in seconds),
        "trained": statistics.median(frames / trained for _, _, trained in seconds),
        "share of Gymnasium's": statistics.median(bare / trained for bare, _, trained in seconds),
        "share of ours": statistics.median(alone / trained for _, alone, trained in seconds),
    }


def _bare(computes: bool, workers: str, number: int) -> gymnasium.vector.VectorEnv:
    makers = [partial(Slow, computes)] * number
    if workers == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    return gymnasium.vector.AsyncVectorEnv(makers, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)


def _step(vector: gymnasium.vector.VectorEnv, steps: int) -> None:
    for _ in range(steps):
        vector.step(vector.action_space.sample())


def _train(training) -> None:
    for _ in range(UPDATES):
        next(training)


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

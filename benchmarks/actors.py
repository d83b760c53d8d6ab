"""Measures training with 1, 2, 4 and 8 Ray actors, and the cost of the Ray path for a cheap environment.

`make bench-actors`

Each actor has four environments. In the first table they wait 5 ms in every step, as for a simulator on another
machine, so that two cores are not the limit. Run it on an idle machine.
"""

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import psutil

from gemax.launch.ray_cluster import ray_cluster
from gemax.training.config import Config

STEP_SECONDS = 0.005
ENVS_PER_ACTOR = 4
NUM_STEPS = 32
WARM_UP, MEASURED = 4, 16
"""Number of updates before and during the measurement."""


class Waiting(gymnasium.Wrapper):
    """CartPole that waits in every step."""

    def step(self, action):
        """Waits and takes a step."""
        time.sleep(STEP_SECONDS)
        return self.env.step(action)


def make_waiting() -> gymnasium.Env:
    return Waiting(gymnasium.make("CartPole-v1"))


def make_cheap() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


class Speed(NamedTuple):
    """Speed of training, and what it costs."""

    frames_per_second: float
    actor_milliseconds: float
    """Processor time of all actors per frame."""
    learner_milliseconds: float
    """Processor time of this process per frame. Includes acting if there are no actors."""
    policy_lag_updates: float


def training_speed(make_env, num_envs: int, ray: Any = None, num_actors: int = 0) -> Speed:
    """Trains with small networks in an environment, in this process or with Ray actors."""
    # Imported here, because Ray must start before JAX does.
    from gemax.launch.ray_collector import with_ray_actors
    from gemax.training.assemble import CustomParts, assemble
    from gemax.training.loop import initial_states

    trainer = assemble(small_config(num_envs), CustomParts(make_env=make_env))
    if num_actors:
        trainer = with_ray_actors(trainer, ray, num_actors, make_env, print)
    updates = trainer.collector.updates(trainer, initial_states(trainer))
    next(itertools.islice(updates, WARM_UP - 1, None))
    start, actors, learner = time.perf_counter(), actor_seconds(), time.process_time()
    _, history = next(itertools.islice(updates, MEASURED - 1, None))
    seconds = time.perf_counter() - start
    num_frames = MEASURED * num_envs * NUM_STEPS
    speed = Speed(
        num_frames / seconds,
        1e3 * (actor_seconds() - actors) / num_frames,
        1e3 * (time.process_time() - learner) / num_frames,
        float(history["policy_lag_updates"].mean()) if num_actors else 1.0,
    )
    list(updates)
    return speed


def small_config(num_envs: int) -> Config:
    from gemax.training.assemble import CUSTOM_ENV
    from gemax.training.presets import configure

    return configure(
        CUSTOM_ENV,
        num_envs=num_envs,
        unroll_length=NUM_STEPS,
        unroll_period=NUM_STEPS,
        updates=WARM_UP + MEASURED + 1,
        torso_size=32,
        lstm_size=16,
        head_size=16,
        embedding_size=8,
    )


def actor_seconds() -> float:
    """Returns the processor time of all actors so far."""
    actors = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.name().startswith("ray::EnvActor")
    ]
    return sum(sum(actor.cpu_times()[:2]) for actor in actors)


def main() -> None:
    load = os.getloadavg()[0]
    with ray_cluster("", num_cpus=8) as ray:
        waiting = {
            number: training_speed(make_waiting, number * ENVS_PER_ACTOR, ray, number)
            for number in (1, 2, 4, 8)
        }
        cheap = {
            "in this process": training_speed(make_cheap, 16),
            "1 Ray actor": training_speed(make_cheap, 16, ray, 1),
            "2 Ray actors": training_speed(make_cheap, 16, ray, 2),
        }
    print("| actors | frames/s | of linear | actors, ms per frame | learner, ms per frame |")
    print("|---:|---:|---:|---:|---:|")
    for number, speed in waiting.items():
        share = speed.frames_per_second / number / waiting[1].frames_per_second
        print(
            f"| {number} | {speed.frames_per_second:,.0f} | {share:.0%} | {speed.actor_milliseconds:.2f} "
            f"| {speed.learner_milliseconds:.2f} |"
        )
    for name, speed in cheap.items():
        print(
            f"CartPole, {name}: {speed.frames_per_second:,.0f} frames/s, processor time per frame: actors "
            f"{speed.actor_milliseconds:.2f} ms, learner {speed.learner_milliseconds:.2f} ms"
        )
    from gemax.runs.provenance import provenance

    content = {
        "command": "make bench-actors",
        "load_before": load,
        "waiting": {number: speed._asdict() for number, speed in waiting.items()},
        "cheap": {name: speed._asdict() for name, speed in cheap.items()},
        **provenance(),
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

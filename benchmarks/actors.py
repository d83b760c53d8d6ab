"""Measures frames per second with 1, 2, 4 and 8 Ray actors, and the cost of the Ray path for a cheap environment.

The first environment waits 5 ms in every step, as for a simulator on another machine, so that two cores are not the
limit. Run it with `python benchmarks/actors.py` after `pip install 'gemax[ray]'`.
"""

import itertools
import time
from collections.abc import Iterator

import gymnasium

from gemax.launch.actor_pool import ActorPool
from gemax.launch.options import LaunchOptions
from gemax.launch.placement import placement
from gemax.launch.ray_cluster import ray_cluster
from gemax.training.config import Config
from gemax.training.presets import configure
from gemax.version import VERSION

STEP_SECONDS = 0.005
NUM_STEPS = 32
WARM_UP, MEASURED = 3, 20
"""Number of rollouts, or updates, before and during the measurement."""


class Waiting(gymnasium.Wrapper):
    """CartPole that waits in every step."""

    def step(self, action):
        """Waits and takes a step."""
        time.sleep(STEP_SECONDS)
        return self.env.step(action)


def make_waiting() -> gymnasium.Env:
    return Waiting(gymnasium.make("CartPole-v1"))


def small_config(**settings) -> Config:
    sizes = {"torso_size": 32, "lstm_size": 16, "head_size": 16, "embedding_size": 8}
    return configure("gym:CartPole-v1", **sizes, unroll_length=NUM_STEPS, unroll_period=NUM_STEPS, **settings)


def measure(rounds: Iterator, frames_per_round: int) -> float:
    """Returns frames per second over `MEASURED` rounds."""
    next(itertools.islice(rounds, WARM_UP - 1, None))
    start = time.perf_counter()
    next(itertools.islice(rounds, MEASURED - 1, None))
    return MEASURED * frames_per_round / (time.perf_counter() - start)


def acting_speed(ray, num_actors: int) -> float:
    """Returns the frames per second that actors of one waiting environment each collect, without learning."""
    from gemax.training.assemble import CUSTOM_ENV, CustomParts, assemble
    from gemax.training.host_rollout import PolicySnapshot
    from gemax.training.loop import initial_states

    config = small_config(num_envs=max(num_actors, 8)).replace(env_id=CUSTOM_ENV)
    trainer = assemble(config, CustomParts(make_env=make_waiting))
    state = initial_states(trainer)
    policy = PolicySnapshot(
        state.parameters, trainer.network.tables(state.parameters), state.observation_moments
    )
    pool = ActorPool(
        ray,
        (config.to_json(), make_waiting, trainer.spec.horizon, VERSION),
        num_actors=num_actors,
        num_envs=num_actors,
        num_steps=NUM_STEPS,
        max_pending=2,
        seed=0,
        log=print,
    )

    def rounds():
        for number in itertools.count():
            pool.publish(policy, number)
            yield pool.next_rollouts()

    speed = measure(rounds(), num_actors * NUM_STEPS)
    pool.close()
    return speed


def training_speed(options: LaunchOptions) -> float:
    """Returns the frames per second of training in CartPole, which takes microseconds per step."""
    config = small_config(num_envs=16, updates=WARM_UP + MEASURED + 1)
    with placement(options, config, print) as place:
        from gemax.training.assemble import assemble
        from gemax.training.loop import initial_states

        trainer = place(assemble(config))
        updates = trainer.collector.updates(trainer, initial_states(trainer))
        speed = measure(updates, config.frames_per_update)
        list(updates)
    return speed


def main() -> None:
    with ray_cluster("", num_cpus=8) as ray:
        speeds = {number: acting_speed(ray, number) for number in (1, 2, 4, 8)}
    print("| actors | frames/s | of linear |")
    print("|---:|---:|---:|")
    for number, speed in speeds.items():
        print(f"| {number} | {speed:,.0f} | {speed / number / speeds[1]:.0%} |")
    for name, options in {
        "in this process": LaunchOptions(),
        "1 Ray actor": LaunchOptions("ray", actors=1),
        "2 Ray actors": LaunchOptions("ray", actors=2),
    }.items():
        print(f"CartPole, {name}: {training_speed(options):,.0f} frames/s")


if __name__ == "__main__":
    main()

"""Steps per second of two-rooms under a random policy, against gymnax's and MiniGrid's FourRooms.

`make bench-worlds`
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import minigrid  # noqa: F401 registers its environments

from gemax.runs.provenance import provenance
from gemax.worlds.base import step_and_reset
from gemax.worlds.registry import two_rooms

BATCHES = (64, 1024)
STEPS = 1000
ROUNDS = 7


def ours(batch: int, what: str) -> Callable[[], None]:
    world = two_rooms("pixels")
    look = {
        "state": lambda state, transition: world.finite.square_index(state),
        "table": lambda state, transition: world.finite.observation_index(state),
        "pixels": lambda state, transition: transition.current.observation.sum(dtype=jnp.int32),
    }[what]

    def one_step(state, key):
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, world.num_actions)
        state, transition = step_and_reset(world, step_key, state, action)
        return state, (transition.arrived.reward, transition.is_first, look(state, transition))

    def rollout(key, state):
        return jax.lax.scan(one_step, state, jax.random.split(key, STEPS))

    return compiled(rollout, lambda key: world.reset(key)[0], batch)


def theirs(batch: int) -> Callable[[], None]:
    world, parameters = gymnax.make("FourRooms-misc")

    def one_step(state, key):
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, world.num_actions)
        observation, state, reward, terminated, truncated, _ = world.step(step_key, state, action, parameters)
        return state, (reward, terminated | truncated, observation)

    def rollout(key, state):
        return jax.lax.scan(one_step, state, jax.random.split(key, STEPS))

    return compiled(rollout, lambda key: world.reset(key, parameters)[1], batch)


def compiled(rollout, start, batch: int) -> Callable[[], None]:
    """All worlds side by side in one compiled call; the outcome of every step is kept."""
    keys = jax.random.split(jax.random.key(0), batch)
    states = jax.vmap(start)(keys)
    call = jax.jit(jax.vmap(rollout))
    return lambda: jax.block_until_ready(call(keys, states))


def on_the_host(batch: int, num_steps: int) -> Callable[[], None]:
    """MiniGrid through Gymnasium's vector environment."""
    environment = gymnasium.make_vec("MiniGrid-FourRooms-v0", num_envs=batch, vectorization_mode="sync")
    environment.reset(seed=0)
    environment.action_space.seed(0)

    def run() -> None:
        for _ in range(num_steps):
            environment.step(environment.action_space.sample())

    return run


def steps_per_second(runs: dict[str, tuple[Callable[[], None], int]]) -> dict[str, list[float]]:
    """Each in turn, round after round."""
    for run, _ in runs.values():
        run()
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, (run, num_steps) in runs.items():
            started = time.perf_counter()
            run()
            speeds[name].append(num_steps / (time.perf_counter() - started))
    return speeds


def main() -> None:
    results = {"command": "make bench-worlds", **provenance(), "batches": {}}
    for batch in BATCHES:
        host_steps = max(1, 2000 // batch)
        runs = {
            "two-rooms, state only": (ours(batch, "state"), batch * STEPS),
            "two-rooms, row of the image table": (ours(batch, "table"), batch * STEPS),
            "two-rooms, every pixel made and summed": (ours(batch, "pixels"), batch * STEPS),
            "gymnax FourRooms": (theirs(batch), batch * STEPS),
            "MiniGrid FourRooms": (on_the_host(batch, host_steps), batch * host_steps),
        }
        speeds = steps_per_second(runs)
        print(f"\n{batch} worlds side by side: steps per second, and ratio to")
        print(f"{'':42}{'':>14}{'gymnax':>10}{'MiniGrid':>10}")
        rows = {}
        for name, speed in speeds.items():
            ratios = {
                rival: statistics.median(a / b for a, b in zip(speed, speeds[rival], strict=True))
                for rival in ("gymnax FourRooms", "MiniGrid FourRooms")
            }
            print(
                f"{name:42}{statistics.median(speed):14,.0f}",
                *(f"{ratio:10,.2f}" for ratio in ratios.values()),
                sep="",
            )
            rows[name] = {
                "steps_per_second": round(statistics.median(speed)),
                **{f"ratio to {rival}": round(ratio, 2) for rival, ratio in ratios.items()},
            }
        results["batches"][str(batch)] = rows
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

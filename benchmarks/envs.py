"""Measures the steps per second of two-rooms under a random policy, against FourRooms of gymnax and MiniGrid.

`make bench-envs`
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
import minigrid  # noqa: F401 registers its ids

from gemax.envs.base import step_and_reset
from gemax.envs.gridworld import two_rooms
from gemax.runs.provenance import provenance

BATCHES = (64, 1024)
STEPS = 1000
ROUNDS = 7


def gemax_rollout(batch: int, output: str) -> Callable[[], None]:
    """Returns a call that steps two-rooms and computes one output per step."""
    env = two_rooms("pixels")
    compute = {
        "state": lambda state, outcome: env.finite.cell_index(state),
        "table": lambda state, outcome: env.finite.observation_index(state),
        "pixels": lambda state, outcome: outcome.current.observation.sum(dtype=jnp.int32),
    }[output]

    def one_step(state, key):
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, env.spec.num_actions)
        state, outcome = step_and_reset(env, step_key, state, action)
        return state, (outcome.timestep.reward, outcome.is_first, compute(state, outcome))

    return compiled_rollout(one_step, lambda key: env.reset(key)[0], batch)


def gymnax_rollout(batch: int) -> Callable[[], None]:
    """Returns a call that steps gymnax's FourRooms."""
    env, parameters = gymnax.make("FourRooms-misc")

    def one_step(state, key):
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (), 0, env.num_actions)
        observation, state, reward, terminated, truncated, _ = env.step(step_key, state, action, parameters)
        return state, (reward, terminated | truncated, observation)

    return compiled_rollout(one_step, lambda key: env.reset(key, parameters)[1], batch)


def compiled_rollout(one_step, reset, batch: int) -> Callable[[], None]:
    """Returns a call that steps all environments in one compiled program and returns every step's outcome."""

    def rollout(key, state):
        return jax.lax.scan(one_step, state, jax.random.split(key, STEPS))

    keys = jax.random.split(jax.random.key(0), batch)
    states = jax.vmap(reset)(keys)
    rollouts = jax.jit(jax.vmap(rollout))
    return lambda: jax.block_until_ready(rollouts(keys, states))


def minigrid_rollout(batch: int, num_steps: int) -> Callable[[], None]:
    """Returns a call that steps MiniGrid's FourRooms with Gymnasium's vector environment."""
    envs = gymnasium.make_vec("MiniGrid-FourRooms-v0", num_envs=batch, vectorization_mode="sync")
    envs.reset(seed=0)
    envs.action_space.seed(0)

    def run() -> None:
        for _ in range(num_steps):
            envs.step(envs.action_space.sample())

    return run


def steps_per_second(runs: dict[str, tuple[Callable[[], None], int]]) -> dict[str, list[float]]:
    """Measures the runs in turn, several rounds each. The first call of each compiles and is not measured."""
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
    results = {"command": "make bench-envs", **provenance(), "batches": {}}
    for batch in BATCHES:
        host_steps = max(1, 2000 // batch)
        runs = {
            "two-rooms, state only": (gemax_rollout(batch, "state"), batch * STEPS),
            "two-rooms, row of the image table": (gemax_rollout(batch, "table"), batch * STEPS),
            "two-rooms, every pixel made and summed": (gemax_rollout(batch, "pixels"), batch * STEPS),
            "gymnax FourRooms": (gymnax_rollout(batch), batch * STEPS),
            "MiniGrid FourRooms": (minigrid_rollout(batch, host_steps), batch * host_steps),
        }
        speeds = steps_per_second(runs)
        print(f"\n{batch} environments: steps per second, and ratio to")
        print(f"{'':42}{'':>14}{'gymnax':>10}{'MiniGrid':>10}")
        rows = {}
        for name, speed in speeds.items():
            ratios = {
                baseline: statistics.median(a / b for a, b in zip(speed, speeds[baseline], strict=True))
                for baseline in ("gymnax FourRooms", "MiniGrid FourRooms")
            }
            print(
                f"{name:42}{statistics.median(speed):14,.0f}",
                *(f"{ratio:10,.2f}" for ratio in ratios.values()),
                sep="",
            )
            rows[name] = {
                "steps_per_second": round(statistics.median(speed)),
                **{f"ratio to {baseline}": round(ratio, 2) for baseline, ratio in ratios.items()},
            }
        results["batches"][str(batch)] = rows
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

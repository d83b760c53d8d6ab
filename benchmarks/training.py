"""Measures frames per second of training, the time of each part of an update, and the share of the machine's peak.

`make bench-training`
"""

import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from gemax.runs.provenance import provenance
from gemax.training.assemble import assemble
from gemax.training.learn import actor_critic_step, initial_state
from gemax.training.presets import configure
from gemax.training.rollout import collect
from gemax.training.window import extend

CASES = {
    "two-rooms": ("two-rooms", "laptop", {}),
    "two-rooms, pixels": ("two-rooms", "laptop", {"observation": "pixels"}),
    "two-rooms-noisy": ("two-rooms-noisy", "laptop", {}),
    "two-rooms-noisy, pixels": ("two-rooms-noisy", "laptop", {"observation": "pixels"}),
    "sixteen-leaves": ("sixteen-leaves", "laptop", {}),
    "sixteen-leaves, pixels": ("sixteen-leaves", "laptop", {"observation": "pixels"}),
    "two-keys": ("two-keys", "laptop", {}),
    "mountain-car": ("mountain-car", "laptop", {}),
    "cartpole-swingup": ("cartpole-swingup", "laptop", {}),
    "two-rooms, paper": ("two-rooms", "paper", {}),
    "sixteen-leaves, paper": ("sixteen-leaves", "paper", {}),
}
ROUNDS = 7
UPDATES = 5
"""Updates per compiled call."""
PEAK_SIZE = 2048
"""Size of the square matrices whose product measures the peak of the machine."""


def measure(env: str, preset: Any, changes: dict[str, Any]) -> dict[str, float]:
    """Measures one configuration. Called in a new process, so that its memory can be measured."""
    config = configure(env, preset, **changes)
    trainer = assemble(config)
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    update = partial(trainer.collector.update, trainer)
    rollout = jax.jit(
        lambda state: collect(
            trainer.collector.env, trainer, state, state.actor, config.agent.unroll_period, state.key
        )
    )
    reward = jax.jit(
        lambda state, transitions: trainer.reward.step(
            state.reward, trainer.table.with_network_inputs(state.observation_moments, transitions), state.key
        )
    )
    agent = jax.jit(partial(actor_critic_step, trainer))
    updates = jax.jit(lambda state: jax.lax.scan(lambda state, _: update(state), state, length=UPDATES))
    transitions = rollout(state)[1]
    window = jax.jit(extend)(state.window, transitions, transitions.reward)
    one, other = (jax.random.normal(jax.random.key(i), (PEAK_SIZE, PEAK_SIZE)) for i in (0, 1))
    product = jax.jit(jnp.matmul)
    seconds = measure_in_turn(
        {
            "rollout": lambda: rollout(state),
            "reward": lambda: reward(state, transitions),
            "learning": lambda: agent(state, window),
            "updates": lambda: updates(state),
            "peak": lambda: product(one, other),
        }
    )
    update_seconds = seconds["updates"] / UPDATES
    peak = 2 * PEAK_SIZE**3 / seconds["peak"]
    flops = matmul_flops(jax.make_jaxpr(update)(state).jaxpr)
    return {
        "frames_per_second": config.frames_per_update / update_seconds,
        "updates_per_second": 1 / update_seconds,
        **{f"{part}_ms": 1e3 * seconds[part] for part in ("rollout", "reward", "learning")},
        "matmul_gflop_per_update": flops / 1e9,
        "peak_gflops": peak / 1e9,
        "share_of_peak": flops / update_seconds / peak,
        "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def measure_in_turn(
    calls: dict[str, Callable[[], Any]], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Returns the median seconds of each call. The calls take turns, so that other load affects all of them."""
    for call in calls.values():
        jax.block_until_ready(call())
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = clock()
            jax.block_until_ready(call())
            seconds[name].append(clock() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def matmul_flops(jaxpr: Any) -> float:
    """Returns the floating-point operations of all matrix products in a program, with loops unrolled."""
    total = 0.0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            lengths = [equation.invars[0].aval.shape[axis] for axis in contracted]
            total += 2.0 * np.prod(equation.outvars[0].aval.shape) * np.prod(lengths)
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda leaf: hasattr(leaf, "eqns") or hasattr(leaf, "jaxpr"),
        ):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                total += times * matmul_flops(getattr(inner, "jaxpr", inner))
    return total


def main() -> None:
    results: dict[str, Any] = {"command": "make bench-training", **provenance(), "cases": {}}
    print(
        f"{'':26}{'frames/s':>10}{'updates/s':>10}{'rollout':>9}{'reward':>9}{'learning':>9}{'of peak':>9}{'GiB':>6}"
    )
    for name, case in CASES.items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            numbers = pool.apply(measure, case)
        print(
            f"{name:26}{numbers['frames_per_second']:10,.0f}{numbers['updates_per_second']:10,.1f}"
            f"{numbers['rollout_ms']:6.1f} ms{numbers['reward_ms']:6.1f} ms{numbers['learning_ms']:6.1f} ms"
            f"{numbers['share_of_peak']:9.0%}{numbers['memory_gib']:6.2f}",
            flush=True,
        )
        results["cases"][name] = {key: float(f"{value:.4g}") for key, value in numbers.items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Frames trained per second: where an update spends its time, and how near it comes to the machine's peak.

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
from gemax.training.collect import collect, rollout_of
from gemax.training.learn import actor_critic_step, initial_state, update
from gemax.training.presets import configure
from gemax.training.traces import extend

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
"""In one compiled call."""
PEAK_SIZE = 2048
"""Of the square matrices whose product is this machine's peak."""


def measure(world: str, preset: Any, changes: dict[str, Any]) -> dict[str, float]:
    """One configuration, in a process of its own: its memory is then its own too."""
    config = configure(world, preset, **changes)
    trainer = assemble(config)
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    roll = jax.jit(
        lambda state: collect(
            trainer.world, trainer.eyes, state.centring, trainer.network, state.parameters, state.position,
            config.trace_period, state.key,
        )
    )  # fmt: skip
    pay = jax.jit(
        lambda state, steps: trainer.reward.step(
            state.reward, rollout_of(trainer.eyes, state.centring, steps), state.key
        )
    )
    agent = jax.jit(lambda state, window: actor_critic_step(trainer, state, window))
    whole = jax.jit(lambda state: jax.lax.scan(lambda s, _: update(trainer, s), state, length=UPDATES))
    steps = roll(state)[1]
    window = jax.jit(extend)(state.window, steps, steps.reward)
    one, other = (jax.random.normal(jax.random.key(i), (PEAK_SIZE, PEAK_SIZE)) for i in (0, 1))
    product = jax.jit(jnp.matmul)
    seconds = in_turn(
        {
            "rollout": lambda: roll(state),
            "reward": lambda: pay(state, steps),
            "learning": lambda: agent(state, window),
            "updates": lambda: whole(state),
            "peak": lambda: product(one, other),
        }
    )
    update_seconds = seconds["updates"] / UPDATES
    peak = 2 * PEAK_SIZE**3 / seconds["peak"]
    flops = matmul_flops(jax.make_jaxpr(lambda state: update(trainer, state))(state).jaxpr)
    return {
        "frames_per_second": config.frames_per_update / update_seconds,
        "updates_per_second": 1 / update_seconds,
        **{f"{part}_ms": 1e3 * seconds[part] for part in ("rollout", "reward", "learning")},
        "matmul_gflop_per_update": flops / 1e9,
        "peak_gflops": peak / 1e9,
        "share_of_peak": flops / update_seconds / peak,
        "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def in_turn(
    calls: dict[str, Callable[[], Any]], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each, round after round, so that a busy moment hits all alike."""
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
    """Floating-point operations of all matrix products in a program, loops written out."""
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

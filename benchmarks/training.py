"""Measures frames per second of training, the time of each part of an update, and the distance to the machine's limits.

`make bench-training`. The limits are the speed of a large matrix product and the memory bandwidth of `a + 3 b` for
arrays that fit into no cache. The roofline of an update is the time of its matrix products if each ran at one of the
two limits: XLA's own cost analysis counts the body of a loop only once, so operations and bytes are counted here.
"""

import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
TRIAD_SIZE = 2**24
"""Size of the arrays whose sum measures the memory bandwidth."""
PARTS = ("rollout", "reward", "learning")


class Product(NamedTuple):
    """A matrix product of a program."""

    times: int
    """How often it is computed."""
    flops: float
    num_bytes: float
    """Size of both operands and the result."""


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
    jax.block_until_ready((updates(state), agent(state, window), reward(state, transitions)))
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    one, other = (jax.random.normal(jax.random.key(i), (PEAK_SIZE, PEAK_SIZE)) for i in (0, 1))
    product, triad = jax.jit(jnp.matmul), make_triad()
    seconds = measure_in_turn(
        {
            "rollout": lambda: rollout(state),
            "reward": lambda: reward(state, transitions),
            "learning": lambda: agent(state, window),
            "updates": lambda: updates(state),
            "peak": lambda: product(one, other),
            "triad": triad,
        }
    )
    update_seconds = seconds["updates"] / UPDATES
    peak, bandwidth = 2 * PEAK_SIZE**3 / seconds["peak"], 3 * 4 * TRIAD_SIZE / seconds["triad"]
    products = matrix_products(jax.make_jaxpr(update)(state).jaxpr)
    flops, num_bytes = total_flops(products), sum(it.times * it.num_bytes for it in products)
    part_products = {
        "rollout": matrix_products(jax.make_jaxpr(rollout)(state).jaxpr),
        "reward": matrix_products(jax.make_jaxpr(reward)(state, transitions).jaxpr),
        "learning": matrix_products(jax.make_jaxpr(agent)(state, window).jaxpr),
    }
    return {
        "frames_per_second": config.frames_per_update / update_seconds,
        "updates_per_second": 1 / update_seconds,
        **{f"{part}_ms": 1e3 * seconds[part] for part in PARTS},
        **{
            f"{part}_share_of_peak": total_flops(part_products[part]) / seconds[part] / peak for part in PARTS
        },
        "matmul_gflop_per_update": flops / 1e9,
        "matmul_gbyte_per_update": num_bytes / 1e9,
        "peak_gflops": peak / 1e9,
        "bandwidth_gbytes": bandwidth / 1e9,
        "share_of_peak": flops / update_seconds / peak,
        "share_of_roofline": roofline_seconds(products, peak, bandwidth) / update_seconds,
        "memory_gib": peak_memory,
    }


def make_triad() -> Callable[[], Any]:
    """Returns a call that reads two long arrays and writes their sum to the memory of the first one."""
    add = jax.jit(lambda a, b: a + 3 * b, donate_argnums=0)
    total, other = jnp.zeros(TRIAD_SIZE), jnp.ones(TRIAD_SIZE)

    def call() -> Any:
        nonlocal total
        total = add(total, other)
        return total

    return call


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


def matrix_products(jaxpr: Any, times: int = 1) -> list[Product]:
    """Returns all matrix products of a program. Those in loops are computed several times."""
    products = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            operands, result = [variable.aval for variable in equation.invars], equation.outvars[0].aval
            lengths = [operands[0].shape[axis] for axis in contracted]
            flops = 2.0 * np.prod(result.shape) * np.prod(lengths)
            num_bytes = sum(it.dtype.itemsize * np.prod(it.shape) for it in (*operands, result))
            products.append(Product(times, flops, num_bytes))
        inner_times = times * (equation.params.get("length", 1) if equation.primitive.name == "scan" else 1)
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda leaf: hasattr(leaf, "eqns") or hasattr(leaf, "jaxpr"),
        ):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                products += matrix_products(getattr(inner, "jaxpr", inner), inner_times)
    return products


def total_flops(products: list[Product]) -> float:
    return sum(it.times * it.flops for it in products)


def roofline_seconds(products: list[Product], peak: float, bandwidth: float) -> float:
    """Returns the time of the products if each ran at the peak or, if that takes longer, at the memory bandwidth."""
    return sum(it.times * max(it.flops / peak, it.num_bytes / bandwidth) for it in products)


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

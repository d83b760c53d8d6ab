"""Measures how the time and memory of GEM's step grow, with the fitted exponent of each.

`make bench-growth`. A step computes the rewards of a rollout, and trains f and g on it. One size changes at a time. The
exponent is the slope of the logarithm of the time over the upper half of the sizes, where fixed costs matter least. The
memory is what the compiler allocates for the step.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import one_thread  # isort: skip  # noqa: F401  (before jax)
import interleaved
import jax
import numpy as np
import optax

from gemax.rewards.build import RewardInputs, build_gem
from gemax.rewards.config import IntrinsicConfig
from gemax.testing import example_transitions, without_table

REPEATS = 5


class Size(NamedTuple):
    """The sizes of a step. Each curve changes one of them."""

    num_envs: int = 64
    num_steps: int = 16
    num_rows: int = 100
    embedding_size: int = 32
    num_negatives: int = 0
    episode_memory_size: int = 32
    has_table: bool = False


class Curve(NamedTuple):
    """Sizes to measure, and the exponent that the mathematics demands."""

    sizes: tuple[int, ...]
    make: Callable[[int], Size]
    allowed: float


CURVES = {
    "environments, all pairs": Curve((64, 128, 256, 512), lambda n: Size(num_envs=n), 2.0),
    "environments, table of 100 states": Curve(
        (64, 256, 1024, 4096), lambda n: Size(num_envs=n, has_table=True), 1.0
    ),
    "states in the table": Curve((50, 500, 5_000, 50_000), lambda n: Size(num_rows=n, has_table=True), 1.0),
    "embedding size": Curve((16, 64, 256, 512), lambda n: Size(embedding_size=n), 1.0),
    "sampled negatives": Curve((1, 8, 64, 512), lambda n: Size(num_negatives=n), 1.0),
    "remembered steps of an episode": Curve(
        (10, 30, 100, 300), lambda n: Size(num_envs=16, episode_memory_size=n), 1.0
    ),
}


def compiled_step(size: Size) -> tuple[Callable[[], Any], int]:
    """Returns a call of the compiled step, and the bytes that it allocates."""
    config = IntrinsicConfig(
        embedding_size=size.embedding_size,
        num_negatives=size.num_negatives,
        episode_memory_size=size.episode_memory_size,
    )
    inputs = RewardInputs(optax.adam(1e-3), 64, 64, horizon=10**6, has_table=size.has_table)
    reward = build_gem(config, inputs)
    rows = jax.random.normal(jax.random.key(0), (size.num_rows, 16))
    transitions = example_transitions(0, rows, size.num_envs, size.num_steps)
    transitions = transitions if size.has_table else without_table(transitions)
    state, key = reward.init(jax.random.key(1), rows, size.num_envs), jax.random.key(2)
    step = jax.jit(reward.step).lower(state, transitions, key).compile()
    memory = step.memory_analysis()
    num_bytes = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return lambda: jax.block_until_ready(step(state, transitions, key)), num_bytes


def measure(size: Size) -> tuple[float, float]:
    """Returns the milliseconds of a step, the fastest of several, and the megabytes that it allocates."""
    call, num_bytes = compiled_step(size)
    call()
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return 1e3 * min(seconds), num_bytes / 1e6


def exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """Returns the slope of the logarithms, over the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", nargs="+", choices=CURVES, default=list(CURVES))
    curves = {}
    for name in parser.parse_args().curves:
        curve = CURVES[name]
        milliseconds, megabytes = map(list, zip(*(measure(curve.make(n)) for n in curve.sizes), strict=True))
        curves[name] = {
            "sizes": curve.sizes,
            "milliseconds": [float(f"{value:.3g}") for value in milliseconds],
            "megabytes": [float(f"{value:.3g}") for value in megabytes],
            "exponent": round(exponent(curve.sizes, milliseconds), 2),
            "memory_exponent": round(exponent(curve.sizes, megabytes), 2),
            "allowed": curve.allowed,
        }
        print(name, curves[name], flush=True)
    interleaved.write_results(__file__, curves=curves)


if __name__ == "__main__":
    main()

"""Measures how the time and memory of GEM's step and of whole updates grow, with the fitted exponent of each.

`make bench-growth`. A step computes the rewards of a rollout, and trains f and g on it. An update of 2-Rooms also
collects the rollout and trains policy and value. One size changes at a time. The exponent is the slope of the logarithm
of the time over the upper half of the sizes, where fixed costs matter least. The memory is what the compiler allocates.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import one_thread  # isort: skip  # noqa: F401  (before jax)
import interleaved
import jax
import numpy as np
import optax

from gemax.rewards.build import RewardInputs, build_gem
from gemax.rewards.config import IntrinsicConfig
from gemax.testing import example_transitions, without_table
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states
from gemax.training.presets import configure

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


class Update(NamedTuple):
    """The sizes of a whole update of 2-Rooms."""

    num_envs: int = 64
    seeds: int = 1


class Curve(NamedTuple):
    """Sizes to measure, and the exponents of time and memory that the mathematics demands."""

    sizes: tuple[int, ...]
    make: Callable[[int], Size | Update]
    allowed: float = 1.0
    allowed_memory: float = 1.0


CURVES = {
    "environments, all pairs": Curve((64, 128, 256, 512, 1024), lambda n: Size(num_envs=n), 2.0),
    "environments, table of 100 states": Curve(
        (64, 512, 4096, 16_384, 65_536), lambda n: Size(num_envs=n, has_table=True)
    ),
    "states in the table": Curve((50, 500, 5_000, 50_000), lambda n: Size(num_rows=n, has_table=True)),
    "embedding size": Curve((16, 64, 256, 512), lambda n: Size(embedding_size=n)),
    "sampled negatives": Curve((1, 8, 64, 512), lambda n: Size(num_negatives=n)),
    "remembered steps of an episode": Curve(
        (10, 30, 100, 300, 1000), lambda n: Size(num_envs=16, episode_memory_size=n)
    ),
    "environments, update of 2-Rooms": Curve((8, 32, 128, 512, 1024), lambda n: Update(num_envs=n)),
    "seeds together, update of 2-Rooms": Curve((1, 2, 5, 10, 20), lambda n: Update(seeds=n)),
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
    return compiled(reward.step, state, transitions, key)


def compiled_update(size: Update) -> tuple[Callable[[], Any], int]:
    """Returns a call of the compiled update of all seeds, and the bytes that it allocates."""
    trainer = assemble(configure("two-rooms", num_envs=size.num_envs, seeds=size.seeds))
    update = partial(trainer.collector.update, trainer)
    return compiled(update if size.seeds == 1 else jax.vmap(update), initial_states(trainer))


def compiled(function: Callable, *arguments: Any) -> tuple[Callable[[], Any], int]:
    """Returns a call of the compiled function, and the bytes that it allocates."""
    program = jax.jit(function).lower(*arguments).compile()
    memory = program.memory_analysis()
    num_bytes = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return lambda: jax.block_until_ready(program(*arguments)), num_bytes


def measure(size: Size | Update) -> tuple[float, float]:
    """Returns the milliseconds of a step or update, the fastest of several, and the megabytes that it allocates."""
    call, num_bytes = compiled_update(size) if isinstance(size, Update) else compiled_step(size)
    call()
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return 1e3 * min(seconds), num_bytes / 1e6


def exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """Returns the slope of the logarithms, over the upper half of the sizes."""
    half = (len(sizes) - 1) // 2
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
            "allowed_memory": curve.allowed_memory,
        }
        print(name, curves[name], flush=True)
    interleaved.write_results(__file__, curves=curves)


if __name__ == "__main__":
    main()

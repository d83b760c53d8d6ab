"""What each method costs: milliseconds of a whole update, and how much more than without an intrinsic reward.

`make bench-methods`
"""

import json
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax

from gemax.runs.provenance import provenance
from gemax.training.assemble import assemble
from gemax.training.learn import initial_state, update
from gemax.training.presets import configure
from training import UPDATES, in_turn

WORLDS = ("two-rooms", "two-rooms-noisy", "sixteen-leaves", "mountain-car", "cartpole-swingup")
METHODS = ("none", "oracle", "rnd", "ngu", "ngu-rnd", "gem")
CLOCKS = {"milliseconds": time.perf_counter, "processor milliseconds": time.process_time}
"""The second adds up the cores, and does not run while other programs do."""
ROUNDS = 15
"""More than for one method: their ratios are what counts, and some are close."""


def measure(world: str) -> dict[str, dict[str, float]]:
    """Of an update with each method, at the same batch and with the same torso, in one process."""
    calls = {method: updates_of(world, method) for method in METHODS}
    return {
        name: {method: 1e3 * seconds / UPDATES for method, seconds in in_turn(calls, ROUNDS, clock).items()}
        for name, clock in CLOCKS.items()
    }


def updates_of(world: str, method: str) -> Callable[[], Any]:
    """Some updates in one compiled call."""
    trainer = assemble(configure(world, method=method))
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    whole = jax.jit(lambda state: jax.lax.scan(lambda s, _: update(trainer, s), state, length=UPDATES))
    return lambda: whole(state)


def compared(milliseconds: dict[str, float]) -> dict[str, float]:
    """Each method against none, and GEM against its rivals."""
    ratios = {f"{method} / none": milliseconds[method] / milliseconds["none"] for method in METHODS[1:]}
    return ratios | {f"gem / {rival}": milliseconds["gem"] / milliseconds[rival] for rival in ("rnd", "ngu")}


def main() -> None:
    results: dict[str, Any] = {"command": "make bench-methods", **provenance(), "worlds": {}}
    print(f"{'':42}" + "".join(f"{method:>9}" for method in METHODS) + "  gem/rnd  gem/ngu")
    for world in WORLDS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            measured = pool.apply(measure, (world,))
        results["worlds"][world] = {}
        for clock, milliseconds in measured.items():
            ratios = compared(milliseconds)
            print(
                f"{world:18}{clock:24}"
                + "".join(f"{milliseconds[method]:9.2f}" for method in METHODS)
                + f"{ratios['gem / rnd']:9.2f}{ratios['gem / ngu']:9.2f}",
                flush=True,
            )
            numbers = {name: float(f"{value:.4g}") for name, value in (milliseconds | ratios).items()}
            results["worlds"][world][clock] = numbers
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

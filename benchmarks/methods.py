"""Measures the milliseconds per update with each method, and the ratio to training without an intrinsic reward.

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
from gemax.training.learn import initial_state
from gemax.training.presets import configure
from training import UPDATES, measure_in_turn

ENVS = ("two-rooms", "two-rooms-noisy", "sixteen-leaves", "mountain-car", "cartpole-swingup")
METHODS = ("none", "oracle", "rnd", "ngu", "ngu-rnd", "gem")
CLOCKS = {"milliseconds": time.perf_counter, "processor milliseconds": time.process_time}
"""The second clock adds up all cores, and excludes the time of other programs."""
ROUNDS = 15
"""More rounds than in `training`, because some ratios are close."""


def measure(env: str) -> dict[str, dict[str, float]]:
    """Measures an update with each method, for the same batch and the same torso, in one process."""
    calls = {method: updates_with(env, method) for method in METHODS}
    results = {}
    for name, clock in CLOCKS.items():
        seconds = measure_in_turn(calls, ROUNDS, clock)
        results[name] = {method: 1e3 * seconds[method] / UPDATES for method in METHODS}
    return results


def updates_with(env: str, method: str) -> Callable[[], Any]:
    """Returns a compiled call of several updates."""
    trainer = assemble(configure(env, method=method))
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    update = partial(trainer.collector.update, trainer)
    updates = jax.jit(lambda state: jax.lax.scan(lambda state, _: update(state), state, length=UPDATES))
    return lambda: updates(state)


def ratios_of(milliseconds: dict[str, float]) -> dict[str, float]:
    """Returns the ratio of each method to none, and of GEM to RND and NGU."""
    ratios = {f"{method} / none": milliseconds[method] / milliseconds["none"] for method in METHODS[1:]}
    return ratios | {f"gem / {other}": milliseconds["gem"] / milliseconds[other] for other in ("rnd", "ngu")}


def main() -> None:
    results: dict[str, Any] = {"command": "make bench-methods", **provenance(), "envs": {}}
    print(f"{'':42}" + "".join(f"{method:>9}" for method in METHODS) + "  gem/rnd  gem/ngu")
    for env in ENVS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            measured = pool.apply(measure, (env,))
        results["envs"][env] = {}
        for clock, milliseconds in measured.items():
            ratios = ratios_of(milliseconds)
            print(
                f"{env:18}{clock:24}"
                + "".join(f"{milliseconds[method]:9.2f}" for method in METHODS)
                + f"{ratios['gem / rnd']:9.2f}{ratios['gem / ngu']:9.2f}",
                flush=True,
            )
            numbers = {name: float(f"{value:.4g}") for name, value in (milliseconds | ratios).items()}
            results["envs"][env][clock] = numbers
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

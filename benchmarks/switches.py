"""Measures training in 2-Rooms with exact savings switched off one at a time.

`make bench-switches`. The results of an update do not depend on them, except for rounding. Without the table of
distinct observations, every frame passes through the networks, and GEM compares all pairs of frames, as in an
environment with noise. Savings that are part of how a network or a product is written have no switch.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (before jax)
import interleaved
import jax

from gemax.training.assemble import CustomParts, assemble, make_jax_env
from gemax.training.learn import initial_state
from gemax.training.presets import configure

UPDATES, ROUNDS = 10, 7
ALL = "all savings"


def updates_call(*, has_table: bool = True, is_one_program: bool = True) -> Callable[[], Any]:
    """Returns a call of ten updates: one compiled program, or one call of a program per update."""
    config = configure("two-rooms")
    env = make_jax_env(config)
    if not has_table:
        assert env.finite is not None
        # Only the mark of noise: the environment itself has none.
        env = env._replace(finite=env.finite._replace(noise_cell=(0, 0)))
    trainer = assemble(config.replace(env_id="jax:custom"), CustomParts(make_env=lambda: env))
    state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    update = partial(trainer.collector.update, trainer)
    length, num_calls = (UPDATES, 1) if is_one_program else (1, UPDATES)
    program = jax.jit(lambda state: jax.lax.scan(lambda state, _: update(state), state, length=length))

    def call() -> Any:
        nonlocal state
        for _ in range(num_calls):
            state, metrics = program(state)
            # Read after every call, as `gemax train` does.
            jax.device_get(metrics)
        return jax.block_until_ready(state)

    return call


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    ALL: updates_call,
    "one compiled call per update": partial(updates_call, is_one_program=False),
    "no table of distinct observations": partial(updates_call, has_table=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    seconds = interleaved.measure_rounds({name: make() for name, make in CASES.items()}, rounds)
    comparisons = [
        interleaved.comparison(1, f"ours, cells / {name}", interleaved.ratio_of(seconds[name], seconds[ALL]))
        for name in CASES
        if name != ALL
    ]
    print(*comparisons, sep="\n")
    interleaved.write_results(__file__, comparisons=comparisons)


if __name__ == "__main__":
    main()

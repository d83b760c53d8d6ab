"""Measures an update of 2-Rooms against an earlier commit.

`make bench-earlier`. The earlier source is read from the repository. Both train in turn, each in a process with one
thread, so that other load on the machine affects both.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import one_thread  # isort: skip  # noqa: F401  (inherited by the processes)
import interleaved
from minigrid_speed import ROOT, extract_source

EARLIER_COMMIT = "0365107"
"""The last commit before updates were measured against other libraries, and made faster."""
ROUNDS, UPDATES, GOAL = 20, 10, 2.0

TRAIN = """
import sys, time
from functools import partial
import jax
from gemax.training.assemble import assemble
from gemax.training.learn import initial_state
from gemax.training.presets import configure

trainer = assemble(configure("two-rooms"))
state = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
update = partial(trainer.collector.update, trainer)
updates = jax.jit(lambda state: jax.lax.scan(lambda state, _: update(state), state, length=int(sys.argv[1])))
jax.block_until_ready(updates(state))
for _ in sys.stdin:
    started = time.process_time()
    state, _ = jax.block_until_ready(updates(state))
    print(time.process_time() - started, flush=True)
"""


class Trainer:
    """A process that trains with one version of the source."""

    def __init__(self, source: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TRAIN, str(UPDATES)],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self) -> float:
        """Trains for a few updates. Returns their processor seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        now, earlier = Trainer(ROOT / "src"), Trainer(extract_source(EARLIER_COMMIT, Path(folder)))
        pairs = [(now.seconds(), earlier.seconds()) for _ in range(rounds + 1)][1:]
        now.close()
        earlier.close()
    ours, theirs = zip(*pairs, strict=True)
    row = interleaved.comparison(
        5, f"an update of 2-Rooms / commit {EARLIER_COMMIT}", interleaved.ratio_of(theirs, ours), GOAL
    )
    print(row)
    interleaved.write_results(__file__, comparisons=[row])


if __name__ == "__main__":
    main()

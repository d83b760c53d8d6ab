"""Measures the processor seconds of `gemax --help`, and of `gemax train two-rooms` until its first updates.

`make bench-startup`. Each command is a new process with one thread. The first training run starts with an empty
compilation cache, the second one finds its programs there. On a quiet core, processor seconds are wall-clock seconds.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import one_thread  # isort: skip  # noqa: F401  (inherited by the commands)
import interleaved

UPDATES = 10
"""`gemax train` compiles ten updates into one call, so the first update comes with the tenth."""
ROUNDS, GOAL_SECONDS = 3, 3.0
MAIN = "import sys; from gemax.cli import main; sys.exit(main(sys.argv[1:]))"


def processor_seconds(arguments: list[str], cache: Path) -> float:
    """Runs a command in a new process. Returns its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    subprocess.run([sys.executable, "-c", MAIN, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Returns the median seconds of each command."""
    seconds: dict[str, list[float]] = {"help": [], "train, first start": [], "train, second start": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            seconds["help"].append(processor_seconds(["--help"], cache))
            for name in ("train, first start", "train, second start"):
                out = str(cache / name)
                arguments = ["train", "two-rooms", "--updates", str(UPDATES), "--out", out]
                seconds[name].append(processor_seconds(arguments, cache))
    return {name: round(statistics.median(times), 2) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    seconds = measure(parser.parse_args().rounds)
    print(seconds)
    limit = {"name": "second start to the first update, seconds", "value": seconds["train, second start"]}
    interleaved.write_results(
        __file__,
        seconds=seconds,
        limits=[{"point": 6, **limit, "limit": GOAL_SECONDS}],
    )


if __name__ == "__main__":
    main()

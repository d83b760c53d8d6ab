"""Measures the processor seconds of `gemax --help`, and of `gemax train two-rooms` until its first updates.

`make bench-startup`. Each command is a new process with one thread. The first training run starts with an empty
compilation cache, the second one finds its programs there. On a quiet core, processor seconds are wall-clock seconds.
Python may store its bytecode, as it does for an installed package.
"""

import argparse
import os
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
MAIN = "import sys; from gemax.cli import main; sys.exit(main())"


def processor_seconds(arguments: list[str], cache: Path, last_line: str) -> float:
    """Runs a command in a new process. Returns its processor seconds when it prints a line that starts like this."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", MAIN, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seconds = [seconds_of(process.pid) for line in process.stdout if line.startswith(last_line)]
    if process.returncode or not seconds:
        raise RuntimeError(f"{command} ended with exit code {process.returncode}")
    return seconds[0]


def seconds_of(pid: int) -> float:
    """Returns the processor seconds of a running process and its threads (Linux)."""
    # The name of the program, in brackets, can contain spaces. User and system time are fields 14 and 15.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def measure(rounds: int) -> dict[str, float]:
    """Returns the median seconds of each command."""
    seconds: dict[str, list[float]] = {"help": [], "train, first start": [], "train, second start": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            seconds["help"].append(processor_seconds(["--help"], cache, "usage:"))
            for name in ("train, first start", "train, second start"):
                out = str(cache / name)
                arguments = ["train", "two-rooms", "--updates", str(UPDATES), "--out", out]
                seconds[name].append(processor_seconds(arguments, cache, "update "))
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

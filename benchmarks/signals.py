"""Measures how soon every verb hears Ctrl-C while it works, and how soon it ends.

    python benchmarks/signals.py --tries 5

Every verb is started as a process group of its own, as in a terminal. SIGINT is sent to the group once the verb is
past its compilation: after its first metrics or its first line of output, and a random time of up to two seconds. The
first try fills the cache of compiled programs and is not counted. Writes `signals.json`: smallest, median and largest
seconds. On a machine that other programs share, the processor time from the signal to the end is what gemax needs.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from gemax.runs.provenance import provenance

GEMAX = [sys.executable, "-m", "gemax.cli"]
MAX_SECONDS = 600.0
WORD = b"received, stopping"
SETTLE_SECONDS = 2.0
"""The signal is sent at a random time in this range."""
COMPILE_SECONDS = 8.0
"""Verbs that print nothing until their end are given this time to load and compile."""


class Case(NamedTuple):
    """A command and how to see that it works."""

    arguments: list[str]
    """RUN, GYM_RUN and OUT are replaced by paths."""
    begins: str = "metrics"
    """`metrics`: a metrics file below OUT or RUN grows. `output`: a line is printed. `time`: after a fixed time."""


LONG = ["--updates", "100000000"]
CASES = {
    "train": Case(["train", "two-rooms", "--out", "OUT", *LONG]),
    "train, two seeds": Case(["train", "two-rooms", "--seeds", "2", "--out", "OUT", *LONG]),
    "train gym:": Case(["train", "gym:CartPole-v1", "--out", "OUT", *LONG]),
    "train gym:, two processes": Case(
        [
            "train",
            "gym:CartPole-v1",
            "--vectorization-mode",
            "async",
            "--num-workers",
            "2",
            "--out",
            "OUT",
            *LONG,
        ]
    ),
    "train gym:, two seeds": Case(["train", "gym:CartPole-v1", "--seeds", "2", "--out", "OUT", *LONG]),
    "resume": Case(["resume", "RUN", *LONG]),
    "evaluate": Case(["evaluate", "RUN", "--episodes", "1000000"], "time"),
    "evaluate gym:": Case(["evaluate", "GYM_RUN", "--episodes", "1000000"], "time"),
    "record": Case(["record", "RUN", "--episodes", "2000", "--out", "OUT/film.gif"], "time"),
    "collect": Case(["collect", "RUN", "--episodes", "1000000"], "time"),
    "reproduce": Case(["reproduce", "fig3", "--out", "OUT", "--allow-dirty"]),
    "bench": Case(["bench", "explore", "--tasks", "key-and-door", "--out", "OUT", "--allow-dirty"]),
    "view": Case(["view", "RUN", "--no-browser", "--port", "0"], "output"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--verbs", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "signals.json")
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = f"{folder}/datasets"
        places = {"RUN": Path(folder) / "run", "GYM_RUN": Path(folder) / "gym-run"}
        train_shortly("two-rooms", places["RUN"])
        train_shortly("gym:CartPole-v1", places["GYM_RUN"])
        verbs = {}
        for name in options.verbs:
            tries = []
            for number in range(options.tries + 1):
                out = Path(folder) / f"{name}-{number}"
                out.mkdir()
                tries.append(interrupt(CASES[name], places | {"OUT": out / "out"}))
                print(name, tries[-1], flush=True)
            verbs[name] = summary(tries[1:])
    result = {
        "command": "python benchmarks/signals.py " + " ".join(sys.argv[1:]),
        **provenance(),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "load_average": os.getloadavg(),
        "verbs": verbs,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")


def train_shortly(env: str, path: Path) -> None:
    command = [*GEMAX, "train", env, "--out", str(path), "--updates", "10"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def interrupt(case: Case, places: dict[str, Path]) -> dict[str, Any]:
    """Starts a command, interrupts it, and returns the seconds until it has heard and until it has ended."""
    words = [fill(word, places) for word in case.arguments]
    child = subprocess.Popen(
        [*GEMAX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    heard: list[float] = []
    has_printed = threading.Event()

    def read_output() -> None:
        assert child.stdout is not None
        for _ in child.stdout:
            has_printed.set()

    def read_errors() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            if WORD in line:
                heard.append(time.monotonic())

    readers = [threading.Thread(target=read, daemon=True) for read in (read_output, read_errors)]
    for reader in readers:
        reader.start()
    try:
        wait_for_work(case, child, [places["OUT"], places["RUN"]], has_printed)
        time.sleep(random.uniform(0.0, SETTLE_SECONDS))
        processor_before, sent = processor_seconds(child.pid), time.monotonic()
        os.killpg(child.pid, signal.SIGINT)
        _, status, usage = os.wait4(child.pid, 0)
        ended, child.returncode = time.monotonic(), os.waitstatus_to_exitcode(status)
    finally:
        child.kill()
    for reader in readers:
        reader.join()
    return {
        "heard_seconds": round(heard[0] - sent, 3),
        "end_seconds": round(ended - sent, 2),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime - processor_before, 2),
        "exit_code": child.returncode,
    }


def processor_seconds(pid: int) -> float:
    """Returns the processor time of a process and of its descendants so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    of_children = sum(processor_seconds(int(child)) for children in lists for child in children)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + of_children


def fill(word: str, places: dict[str, Path]) -> str:
    name, slash, rest = word.partition("/")
    return f"{places[name]}{slash}{rest}" if name in places else word


def wait_for_work(
    case: Case, child: subprocess.Popen, folders: list[Path], has_printed: threading.Event
) -> None:
    """Waits until a command is past its start and its compilation."""
    started, sizes = time.monotonic(), metric_sizes(folders)
    while child.poll() is None and time.monotonic() < started + MAX_SECONDS:
        if case.begins == "time" and time.monotonic() > started + COMPILE_SECONDS:
            return
        if case.begins == "output" and has_printed.is_set():
            return
        if case.begins == "metrics" and metric_sizes(folders) > sizes:
            return
        time.sleep(0.05)
    raise AssertionError(f"{case.arguments} ended, with exit code {child.poll()}, or does not begin to work")


def metric_sizes(folders: list[Path]) -> int:
    """Returns the size of all metrics."""
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("metrics.jsonl"))


def summary(tries: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns smallest, median and largest times, and the exit codes."""
    times = {
        name: [attempt[name] for attempt in tries]
        for name in ("heard_seconds", "end_seconds", "processor_seconds")
    }
    return {
        "tries": len(tries),
        **{name: [min(values), statistics.median(values), max(values)] for name, values in times.items()},
        "exit_codes": sorted({attempt["exit_code"] for attempt in tries}),
    }


if __name__ == "__main__":
    main()

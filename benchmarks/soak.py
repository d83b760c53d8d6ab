"""Trains for long, with kills and resumes, and measures memory, open files and threads.

    python benchmarks/soak.py --minutes 120                              # a gemax environment
    python benchmarks/soak.py --minutes 120 --env gym:CartPole-v1        # with processes, one killed now and then

Passes if memory of the last tenth of a process's life is within 2 % of that of its second tenth, open files and
threads do not grow, and the metrics continue over all kills without a gap or a repetition. Only the longest life
counts: shorter ones have too few samples. Needs Linux.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from gemax.runs.metrics_file import read_metrics

MAX_GROWTH = 1.02
"""Memory of the last tenth of a life, relative to its second tenth."""
MIN_SAMPLES = 50
SECONDS_BETWEEN_SAMPLES = 2.0
SECONDS_BETWEEN_WORKER_KILLS = 600.0


class Sample(NamedTuple):
    """Measurements of one process."""

    seconds: float
    memory_mb: float
    open_files: int
    threads: int


def measure(pid: int, started: float) -> Sample:
    """Reads memory, open files and threads of a process from /proc."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    num_files = len(os.listdir(f"/proc/{pid}/fd"))
    memory_mb = int(status["VmRSS"].split()[0]) / 1024
    return Sample(time.monotonic() - started, memory_mb, num_files, int(status["Threads"]))


def children_of(pid: int) -> list[int]:
    """Returns the processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def size_of(path: Path) -> int:
    """Returns the size of a file, or 0 if there is none yet."""
    return path.stat().st_size if path.exists() else 0


def live(
    command: list[str], metrics: Path, seconds: float, *, kills_workers: bool, is_last: bool
) -> list[Sample]:
    """Runs a command for some seconds, then kills it, or stops it with SIGTERM if it is the last one.

    Measures it from its first metrics on: before that, it compiles.
    """
    samples, started, size = [], time.monotonic(), size_of(metrics)
    next_kill = started + min(SECONDS_BETWEEN_WORKER_KILLS, seconds / 2)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while time.monotonic() - started < seconds and process.poll() is None:
        time.sleep(SECONDS_BETWEEN_SAMPLES)
        if size_of(metrics) != size:
            samples.append(measure(process.pid, started))
        if kills_workers and time.monotonic() > next_kill:
            os.kill(children_of(process.pid)[-1], signal.SIGKILL)
            next_kill += SECONDS_BETWEEN_WORKER_KILLS
    process.send_signal(signal.SIGTERM if is_last else signal.SIGKILL)
    code = process.wait(timeout=300)
    assert code == (143 if is_last else -signal.SIGKILL), f"the run ended by itself, with exit code {code}"
    return samples


def judge(samples: list[Sample], updates: list[int], updates_per_call: int) -> dict[str, bool]:
    """Returns whether each promise was kept."""
    tenth = max(1, len(samples) // 10)
    early, late = samples[tenth : 2 * tenth], samples[-tenth:]

    def grows(name: str, factor: float) -> bool:
        before, after = (
            statistics.median(getattr(sample, name) for sample in part) for part in (early, late)
        )
        return after > factor * before

    return {
        "memory is flat": not grows("memory_mb", MAX_GROWTH),
        "open files do not grow": not grows("open_files", 1.0),
        "threads do not grow": not grows("threads", 1.0),
        "metrics have no gap and no repetition": updates
        == list(range(updates_per_call, updates[-1] + 1, updates_per_call)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--kills", type=int, default=5, help="number of kills of the run")
    parser.add_argument("--env", default="two-rooms")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the result")
    options = parser.parse_args()
    is_host = options.env.startswith("gym:")
    updates_per_call = 1 if is_host else 10
    gemax = [sys.executable, "-m", "gemax.cli"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train = [
            *gemax,
            "train",
            options.env,
            "--out",
            str(run),
            "--updates",
            str(10**8),
            "--checkpoint-every",
            "50",
        ]
        train += ["--tensorboard", "--updates-per-call", str(updates_per_call)]
        if is_host:
            train += ["--vectorization-mode", "async", "--num-workers", "2", "--on-env-fault", "restart"]
        lives = options.kills + 1
        # The first lives are short; the last one has half of the time.
        total = 60 * options.minutes
        seconds = [total / 2 / options.kills] * options.kills + [total / 2] if options.kills else [total]
        samples = []
        for number, part in enumerate(seconds):
            command = train if number == 0 else [*gemax, "resume", str(run), "--tensorboard"]
            is_last = number == lives - 1
            samples = live(command, run / "metrics.jsonl", part, kills_workers=is_host, is_last=is_last)
            print(f"life {number + 1} of {lives}: {len(samples)} samples, last {samples[-1:]}", flush=True)
        if len(samples) < MIN_SAMPLES:
            sys.exit(
                f"{len(samples)} samples of the last life are too few: most of it was start-up. Raise --minutes."
            )
        updates = [line["update"] for line in read_metrics(run / "metrics.jsonl")]
    verdicts = judge(samples, updates, updates_per_call)
    result = {"env": options.env, "minutes": options.minutes, "kills": options.kills, "updates": updates[-1]}
    result |= {"verdicts": verdicts, "samples": [sample._asdict() for sample in samples]}
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    for promise, is_kept in verdicts.items():
        print(f"{'kept  ' if is_kept else 'BROKEN'}  {promise}")
    sys.exit(0 if all(verdicts.values()) else 1)


if __name__ == "__main__":
    main()

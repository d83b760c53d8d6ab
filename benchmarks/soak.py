"""Trains for long, with kills and resumes and a page open, and measures memory, open files and threads.

    python benchmarks/soak.py --minutes 120 --out results/soak-two-rooms.json
    python benchmarks/soak.py --minutes 120 --env gym:CartPole-v1 --out results/soak-cartpole.json

The run is killed five times, each time soon after a checkpoint, and resumed. The last life has the rest of the time.
All the while `gemax view` serves the run, and one client reads its events and curves, as an open page does. A `gym:`
environment is stepped in two processes, one of which is killed every ten minutes. `--watch FOLDER` trains nothing: it
only serves the run that another soak trains in that folder, and measures the server.

Passes if in the last life the memory of the last tenth is within 2 % of that of the second tenth, for the training
process, the processes of the environments and the page's server; if their open files and threads do not grow; and if
the metrics continue over all kills without a gap or a repetition. Writes samples and curves (JSON and PNG) every few
minutes, so that a run that is cut leaves them too. Needs Linux.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gemax.runs.metrics_file import read_metrics
from gemax.runs.provenance import check_clean, provenance

MAX_GROWTH = 1.02
"""Memory of the last tenth of the last life, relative to its second tenth."""
MIN_SAMPLES = 20
SECONDS_BETWEEN_SAMPLES = 10.0
SECONDS_BETWEEN_REPORTS = 300.0
SECONDS_BETWEEN_WORKER_KILLS = 600.0
SECONDS_BETWEEN_REQUESTS = 10.0
MAX_START_SECONDS = 1800.0
"""Time of a short life to its next checkpoint, compilation included."""
KILL_AFTER_SECONDS = (2.0, 30.0)
"""A short life is killed at a random time in this range after its first checkpoint."""
GEMAX = [sys.executable, "-m", "gemax.cli"]
COLUMNS = ("memory_mb", "open_files", "threads", "processes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--kills", type=int, default=5, help="number of kills of the run")
    parser.add_argument("--env", default="two-rooms")
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON file for the result; the plot is beside it"
    )
    parser.add_argument("--watch", type=Path, default=None, help="folder of another soak, to serve only")
    parser.add_argument("--allow-dirty", action="store_true", help="run from an uncommitted source tree")
    options = parser.parse_args()
    origin = provenance()
    if not options.allow_dirty:
        check_clean(origin["commit"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that children end too
    with contextlib.ExitStack() as stack:
        folder = options.watch or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        page_pid, answers = stack.enter_context(page_of(folder))
        soak = Soak(options, origin, folder / "run", page_pid, answers)
        if options.watch is not None:
            soak.watch()
        else:
            for _ in range(options.kills):
                soak.live_shortly()
            soak.live_long()
        verdicts = soak.report(is_finished=True)
    for promise, is_kept in verdicts.items():
        print(f"{'kept  ' if is_kept else 'BROKEN'}  {promise}")
    sys.exit(0 if all(verdicts.values()) else 1)


class Soak:
    """One run, killed and resumed, and what was measured of it.

    Args:
        options: The command line.
        origin: Versions, commit and machine.
        run: The run directory.
        page_pid: The process that serves the run.
        answers: Counts what the server has answered.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        origin: dict[str, Any],
        run: Path,
        page_pid: int,
        answers: Counter[str],
    ) -> None:
        self._answers = answers
        self._options, self._origin, self._run, self._page_pid = options, origin, run, page_pid
        self._is_host = options.env.startswith("gym:")
        self._updates_per_call, self._checkpoint_every = (1, 10) if self._is_host else (10, 50)
        self._started = time.monotonic()
        self._reported = self._started
        self._samples: list[dict[str, Any]] = []
        self._kills: list[float] = []
        self._worker_kills: list[float] = []
        self._random = random.Random(0)

    def watch(self) -> None:
        """Measures the server for the whole time."""
        while self._seconds() < 60 * self._options.minutes:
            self._sample(None, is_judged=True)
            self._report_now_and_then()

    def live_shortly(self) -> None:
        """Trains to the next checkpoint and a little longer, then kills the process with SIGKILL."""
        before, started = self._checkpoints(), time.monotonic()
        process = self._start()
        try:
            while self._checkpoints() <= before:
                assert process.poll() is None, f"the run ended by itself, with exit code {process.returncode}"
                assert time.monotonic() - started < MAX_START_SECONDS, "no checkpoint was written"
                self._sample(process.pid)
            self._sample(process.pid, self._random.uniform(*KILL_AFTER_SECONDS))
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL
        self._kills.append(self._seconds())
        print(f"kill {len(self._kills)} at {self._kills[-1]:.0f} s, update {self._update()}", flush=True)

    def live_long(self) -> None:
        """Trains for the rest of the time, then stops the run with SIGTERM."""
        end = self._started + 60 * self._options.minutes
        next_kill = time.monotonic() + min(SECONDS_BETWEEN_WORKER_KILLS, (end - time.monotonic()) / 2)
        size = self._size()
        process = self._start()
        try:
            while time.monotonic() < end:
                assert process.poll() is None, f"the run ended by itself, with exit code {process.returncode}"
                # Before its first metrics, the process compiles.
                self._sample(process.pid, is_judged=self._size() != size)
                if self._is_host and time.monotonic() > next_kill:
                    os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
                    self._worker_kills.append(self._seconds())
                    next_kill += SECONDS_BETWEEN_WORKER_KILLS
                self._report_now_and_then()
        finally:
            process.terminate()
            code = process.wait(timeout=600)
        assert code == 128 + signal.SIGTERM, f"the run ended by itself, with exit code {code}"

    def report(self, *, is_finished: bool) -> dict[str, bool]:
        """Writes samples, figures and plot. Returns whether each promise was kept."""
        self._reported = time.monotonic()
        judged = [sample for sample in self._samples if sample["is_judged"]]
        if len(judged) < MIN_SAMPLES:
            assert not is_finished, f"{len(judged)} samples of the last life are too few. Raise --minutes."
            return {}
        figures = {role: figures_of(judged, role) for role in roles(judged)}
        updates = [line["update"] for line in read_metrics(self._run / "metrics.jsonl")]
        step = self._updates_per_call
        verdicts = {
            "memory is flat": all(figure["memory_growth"] <= MAX_GROWTH for figure in figures.values()),
            "open files do not grow": all(grew <= 0 for grew in growth(figures, "open_files")),
            "threads do not grow": all(grew <= 0 for grew in growth(figures, "threads")),
            "metrics have no gap and no repetition": updates == list(range(step, updates[-1] + 1, step)),
        }
        result = {
            "env": self._options.env,
            "is_finished": is_finished,
            "minutes": round(self._seconds() / 60, 1),
            "judged_minutes": round((judged[-1]["seconds"] - judged[0]["seconds"]) / 60, 1),
            "updates": updates[-1],
            "metric_lines": len(updates),
            "kills_at_seconds": [round(second) for second in self._kills],
            "worker_kills_at_seconds": [round(second) for second in self._worker_kills],
            "page": dict(self._answers),
            "niceness": os.getpriority(os.PRIO_PROCESS, 0),
            "mean_load": round(statistics.mean(sample["load"] for sample in self._samples), 1),
            "verdicts": verdicts,
            "figures": figures,
            **self._origin,
            "samples": columns(self._samples),
        }
        self._options.out.write_text(to_text(result))
        plot(result, self._options.out.with_suffix(".png"))
        return verdicts

    def _report_now_and_then(self) -> None:
        if time.monotonic() > self._reported + SECONDS_BETWEEN_REPORTS:
            self.report(is_finished=False)

    def _start(self) -> subprocess.Popen:
        command = [*GEMAX, "resume", str(self._run)]
        if not self._run.exists():
            command = [*GEMAX, "train", self._options.env, "--out", str(self._run), "--updates", str(10**8)]
            command += ["--checkpoint-every", str(self._checkpoint_every)]
            command += ["--updates-per-call", str(self._updates_per_call)]
            if self._is_host:
                command += [
                    "--vectorization-mode",
                    "async",
                    "--num-workers",
                    "2",
                    "--on-env-fault",
                    "restart",
                ]
        return subprocess.Popen([*command, "--tensorboard"], stdout=subprocess.DEVNULL)

    def _sample(
        self, pid: int | None, wait: float = SECONDS_BETWEEN_SAMPLES, *, is_judged: bool = False
    ) -> None:
        """Waits, then measures all processes."""
        time.sleep(wait)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a process has just ended
            sample: dict[str, Any] = {"page": measure([self._page_pid])}
            if pid is not None:
                sample["trainer"] = measure([pid])
            if pid is not None and self._is_host:
                sample["workers"] = measure(workers_of(pid))
            sample |= {"seconds": self._seconds(), "update": self._update(), "load": os.getloadavg()[0]}
            self._samples.append(sample | {"is_judged": is_judged})

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _checkpoints(self) -> int:
        """The largest update of a checkpoint. A run writes one at update 0 before it trains."""
        names = [path.name for path in (self._run / "checkpoints").glob("update-*")]
        return max((int(name.removeprefix("update-")) for name in names), default=0)

    def _size(self) -> int:
        path = self._run / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def _update(self) -> int:
        """The update of the last complete line of metrics."""
        if not self._size():
            return 0
        with (self._run / "metrics.jsonl").open("rb") as file:
            file.seek(-min(self._size(), 64 * 1024), os.SEEK_END)
            lines = file.read().split(b"\n")[:-1]
        return json.loads(lines[-1])["update"] if lines else 0


def measure(pids: list[int]) -> dict[str, float]:
    """Reads memory, open files and threads of processes from /proc, added up."""
    statuses = [
        dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        for pid in pids
    ]
    return {
        "memory_mb": round(sum(int(status["VmRSS"].split()[0]) for status in statuses) / 1024, 1),
        "open_files": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        "threads": sum(int(status["Threads"]) for status in statuses),
        "processes": len(pids),
    }


def workers_of(pid: int) -> list[int]:
    """Returns the processes in which a training process steps its environments."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextlib.contextmanager
def page_of(folder: Path) -> Iterator[tuple[int, Counter[str]]]:
    """Serves a folder with `gemax view`, and reads it. Yields the process id of the server and counts of answers."""
    command = [*GEMAX, "view", str(folder), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"})
    assert server.stdout is not None
    try:
        match = re.search(r"http://\S+", server.stdout.readline())
        assert match is not None
        answers: Counter[str] = Counter()
        threading.Thread(target=read_page, args=(match[0], answers), daemon=True).start()
        yield server.pid, answers
        assert server.poll() is None, "the server of the page has ended"
    finally:
        server.terminate()
        server.wait()


def read_page(address: str, answers: Counter[str]) -> None:
    """Reads the events of a page, and index and curves when the run has changed, as a browser does."""
    requested = 0.0
    with urllib.request.urlopen(address + "api/events") as events:
        for line in events:
            answers["events"] += line.startswith(b"data:")
            if not line.startswith(b"data:") or time.monotonic() < requested + SECONDS_BETWEEN_REQUESTS:
                continue
            for path in ("index", "curves?run=run&metric=recent_return&metric=coverage", "warnings?run=run"):
                with contextlib.suppress(OSError):  # the run directory is being made
                    urllib.request.urlopen(f"{address}api/{path}").read()
                    answers[path.partition("?")[0]] += 1
            requested = time.monotonic()


def roles(samples: list[dict[str, Any]]) -> list[str]:
    """Returns which processes were measured."""
    return [role for role in ("trainer", "workers", "page") if role in samples[0]]


def figures_of(samples: list[dict[str, Any]], role: str) -> dict[str, float]:
    """Returns the medians of the second and of the last tenth, and the growth of memory between them."""
    tenth = max(1, len(samples) // 10)
    parts = {"second_tenth": samples[tenth : 2 * tenth], "last_tenth": samples[-tenth:]}
    figures = {
        f"{name}_{part}": statistics.median(sample[role][name] for sample in chosen)
        for name in COLUMNS
        for part, chosen in parts.items()
    }
    return figures | {
        "memory_growth": round(figures["memory_mb_last_tenth"] / figures["memory_mb_second_tenth"], 4)
    }


def growth(figures: dict[str, dict[str, float]], name: str) -> list[float]:
    """Returns the growth of a column from the second to the last tenth, for all processes."""
    return [figure[f"{name}_last_tenth"] - figure[f"{name}_second_tenth"] for figure in figures.values()]


def columns(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Turns samples into lists."""
    times = {
        "seconds": [round(sample["seconds"]) for sample in samples],
        "is_judged": [int(sample["is_judged"]) for sample in samples],
        "update": [sample["update"] for sample in samples],
        "load": [round(sample["load"], 1) for sample in samples],
    }
    return times | {
        role: {name: [sample[role][name] for sample in samples] for name in COLUMNS}
        for role in roles(samples)
    }


def to_text(result: dict[str, Any]) -> str:
    """Returns JSON with one line per list."""
    text = json.dumps(result, indent=1)
    return re.sub(r"\[[^][{}]*\]", lambda match: " ".join(match[0].split()), text) + "\n"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draws updates, memory, open files and threads over time. Vertical lines are kills."""
    samples = result["samples"]
    minutes = [second / 60 for second in samples["seconds"]]
    figure = Figure(figsize=(9, 8), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    axes[0].plot(minutes, samples["update"], color="black")
    labels = ("update", "memory, MB", "open files", "threads")
    for axis, name in zip(axes[1:], COLUMNS, strict=False):
        for role in ("trainer", "workers", "page"):
            if role in samples:
                axis.plot(minutes, samples[role][name], label=role)
    for axis, label in zip(axes, labels, strict=True):
        for second in result["kills_at_seconds"]:
            axis.axvline(second / 60, color="tab:red", linewidth=0.8)
        for second in result["worker_kills_at_seconds"]:
            axis.axvline(second / 60, color="tab:red", linewidth=0.8, linestyle=":")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[1].legend(loc="center right")
    axes[-1].set_xlabel("minutes; red lines: kill of the run, dotted: kill of an environment process")
    figure.suptitle(
        f"{result['env']}: {result['updates']:,} updates, {len(result['kills_at_seconds'])} kills"
    )
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()

"""Writes the metrics of every compiled call to files and sinks, and logs warnings."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from gemax.errors import CheckpointError
from gemax.runs.collapse_monitor import CollapseMonitor, ReturnMonitor
from gemax.runs.metrics_file import MetricsWriter, read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.sinks import Sink
from gemax.runs.summary import Line, is_solved
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.nonfinite import RETURNS, is_frozen, nonfinite_message, nonfinite_names
from gemax.training.state import TrainState
from gemax.types import EnvSpec


class LoggedLines(NamedTuple):
    """The lines of one compiled call."""

    run: Line
    """Of the whole run: the mean over its seeds."""
    seeds: dict[int, Line]
    """Of every seed that is not frozen yet."""


class MetricLogger:
    """Writes the metrics of all seeds, and logs warnings.

    Args:
        trainer: The parts of the run.
        run: Directory of the run. For several seeds, its metrics are the mean over seeds.
        seeds: Directory of each seed. For a single seed it is the run directory.
        sink: Receives the metrics of the run too.
        ceiling: Maximum visitation entropy, if it is known.
        log: Called with warnings.
    """

    def __init__(
        self,
        trainer: Trainer,
        run: RunDirectory,
        seeds: dict[int, RunDirectory],
        sink: Sink,
        ceiling: float | None,
        log: Callable[[str], None],
    ) -> None:
        self._trainer, self._seeds, self._sink = trainer, seeds, sink
        self._ceiling, self._log = ceiling, log
        self._writers = {
            directory.path: MetricsWriter(directory.metrics, log) for directory in (run, *seeds.values())
        }
        self._run = run
        self._monitors = {seed: _monitors(trainer.config, directory) for seed, directory in seeds.items()}

    def write(self, state: TrainState, seconds: float, metrics: list[dict[str, float] | None]) -> LoggedLines:
        """Writes the metrics of one compiled call, given per seed. Returns the lines that were written."""
        config = self._trainer.config
        updates = np.atleast_1d(np.asarray(state.update))
        lines = {
            seed: metrics_line(config, int(update), seconds, values, self._ceiling)
            for seed, update, values in zip(self._seeds, updates, metrics, strict=True)
            if values is not None
        }
        if config.run.seeds == 1:
            run_line = lines[config.run.seed]
        else:
            for seed, line in lines.items():
                self._writers[self._seeds[seed].path].write(line["update"], line)
            active = [line for line in lines.values() if not is_frozen(line)]
            run_line = mean_line(self._trainer.spec, active)
        self._writers[self._run.path].write(run_line["update"], run_line)
        self._sink.write(run_line["update"], run_line)
        for seed, line in lines.items():
            self._warn(seed, line)
        return LoggedLines(run_line, lines)

    def flush(self) -> bool:
        """Writes the metrics that wait in memory, because the disk was full. Returns whether none is left."""
        return all(writer.flush() for writer in self._writers.values())

    def close(self) -> None:
        """Writes the metrics that wait in memory.

        Raises:
            CheckpointError: They cannot be written.
        """
        try:
            for writer in self._writers.values():
                writer.close()
        except OSError as error:
            raise CheckpointError(str(error)) from error

    def _warn(self, seed: int, line: Line) -> None:
        if is_frozen(line):
            reason = nonfinite_message(line["update"], nonfinite_names(line))
            self._log(f"Seed {seed} is frozen: {reason}. The other seeds continue.")
            return
        where = f"Warning at update {line['update']}"
        if self._trainer.config.run.seeds > 1:
            where += f", seed {seed}"
        for monitor in self._monitors[seed]:
            for warning in monitor.new_warnings(line):
                self._log(f"{where}: {warning}")


def _monitors(config: Config, directory: RunDirectory) -> list[CollapseMonitor | ReturnMonitor]:
    """Returns the monitors of a seed. If its run is resumed, they have seen its earlier metrics."""
    monitors: list[CollapseMonitor | ReturnMonitor] = [CollapseMonitor()]
    if not config.env.reward_free:
        monitors.append(ReturnMonitor(directory.path))
    for line in read_metrics(directory.metrics):
        for monitor in monitors:
            monitor.new_warnings(line)
    return monitors


def metrics_line(
    config: Config, update: int, seconds: float, metrics: dict[str, float], ceiling: float | None
) -> Line:
    """Returns the line of `metrics.jsonl` for an update. Returns are None before an episode has ended."""
    line: Line = {
        "update": update,
        "frames": update * config.frames_per_update,
        "seconds": round(seconds, 3),
        **metrics,
    }
    if not metrics["episodes"]:
        line |= dict.fromkeys(RETURNS)
    if ceiling is not None:
        line["entropy_share"] = metrics["visitation_entropy"] / ceiling
    return line


def mean_line(spec: EnvSpec, lines: list[Line]) -> Line:
    """Returns the mean over seeds at the same update, with the number of seeds that have solved the environment."""
    means = {name: mean_known([line[name] for line in lines]) for name in lines[0]}
    same = {name: lines[0][name] for name in ("update", "frames", "seconds")}
    return means | same | {"seeds": len(lines), "seeds_solved": sum(is_solved(spec, line) for line in lines)}


def mean_lines(lines_of_seeds: Iterable[list[Line]]) -> list[Line]:
    """Returns the mean over seeds that were trained separately, for every update that one of them has logged."""
    by_update: dict[int, list[Line]] = {}
    for lines in lines_of_seeds:
        for line in lines:
            by_update.setdefault(line["update"], []).append(line)
    return [
        {name: mean_known([line.get(name) for line in lines]) for name in lines[0]}
        | {"update": update, "frames": lines[0]["frames"], "seeds": len(lines)}
        for update, lines in sorted(by_update.items())
    ]


def mean_known(values: list[float | None]) -> float | None:
    """Returns the mean of the values that are known. None if there is none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None

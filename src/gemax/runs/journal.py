"""What is written and told of every compiled call."""

from collections.abc import Callable

import numpy as np

from gemax.environments.base import Environment
from gemax.runs.diagnosis import Watchman
from gemax.runs.directory import RunDirectory
from gemax.runs.sinks import Sink
from gemax.runs.summary import Line, is_solved
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.loop import bad_in_words, has_failed, not_finite
from gemax.training.state import TrainState
from gemax.worlds.base import World

Numbers = dict[str, float]
"""The metrics of an update, as the loop gives them."""


class Journal:
    """Writes the metrics of every seed to where they belong, and tells what a user should know at once."""

    def __init__(
        self,
        trainer: Trainer,
        seeds: dict[int, RunDirectory],
        sink: Sink,
        ceiling: float | None,
        tell: Callable[[str], None],
    ) -> None:
        self._trainer, self._seeds, self._sink = trainer, seeds, sink
        self._ceiling, self._tell = ceiling, tell
        self._watchmen = {seed: Watchman() for seed in seeds}

    def write(self, state: TrainState, seconds: float, numbers: list[Numbers | None]) -> Line:
        """Logs a call, from an entry for each seed; gives the line of the whole run."""
        config = self._trainer.config
        updates = np.atleast_1d(np.asarray(state.update))
        lines = {
            seed: line_of(config, int(update), seconds, said, self._ceiling)
            for seed, update, said in zip(self._seeds, updates, numbers, strict=True)
            if said is not None
        }
        if config.seeds == 1:
            whole = lines[config.seed]
        else:
            for seed, line in lines.items():
                self._seeds[seed].append_metrics(line["update"], line)
            whole = mean_line(self._trainer.world, [line for line in lines.values() if not has_failed(line)])
        self._sink.write(whole["update"], whole)
        for seed, line in lines.items():
            self._tell_news(seed, line)
        return whole

    def _tell_news(self, seed: int, line: Line) -> None:
        if has_failed(line):
            words = bad_in_words(line["update"], not_finite(line))
            self._tell(f"Seed {seed} is frozen: {words}. The others go on.")
            return
        where = f"Warning at update {line['update']}"
        if self._trainer.config.seeds > 1:
            where += f", seed {seed}"
        for words in self._watchmen[seed].news(line):
            self._tell(f"{where}: {words}")


def line_of(config: Config, update: int, seconds: float, numbers: Numbers, ceiling: float | None) -> Line:
    """What `metrics.jsonl` has of an update. There is no return before an episode has ended."""
    line: Line = {
        "update": update,
        "frames": update * config.frames_per_update,
        "seconds": round(seconds, 3),
        **numbers,
    }
    if not numbers["episodes"]:
        line["return"] = None
    if ceiling is not None:
        line["entropy_share"] = numbers["visitation_entropy"] / ceiling
    return line


def mean_line(world: World | Environment, lines: list[Line]) -> Line:
    """The mean over seeds that train, which all are at the same update, and how many of them have solved the world."""
    means = {name: _mean([line[name] for line in lines]) for name in lines[0]}
    same = {name: lines[0][name] for name in ("update", "frames", "seconds")}
    return means | same | {"seeds": len(lines), "seeds_solved": sum(is_solved(world, line) for line in lines)}


def _mean(values: list[float | None]) -> float | None:
    """Of those that have a value."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None

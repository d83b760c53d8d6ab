"""Results that an experiment trains by itself instead of by a sweep of runs, with their provenance."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gemax.training.config import Config


class Training(NamedTuple):
    """Where the result of a training comes from: its settings, its commit and its duration."""

    config: Config
    """The settings. `config.run.seeds` seeds were trained together."""
    commit: str
    """The commit that it was trained at. Several, in order, if it was resumed at another one."""
    seconds: float


class Computed(NamedTuple):
    """The output of `Experiment.compute`, if it knows its trainings. Otherwise `compute` returns the results alone."""

    results: Any
    """The argument of `Experiment.analyse`."""
    trainings: Mapping[str, Sequence[Training]] = {}
    """The trainings by their labels."""

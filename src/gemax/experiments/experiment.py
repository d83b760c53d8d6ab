"""What every experiment is made of."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from matplotlib.figure import Figure

from gemax.experiments.claims import Claim
from gemax.experiments.records import Record
from gemax.training.config import Config, Preset

Sweep: TypeAlias = dict[str, Config]
"""The configurations of an experiment, by what they are called in its figure; of the first seed."""
Runs: TypeAlias = Mapping[str, list[Record]]
"""The finished runs of a sweep, a list over the seeds."""


class Shown(NamedTuple):
    """What an experiment has to show."""

    figures: dict[str, Figure]
    """By file name, without its ending."""
    claims: list[Claim]
    table: str = ""
    """Numbers worth reading, as Markdown."""


class Experiment(NamedTuple):
    """A figure of the paper, or a question beyond it."""

    name: str
    title: str
    claim: str
    """What the paper says, in words."""
    sweep: Callable[[Preset], Sweep]
    """The runs that it needs."""
    show: Callable[[Any], Shown]
    """From these runs; or from what `work` gives, where there is any."""
    num_seeds: int = 5
    stand_in: Callable[[Config], Config] = lambda config: config
    """What is trained in place of a configuration in a smoke test, where others have shown that it runs."""
    work: Callable[[Path, bool], Any] | None = None
    """What is computed instead of runs; is given the folder to keep it in, and whether it is for a smoke test."""


SMOKE = {
    "updates": 20, "updates_per_call": 5, "num_worlds": 8, "trace_length": 6, "trace_period": 6,
    "torso_size": 8, "lstm_size": 4, "head_size": 4, "embedding_size": 4, "checkpoint_every": 20,
    # Numbers make no difference to whether it runs: a search over them is one run.
    "intrinsic_scale": 0.1, "intrinsic_shift": 0.1, "huber_offset": 1.0, "huber_exponent": 4.0,
    "adjacency_scale": 1.0, "policy_every": 1,
}  # fmt: skip


def configs_of(experiment: Experiment, preset: Preset, smoke: bool) -> dict[str, list[Config]]:
    """The configurations of all seeds. `smoke` makes them so small that they show nothing but that all of it runs."""
    sweep = experiment.sweep(preset)
    if smoke:
        return {
            label: [dataclasses.replace(experiment.stand_in(config), **SMOKE)]
            for label, config in sweep.items()
        }
    return {
        label: [dataclasses.replace(config, seed=seed) for seed in range(experiment.num_seeds)]
        for label, config in sweep.items()
    }

"""The parts of an experiment, and the configurations of its runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from matplotlib.figure import Figure

from gemax.envs.registry import ENVS
from gemax.experiments.claims import Claim
from gemax.experiments.records import Record
from gemax.training.config import Config, Preset
from gemax.training.presets import PAPER_BY_METHOD, configure

Sweep: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The runs to train: for each label, the arguments of `figure_config`, and `num_seeds` if it has its own."""
Runs: TypeAlias = Mapping[str, list[Record]]
"""The finished runs of a sweep by their labels, one record per seed."""


class FigureResult(NamedTuple):
    """The output of an experiment."""

    figure: Figure | None
    claims: Sequence[Claim] = ()
    table: str = ""
    """One or more tables in Markdown, with an empty line between them."""
    choices: Mapping[str, Any] = {}
    """The settings that a search chooses, by environment."""


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper, an ablation, an extension or a table."""

    title: str
    claim: str
    """The text under the title in the report: the claim of the paper, or a description."""
    analyse: Callable[[Any], FigureResult]
    """Makes the figure and decides the claims, from the runs of the sweep or from the result of `compute`."""
    sweep: Sweep = field(default_factory=dict)
    num_seeds: int = 5
    """Number of seeds of each label. A run of the sweep can have its own `num_seeds`."""
    first_seed: int = 0
    is_in_all: bool = True
    """Whether `gemax reproduce all` includes the experiment."""
    smoke_config: Callable[[Config], Config] = lambda config: config
    """Called on each configuration in a smoke test. May replace it by one that another experiment trains as well."""
    compute: Callable[[Path, bool], Any] | None = None
    """Computes the results without a sweep, as a `Computed` if it trains something. Takes a folder for its files, and
    whether this is a smoke test."""


SMOKE = {
    "updates": 20, "updates_per_call": 5, "num_envs": 8, "unroll_length": 6, "unroll_period": 6,
    "torso_size": 8, "lstm_size": 4, "head_size": 4, "embedding_size": 4, "checkpoint_every": 20,
    # Experiments sweep over these settings. With one value each, a smoke test trains one run instead of the sweep.
    "intrinsic_scale": 0.1, "intrinsic_shift": 0.1, "huber_offset": 1.0, "huber_exponent": 4.0,
    "adjacency_scale": 1.0, "policy_every": 1,
}  # fmt: skip
"""Settings of all runs in a smoke test."""


def figure_config(env_id: str, preset: Preset, *, budget: float = 1.0, **settings: Any) -> Config:
    """Returns the configuration of a run in a figure.

    As in the paper, GEM is over all episodes, and the moments of RND's return decay.

    In the `laptop` preset, the number of updates is `budget` times `figure_updates` of the environment. The `paper`
    preset has its own number of updates, and ignores `budget`.
    """
    chosen: dict[str, Any] = {
        "episodic_weight": 0.0,
        **PAPER_BY_METHOD.get(settings.get("method", "gem"), {}),
    }
    if preset == "laptop":
        chosen["updates"] = round(budget * ENVS[env_id].figure_updates)
    return configure(env_id, preset, **(chosen | settings))


def seed_configs(
    experiment: Experiment, preset: Preset, *, smoke: bool = False, num_seeds: int | None = None
) -> dict[str, list[Config]]:
    """Returns the configurations of all seeds by label. A smoke test has one seed and tiny runs.

    `num_seeds` replaces the numbers of seeds of the experiment, unless it has one seed only.
    """
    found = {}
    for label, run in experiment.sweep.items():
        settings: dict[str, Any] = {"preset": preset, "num_seeds": experiment.num_seeds, **run}
        seeds = settings.pop("num_seeds")
        if num_seeds is not None and experiment.num_seeds > 1:
            seeds = num_seeds
        config = figure_config(**settings)
        if smoke:
            config, seeds = experiment.smoke_config(config).replace(**SMOKE), 1
        found[label] = [config.replace(seed=experiment.first_seed + index) for index in range(seeds)]
    return found

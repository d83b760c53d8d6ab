"""Evaluates the frozen policy of a run, with confidence intervals: `evaluation.json`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gemax.core.entropy import visitation_entropy
from gemax.errors import CheckpointError
from gemax.runs.best_checkpoint import why_there_is_no_best
from gemax.runs.checkpoints import Checkpoint, LoadedCheckpoint, NoBestError, load_checkpoint
from gemax.runs.files import write_json
from gemax.runs.run_directory import RunDirectory
from gemax.runs.seed_directories import has_separate_seeds, seed_directories
from gemax.runs.session import ceiling_of
from gemax.runs.stored_config import read_trusted_config
from gemax.settings import check_seed
from gemax.training.assemble import CustomParts, assemble
from gemax.training.collector import EpisodeOptions, Evaluation
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.loop import state_shapes, states_by_seed
from gemax.training.state import TrainState

NUM_RESAMPLES = 200
"""Number of bootstrap samples for the confidence interval of the entropy."""
ACTION_MODES = {"sampled": False, "greedy": True}
"""Name of each way to choose actions, and whether it is greedy."""


class LoadedRun(NamedTuple):
    """A run at one of its checkpoints."""

    trainer: Trainer
    states: dict[int, TrainState]
    """State of each seed."""
    messages: list[str]
    """Messages for the user, such as damaged checkpoints that were skipped."""


def load_run(path: Path, custom: CustomParts | None = None, checkpoint: Checkpoint = "newest") -> LoadedRun:
    """Reads a run of one or several seeds. Of several seeds, each has its own best checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint, or no good one.
        ValueError: The configuration is damaged, or custom parts are missing.
    """
    run = RunDirectory(path)
    config = read_trusted_config(run, custom)
    if has_separate_seeds(run, config):
        return _load_separate_seeds(run, config, custom, checkpoint)
    trainer = assemble(config, custom)
    if checkpoint == "best":
        shapes = state_shapes(trainer._replace(config=config.replace(seeds=1)))
        loaded = {
            seed: _load_best(directory, config, shapes)
            for seed, directory in seed_directories(run, config).items()
        }
        messages = [message for of_seed in loaded.values() for message in of_seed.messages]
        return LoadedRun(trainer, {seed: of_seed.tree for seed, of_seed in loaded.items()}, messages)
    if config.run.grouped and not any(run.checkpoints.glob("update-*")):
        raise CheckpointError(
            f"{path} has no newest checkpoint yet: a seed of a group gets one when the group ends or is stopped."
        )
    loaded = load_checkpoint(run.checkpoints, state_shapes(trainer), checkpoint)
    return LoadedRun(trainer, states_by_seed(trainer, loaded.tree), loaded.messages)


def _load_separate_seeds(
    run: RunDirectory, config: Config, custom: CustomParts | None, checkpoint: Checkpoint
) -> LoadedRun:
    seeds = [load_run(seed.path, custom, checkpoint) for seed in seed_directories(run, config).values()]
    if not seeds:
        raise CheckpointError(f"{run.path} has no checkpoint yet: none of its seeds has started.")
    states = {seed: state for loaded in seeds for seed, state in loaded.states.items()}
    return LoadedRun(seeds[0].trainer, states, [message for loaded in seeds for message in loaded.messages])


def _load_best(run: RunDirectory, config: Config, shapes: TrainState) -> LoadedCheckpoint:
    try:
        return load_checkpoint(run.checkpoints, shapes, "best")
    except NoBestError as error:
        raise CheckpointError(why_there_is_no_best(run, config)) from error


def evaluate_run(
    path: Path,
    num_episodes: int,
    seed: int,
    log: Callable[[str], None],
    custom: CustomParts | None = None,
    max_episode_steps: int | None = None,
    checkpoint: Checkpoint = "newest",
) -> dict[str, Any]:
    """Evaluates the policy of each seed, and writes `evaluation.json`."""
    if num_episodes < 2:
        raise ValueError(f"episodes must be at least 2, for an interval; got {num_episodes}.")
    check_seed("seed", seed)
    loaded = load_run(path, custom, checkpoint)
    for message in loaded.messages:
        log(message)
    report: dict[str, Any] = {"checkpoint": checkpoint}
    report |= evaluation_report(loaded, num_episodes, seed, max_episode_steps=max_episode_steps)
    try:
        write_json(path / "evaluation.json", report)
    except OSError as error:
        log(f"Warning: the report could not be written: {error}.")
    for mode in ACTION_MODES:
        if truncated := report[mode].get("truncated"):
            log(truncation_message(truncated, num_episodes, mode, report["max_episode_steps"]))
    return report


def truncation_message(num_truncated: int, num_episodes: int, mode: str, max_episode_steps: int) -> str:
    """Returns the message about episodes that reached the step limit."""
    return (
        f"{num_truncated:,} of {num_episodes:,} {mode} episodes did not end within {max_episode_steps:,} steps and "
        "were truncated. Set another limit with max_episode_steps (--max-episode-steps)."
    )


def evaluation_report(
    loaded: LoadedRun,
    num_episodes: int,
    seed: int,
    modes: Mapping[str, bool] = ACTION_MODES,
    max_episode_steps: int | None = None,
) -> dict[str, Any]:
    """Evaluates the policy of each seed. Returns the content of `evaluation.json`, with the mean over seeds."""
    trainer, states, _ = loaded
    ceiling = ceiling_of(trainer)
    options = EpisodeOptions(num_episodes, seed, max_episode_steps=max_episode_steps)
    reports = {
        trained_seed: _evaluate_seed(trainer, state, options, ceiling, modes)
        for trained_seed, state in states.items()
    }
    report: dict[str, Any] = {
        "episodes": num_episodes,
        "seed": seed,
        "entropy_ceiling": ceiling,
        "max_episode_steps": trainer.collector.max_episode_steps(max_episode_steps),
    }
    if len(reports) == 1:
        return report | reports[trainer.config.run.seed]
    report |= {mode: _mean_over_seeds([numbers[mode] for numbers in reports.values()]) for mode in modes}
    return report | {"seeds": [{"seed": name} | numbers for name, numbers in reports.items()]}


def _evaluate_seed(
    trainer: Trainer,
    state: TrainState,
    options: EpisodeOptions,
    ceiling: float | None,
    modes: Mapping[str, bool],
) -> dict[str, Any]:
    report: dict[str, Any] = {"update": int(state.update)}
    for mode, greedy in modes.items():
        evaluation = trainer.collector.evaluate(trainer, state, options._replace(greedy=greedy))
        report[mode] = _statistics(evaluation, ceiling, options.seed)
        if evaluation.num_truncated:
            report[mode]["truncated"] = evaluation.num_truncated
    return report


def _mean_over_seeds(statistics: list[dict[str, Any]]) -> dict[str, Any]:
    names = [name for name, value in statistics[0].items() if isinstance(value, dict)]
    return {name: {"mean": float(np.mean([seed[name]["mean"] for seed in statistics]))} for name in names}


def _statistics(evaluation: Evaluation, ceiling: float | None, seed: int) -> dict[str, Any]:
    visits = evaluation.visits
    total = visits.sum(axis=0)
    statistics = {"return": _mean(evaluation.returns), "length": _mean(evaluation.lengths.astype(float))}
    if len(total):
        statistics["coverage"] = {"mean": float((total > 0).mean()), "half_width": 0.0}
    if ceiling is None:
        return statistics
    rng = np.random.default_rng(seed)
    resampled = [
        visitation_entropy(rng.multinomial(len(visits), np.full(len(visits), 1 / len(visits))) @ visits)
        for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    entropy = {"mean": visitation_entropy(total), "half_width": float(high - low) / 2}
    statistics["entropy"] = entropy
    statistics["entropy_share"] = {name: value / ceiling for name, value in entropy.items()}
    return statistics


def _mean(values: np.ndarray) -> dict[str, float]:
    """Returns the mean and the half-width of its 95 % confidence interval."""
    return {
        "mean": float(values.mean()),
        "half_width": float(1.96 * values.std(ddof=1) / np.sqrt(len(values))),
    }

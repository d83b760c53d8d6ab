"""What the frozen policy of a run does, with intervals."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gemax.core.ceiling import entropy_ceiling
from gemax.environments.base import Environment
from gemax.runs.checkpoints import CheckpointError, load_checkpoint
from gemax.runs.directory import RunDirectory
from gemax.runs.files import write_json
from gemax.runs.seeds import shapes, states_of_seeds
from gemax.training.assemble import Own, assemble
from gemax.training.config import config_from
from gemax.training.evaluate import Evaluation, evaluate, longest_of
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

NUM_RESAMPLES = 200
KINDS = {"sampled": False, "greedy": True}
"""How actions are chosen, and whether that is greedy."""


class LoadedRun(NamedTuple):
    """The newest good state of a run, and what belongs to it."""

    trainer: Trainer
    states: dict[int, TrainState]
    """Of each seed."""
    messages: list[str]
    """What a user should know, such as checkpoints that were damaged and passed over."""


def load_run(path: Path, own: Own | None = None) -> LoadedRun:
    """Reads a run, of one seed or of several that were trained together."""
    run = RunDirectory(path)
    trainer = assemble(config_from(run.read_config()), own=own)
    if trainer.config.grouped and not run.checkpoints.is_dir():
        raise CheckpointError(
            f"{path} has no checkpoint of its own yet: a seed of a group gets one when the group ends or is stopped."
        )
    loaded = load_checkpoint(run.checkpoints, shapes(trainer))
    return LoadedRun(trainer, states_of_seeds(trainer.config, loaded.tree), loaded.messages)


def evaluate_run(
    path: Path,
    num_episodes: int,
    seed: int,
    tell: Callable[[str], None],
    kinds: Mapping[str, bool] = KINDS,
    own: Own | None = None,
    longest: int | None = None,
) -> dict[str, Any]:
    """Plays with the policy of a run, or of each of its seeds, and writes `evaluation.json` into it."""
    if num_episodes < 2:
        raise ValueError(f"episodes must be at least 2, for an interval; got {num_episodes}.")
    loaded = load_run(path, own)
    for message in loaded.messages:
        tell(message)
    report = report_of(loaded, num_episodes, seed, kinds, longest)
    write_json(path / "evaluation.json", report)
    for kind in kinds:
        if cut := report[kind].get("cut"):
            tell(words_for_cut(cut, num_episodes, kind, report["longest"]))
    return report


def words_for_cut(cut: int, num_episodes: int, kind: str, longest: int) -> str:
    """What a user is told of episodes that did not end."""
    return (
        f"{cut:,} of {num_episodes:,} {kind} episodes had no end after {longest:,} steps and were cut. "
        "Set longest (--longest) to cut them at another length."
    )


def report_of(
    loaded: LoadedRun,
    num_episodes: int,
    seed: int,
    kinds: Mapping[str, bool] = KINDS,
    longest: int | None = None,
) -> dict[str, Any]:
    """What the policy does, or that of each seed and all of them in the mean."""
    trainer, states, _ = loaded
    finite = trainer.world.finite
    ceiling = None if finite is None else entropy_ceiling(finite.reward_free_model).entropy
    reports = {
        trained: _report(trainer, state, num_episodes, seed, ceiling, kinds, longest)
        for trained, state in states.items()
    }
    report: dict[str, Any] = {"episodes": num_episodes, "seed": seed, "entropy_ceiling": ceiling}
    if isinstance(trainer.world, Environment):
        report["longest"] = longest_of(trainer.world, longest)
    if len(reports) == 1:
        report |= reports[trainer.config.seed]
    else:
        report |= {kind: _mean_over_seeds([numbers[kind] for numbers in reports.values()]) for kind in kinds}
        report["seeds"] = [{"seed": trained} | numbers for trained, numbers in reports.items()]
    return report


def _report(
    trainer: Trainer,
    state: TrainState,
    num_episodes: int,
    seed: int,
    ceiling: float | None,
    kinds: Mapping[str, bool],
    longest: int | None,
) -> dict[str, Any]:
    report: dict[str, Any] = {"update": int(state.update)}
    for kind, greedy in kinds.items():
        evaluation = evaluate(
            trainer, state, num_episodes, jax.random.key(seed), greedy=greedy, longest=longest
        )
        report[kind] = _numbers(evaluation, ceiling, seed)
        if isinstance(trainer.world, Environment):
            report[kind]["cut"] = evaluation.cut
    return report


def _mean_over_seeds(numbers: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: {"mean": float(np.mean([seed[name]["mean"] for seed in numbers]))} for name in numbers[0]}


def _numbers(evaluation: Evaluation, ceiling: float | None, seed: int) -> dict[str, Any]:
    episodes = evaluation.visits
    total = episodes.sum(axis=0)
    numbers = {
        "return": _mean(evaluation.returns),
        "length": _mean(evaluation.lengths.astype(float)),
    }
    if len(total):
        numbers["coverage"] = {"mean": float((total > 0).mean()), "half_width": 0.0}
    if ceiling is None:
        return numbers
    rng = np.random.default_rng(seed)
    resampled = [
        _entropy(rng.multinomial(len(episodes), np.full(len(episodes), 1 / len(episodes))) @ episodes)
        for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    entropy = {"mean": _entropy(total), "half_width": float(high - low) / 2}
    numbers["entropy"] = entropy
    numbers["entropy_share"] = {name: value / ceiling for name, value in entropy.items()}
    return numbers


def _mean(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "half_width": float(1.96 * values.std(ddof=1) / np.sqrt(len(values))),
    }


def _entropy(visits: np.ndarray) -> float:
    p = visits[visits > 0] / visits.sum()
    return float(-(p * np.log(p)).sum())

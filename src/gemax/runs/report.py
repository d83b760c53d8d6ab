"""What the frozen policy of a run does, with intervals."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gemax.core.ceiling import entropy_ceiling
from gemax.runs.checkpoints import load_checkpoint
from gemax.runs.directory import RunDirectory
from gemax.runs.files import write_json
from gemax.training.assemble import assemble
from gemax.training.config import config_from
from gemax.training.evaluate import Evaluation, evaluate
from gemax.training.learn import Trainer, initial_state
from gemax.training.state import TrainState

NUM_RESAMPLES = 200


def load_run(path: Path) -> tuple[Trainer, TrainState]:
    """The newest good state of a run, and what belongs to it. Reads only."""
    run = RunDirectory(path)
    trainer = assemble(config_from(run.read_config()))
    like = jax.eval_shape(partial(initial_state, trainer), jax.random.key(0))
    return trainer, load_checkpoint(run.checkpoints, like).tree


def evaluate_run(path: Path, num_episodes: int, seed: int) -> dict[str, Any]:
    """Plays with the policy of a run, and writes `evaluation.json` into it."""
    if num_episodes < 2:
        raise ValueError(f"episodes must be at least 2, for an interval; got {num_episodes}.")
    trainer, state = load_run(path)
    finite = trainer.world.finite
    ceiling = None if finite is None else entropy_ceiling(finite.reward_free_model).entropy
    report: dict[str, Any] = {
        "episodes": num_episodes,
        "seed": seed,
        "update": int(state.update),
        "entropy_ceiling": ceiling,
    }
    for kind, greedy in (("sampled", False), ("greedy", True)):
        evaluation = evaluate(trainer, state, num_episodes, jax.random.key(seed), greedy=greedy)
        report[kind] = _numbers(evaluation, ceiling, seed)
    write_json(path / "evaluation.json", report)
    return report


def _numbers(evaluation: Evaluation, ceiling: float | None, seed: int) -> dict[str, Any]:
    numbers = {"return": _mean(evaluation.returns), "length": _mean(evaluation.lengths.astype(float))}
    if ceiling is None:
        return numbers
    rng = np.random.default_rng(seed)
    episodes = evaluation.visits
    total = episodes.sum(axis=0)
    resampled = [
        _entropy(rng.multinomial(len(episodes), np.full(len(episodes), 1 / len(episodes))) @ episodes)
        for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    entropy = {"mean": _entropy(total), "half_width": float(high - low) / 2}
    numbers["entropy"] = entropy
    numbers["entropy_share"] = {name: value / ceiling for name, value in entropy.items()}
    numbers["coverage"] = {"mean": float((total > 0).mean()), "half_width": 0.0}
    return numbers


def _mean(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "half_width": float(1.96 * values.std(ddof=1) / np.sqrt(len(values))),
    }


def _entropy(visits: np.ndarray) -> float:
    p = visits[visits > 0] / visits.sum()
    return float(-(p * np.log(p)).sum())

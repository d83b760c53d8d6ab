"""Records of finished runs of the suite: one small JSON file each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gemax.experiments.explore.suite import ExploreRun, Task
from gemax.runs.evaluation import evaluation_report, load_run
from gemax.runs.files import to_json, write_bytes
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.solving import find_crossings, reaches
from gemax.training.config import Config

NUM_EPISODES = 100
"""Episodes of the frozen policy's evaluation, and of the mean return that decides when a task is solved."""
NUM_SMOKE_EPISODES = 2
EVALUATION_SEED = 1_000_000
"""Seed of the evaluation episodes. Training starts from the seed of the run."""
MAX_POINTS = 500
"""Points of a learning curve."""


def make_record(
    run: ExploreRun, path: Path, num_episodes: int = NUM_EPISODES, **origin: Any
) -> dict[str, Any]:
    """Reads a finished run and evaluates its frozen policy.

    Args:
        run: The run.
        path: Its run directory.
        num_episodes: Episodes with sampled actions, and episodes with greedy actions.
        origin: Commit, versions and machine.
    """
    task, lines = run.task, read_metrics(path / "metrics.jsonl")
    curve, summary = learning_curve(lines), RunDirectory(path).read_summary()
    report = evaluation_report(load_run(path), num_episodes, EVALUATION_SEED)
    sampled, greedy = (report[mode]["return"]["mean"] for mode in ("sampled", "greedy"))
    return {
        "task": task.name,
        "env_id": task.env_id,
        "method": run.method.name,
        "seed": run.seed,
        "frames": summary["frames"],
        "seconds": summary["seconds"],
        **curve_numbers(task, curve),
        "is_solved": bool(reaches(sampled, task.solved)),
        "return_sampled": sampled,
        "return_greedy": greedy,
        "final_normalised": task.normalise(sampled),
        "solved_return": task.solved,
        "random_return": task.random,
        "best_return": task.best,
        "evaluation_episodes": num_episodes,
        **origin,
        "curve": {name: values[_thinned(len(values))] for name, values in curve.items()},
        "config": run.config.to_json(),
    }


def learning_curve(lines: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Returns frames, seconds, episodes and the return of the last 100 episodes, from the first episode on."""
    known = [line for line in lines if line["recent_return"] is not None]
    columns = {"frames": "frames", "seconds": "seconds", "episodes": "episodes", "return": "recent_return"}
    return {column: np.array([line[key] for line in known], float) for column, key in columns.items()}


def curve_numbers(task: Task, curve: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns when the recent return first solves the task, from when on it does until the end, and its peak.

    Only means over at least `NUM_EPISODES` episodes count.
    """
    counts = curve["episodes"] >= NUM_EPISODES
    frames, seconds, episodes, returns = (
        curve[name][counts] for name in ("frames", "seconds", "episodes", "return")
    )
    first, held = find_crossings(reaches(returns, task.solved))
    return {
        "frames_to_solve": None if first is None else int(frames[first]),
        "seconds_to_solve": None if first is None else float(seconds[first]),
        "episodes_to_solve": None if first is None else int(episodes[first]),
        "frames_held_from": None if held is None else int(frames[held]),
        "peak_normalised": task.normalise(float(returns.max())) if len(returns) else None,
    }


def _thinned(num_points: int) -> np.ndarray:
    """Returns the indices of at most `MAX_POINTS` points, the last one included."""
    return np.unique(np.linspace(0, num_points - 1, min(num_points, MAX_POINTS)).round().astype(int))


def save_record(path: Path, record: dict[str, Any]) -> None:
    """Writes a record as JSON without indentation, since most of it is the learning curve."""
    write_bytes(path, json.dumps(to_json(record), allow_nan=False).encode() + b"\n")


def load_record(path: Path) -> dict[str, Any]:
    """Reads a record."""
    return json.loads(path.read_bytes())


def is_record_of(path: Path, config: Config) -> bool:
    """Returns whether a file holds the run of a configuration. New settings count as having their default values."""
    if not path.exists():
        return False
    sections = load_record(path)["config"]
    settings = {name: value for fields in sections.values() for name, value in fields.items()}
    return settings.keys() <= config.flat.keys() and Config().replace(**settings) == config

"""The summary of a run: `summary.json`."""

from typing import Any, TypeAlias

import numpy as np

from gemax.runs.provenance import provenance
from gemax.runs.solving import find_crossings, reaches, reaches_goal
from gemax.training.config import NUM_RETURNS
from gemax.training.learn import Trainer
from gemax.training.nonfinite import is_frozen, nonfinite_names
from gemax.types import EnvSpec

Line: TypeAlias = dict[str, Any]
"""One line of `metrics.jsonl`."""


def is_solved(spec: EnvSpec, line: Line) -> bool:
    """Returns whether the mean return of the last 1,000 episodes solves the environment. False after fewer episodes."""
    return (
        line["episodes"] >= NUM_RETURNS
        and line["return"] is not None
        and bool(reaches(line["return"], spec.solved_return))
    )


def summary_of_seed(
    trainer: Trainer, lines: list[Line], update: int, seconds: float, ceiling: float | None
) -> dict[str, Any]:
    """Returns the summary of one seed.

    `first_crossing_*` is when the return first reached `solved_return`. `solved_at_*` is when it did so for good: from
    then on it stayed there until the end.
    """
    crossings = find_crossings(np.asarray([is_solved(trainer.spec, line) for line in lines], bool))
    first, held = ({} if index is None else lines[index] for index in crossings)
    summary = _common(trainer, lines, update, seconds, ceiling) | {
        "first_crossing_update": first.get("update"),
        "first_crossing_seconds": first.get("seconds"),
        "solved_at_update": held.get("update"),
        "solved_at_seconds": held.get("seconds"),
        **provenance(),
    }
    if lines and is_frozen(lines[-1]):
        summary |= {"status": "frozen", "not_finite": nonfinite_names(lines[-1])}
    return summary


def summary_of_group(
    trainer: Trainer,
    lines: list[Line],
    update: int,
    seconds: float,
    ceiling: float | None,
    seeds: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    """Returns the summary of several seeds, given the lines of mean metrics and the summary of every seed."""
    facts = provenance()
    return _common(trainer, lines, update, seconds, ceiling) | {
        "solved": {
            "seeds": sum(summary["solved_at_update"] is not None for summary in seeds.values()),
            "of": len(seeds),
        },
        "frozen": _frozen(seeds),
        "seeds": [
            {"seed": seed} | {name: value for name, value in summary.items() if name not in facts}
            for seed, summary in seeds.items()
        ],
        **facts,
    }


def summary_of_separate_seeds(seeds: dict[int, dict[str, Any]], num_seeds: int) -> dict[str, Any]:
    """Returns the summary of several seeds that are runs of their own, given the summaries of those that started.

    Each of them has its versions and its commit.
    """
    known = list(seeds.values())
    is_finished = len(known) == num_seeds and all(
        summary["status"] in ("finished", "frozen") for summary in known
    )

    def mean(name: str) -> float | None:
        values = [summary[name] for summary in known if summary.get(name) is not None]
        return float(np.mean(values)) if values else None

    return {
        "status": "finished" if is_finished else "stopped",
        "updates": min((summary["updates"] for summary in known), default=0)
        if len(known) == num_seeds
        else 0,
        "frames": min((summary.get("frames", 0) for summary in known), default=0),
        "seconds": max((summary.get("seconds", 0.0) for summary in known), default=0.0),
        "return": mean("return"),
        "recent_return": mean("recent_return"),
        "visitation_entropy": mean("visitation_entropy"),
        "entropy_ceiling": mean("entropy_ceiling"),
        "solved": {
            "seeds": sum(summary.get("solved_at_update") is not None for summary in known),
            "of": num_seeds,
        },
        "frozen": _frozen(seeds),
        "seeds": [{"seed": seed, **summary} for seed, summary in seeds.items()],
    }


def _frozen(seeds: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"seed": seed, "update": summary["updates"], "not_finite": summary["not_finite"]}
        for seed, summary in seeds.items()
        if summary["status"] == "frozen"
    ]


def _common(
    trainer: Trainer, lines: list[Line], update: int, seconds: float, ceiling: float | None
) -> dict[str, Any]:
    last = lines[-1] if lines else {}
    is_finished = update >= trainer.config.run.updates or reaches_goal(trainer.config, last)
    return {
        "status": "finished" if is_finished else "stopped",
        "updates": update,
        "frames": update * trainer.config.frames_per_update,
        "seconds": round(seconds, 1),
        "return": last.get("return"),
        "recent_return": last.get("recent_return"),
        "visitation_entropy": last.get("visitation_entropy"),
        "entropy_ceiling": ceiling,
    }

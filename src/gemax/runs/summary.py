"""How a run ended, in one object: `summary.json`."""

from typing import Any

from gemax.environments.base import Environment
from gemax.runs.provenance import provenance
from gemax.training.learn import Trainer
from gemax.training.loop import has_failed, not_finite
from gemax.training.state import RETURNS_KEPT
from gemax.worlds.base import World

Line = dict[str, Any]
"""One object of `metrics.jsonl`."""


def is_solved(world: World | Environment, line: Line) -> bool:
    """Whether the last thousand episodes, and no fewer, earned what solves the world."""
    return (
        line["episodes"] >= RETURNS_KEPT
        and line["return"] is not None
        and line["return"] >= world.solved_return
    )


def summary_of_seed(
    trainer: Trainer, lines: list[Line], update: int, seconds: float, ceiling: float | None
) -> dict[str, Any]:
    """Of one seed, from what it has logged."""
    solved = next((line for line in lines if is_solved(trainer.world, line)), {})
    summary = {
        "status": _status(trainer, update),
        **_numbers(trainer, lines, update, seconds),
        "solved_at_update": solved.get("update"),
        "solved_at_seconds": solved.get("seconds"),
        **_entropy(lines, ceiling),
        **provenance(),
    }
    if lines and has_failed(lines[-1]):
        summary |= {"status": "frozen", "not_finite": not_finite(lines[-1])}
    return summary


def summary_of_group(
    trainer: Trainer,
    lines: list[Line],
    update: int,
    seconds: float,
    ceiling: float | None,
    seeds: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    """Of several seeds, from the means that the group has logged and from the summary of every seed."""
    facts = provenance()
    return {
        "status": _status(trainer, update),
        **_numbers(trainer, lines, update, seconds),
        "solved": {
            "seeds": sum(summary["solved_at_update"] is not None for summary in seeds.values()),
            "of": len(seeds),
        },
        **_entropy(lines, ceiling),
        "frozen": [
            {"seed": seed, "update": summary["updates"], "not_finite": summary["not_finite"]}
            for seed, summary in seeds.items()
            if summary["status"] == "frozen"
        ],
        "seeds": [
            {"seed": seed} | {name: value for name, value in summary.items() if name not in facts}
            for seed, summary in seeds.items()
        ],
        **facts,
    }


def _status(trainer: Trainer, update: int) -> str:
    return "finished" if update >= trainer.config.updates else "stopped"


def _numbers(trainer: Trainer, lines: list[Line], update: int, seconds: float) -> dict[str, Any]:
    return {
        "updates": update,
        "frames": update * trainer.config.frames_per_update,
        "seconds": round(seconds, 1),
        "return": lines[-1]["return"] if lines else None,
    }


def _entropy(lines: list[Line], ceiling: float | None) -> dict[str, float | None]:
    return {
        "visitation_entropy": lines[-1].get("visitation_entropy") if lines else None,
        "entropy_ceiling": ceiling,
    }

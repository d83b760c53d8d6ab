"""The table of the suite in Markdown, and the claims that are checked at its end."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gemax.experiments.explore.suite import DEFAULT, METHODS, SOLVED_SHARE, TASKS, ExploreRun, Task
from gemax.experiments.tables import markdown_table
from gemax.runs.solving import reaches

Record: TypeAlias = dict[str, Any]

HEAD = (
    "task", "method", "solved", "frames to solve", "return at equal frames", "frames", "kept",
    "return, sampled", "return, greedy", "normalised", "seconds",
)  # fmt: skip
INTRODUCTION = """# Exploration suite

Made by `gemax bench explore`; `make bench-explore` runs all of it. One record per run, with its settings, commit and
learning curve, is in `explore/`. All settings but the method are the defaults of `gemax train`.

*Solved*: the frozen policy with sampled actions earns 0.9 of what the shortest plans earn, or the threshold that
Gymnasium registers, on average over 100 episodes. *Frames to solve*: when the mean return of the last 100 episodes
first reached that in training; the median over seeds, where a run that never did counts as infinite. *Frames*: length
of a run. In the ten tasks before DeepSea, the other methods train for half as long as GEM, and for at most 500,000
frames. *Return at equal frames*: mean return of the last 100 episodes of training when the shortest run of the task has
ended. *Kept*: runs that end with at least 0.9 of their normalised peak. *Normalised*: 0 is a random policy, and 1 is
the best return. Returns and seconds are medians over seeds.
"""


class Check(NamedTuple):
    """A claim about the default method."""

    claim: str
    measured: str
    holds: bool | None
    """None while runs are missing."""


def write_table(runs: Sequence[ExploreRun], records: Sequence[Record], failures: Mapping[str, str]) -> str:
    """Returns the Markdown page of the suite.

    Args:
        runs: All runs that were planned.
        records: The records of those that finished.
        failures: Error messages by the names of the runs.
    """
    planned = {(run.task.name, run.method.name): 0 for run in runs}
    for run in runs:
        planned[run.task.name, run.method.name] += 1
    finished: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        finished.setdefault((record["task"], record["method"]), []).append(record)
    rows = [
        _row(task, method, planned, finished)
        for task in TASKS
        if any(name == task for name, _ in finished)
        for method in METHODS
        if (task, method) in finished or not METHODS[method].supports(TASKS[task])
    ]
    parts = [INTRODUCTION, f"{len(records)} of {len(runs)} runs are finished.\n", markdown_table(HEAD, rows)]
    checks = [
        [check.claim, check.measured, _verdict(check.holds)] for check in check_claims(planned, finished)
    ]
    parts += [
        f"\n## Claims about {DEFAULT.title}'s default\n",
        markdown_table(("claim", "measured", "verdict"), checks),
    ]
    if failures:
        parts += ["\n## Failed runs\n", *(f"- {name}: {error}" for name, error in failures.items())]
    return "\n".join(parts) + "\n\n![Learning curves](explore.png)\n"


def _row(task: str, method: str, planned: Mapping, finished: Mapping) -> list[str]:
    title, method_title = TASKS[task].title, METHODS[method].title
    records = finished.get((task, method), [])
    if not records:
        return [title, method_title, *["n/a"] * (len(HEAD) - 2)]
    is_missing = len(records) < planned.get((task, method), 0)
    num_solved = sum(record["is_solved"] for record in records)
    num_kept = sum(map(is_kept, records))
    return [
        title,
        method_title,
        f"{num_solved} of {len(records)}" + (f" (of {planned[task, method]})" if is_missing else ""),
        format_frames(median_frames(records)),
        format_number(
            float(np.median([return_at(record, shared_frames(task, finished)) for record in records]))
        ),
        format_frames(_median(records, "frames")),
        f"{num_kept} of {len(records)}",
        *(format_number(_median(records, name)) for name in ("return_sampled", "return_greedy")),
        f"{_median(records, 'final_normalised'):.2f}",
        f"{_median(records, 'seconds'):,.0f}",
    ]


def shared_frames(task: str, finished: Mapping) -> float:
    """Returns the length of the shortest finished run of a task, up to which all methods can be compared."""
    return min(
        record["frames"] for (name, _), records in finished.items() if name == task for record in records
    )


def return_at(record: Record, frames: float) -> float:
    """Returns the mean return of the last 100 episodes of training after these frames. NaN if none had ended."""
    curve = record["curve"]
    if not curve["frames"]:
        return float("nan")
    return float(np.interp(frames, curve["frames"], curve["return"], left=np.nan))


def is_kept(record: Record) -> bool:
    """Returns whether a run ends with at least 0.9 of its normalised peak. True if it never had 100 episodes."""
    peak = record["peak_normalised"]
    return peak is None or bool(reaches(record["final_normalised"], SOLVED_SHARE * peak))


def median_frames(records: Sequence[Record]) -> float:
    """Returns the median number of frames to solve the task. Runs that never solved it count as infinite."""
    frames = [record["frames_to_solve"] for record in records]
    return _upper_median([float("inf") if number is None else number for number in frames])


def _upper_median(values: Sequence[float]) -> float:
    """Returns the median, and the larger of two middle values, since the mean with infinity means nothing."""
    return sorted(values)[len(values) // 2]


def _median(records: Sequence[Record], name: str) -> float:
    return float(np.median([record[name] for record in records]))


def check_claims(planned: Mapping, finished: Mapping) -> list[Check]:
    """Checks the claims about the default method."""
    core = [task for task in TASKS.values() if task.group == "core"]
    runs = [record for task in core for record in finished.get((task.name, DEFAULT.name), [])]
    is_complete = all(_is_complete(task, planned, finished) for task in core)
    solved = sum(record["is_solved"] for record in runs)
    failed = {
        task.title: sum(not record["is_solved"] for record in finished.get((task.name, DEFAULT.name), []))
        for task in core
    }
    worst = {title: number for title, number in failed.items() if number > 1}
    lost = [f"{TASKS[record['task']].title} seed {record['seed']}" for record in runs if not is_kept(record)]
    return [
        Check(
            "The frozen sampled policy solves at least nine runs of ten.",
            f"{solved} of {len(runs)}",
            solved >= SOLVED_SHARE * len(runs) if is_complete else None,
        ),
        Check(
            "No environment fails on more than one seed.",
            ", ".join(f"{title}: {number}" for title, number in worst.items()) or "none does",
            False if worst else True if is_complete else None,
        ),
        Check(
            "No run ends below 0.9 of its normalised peak.",
            ", ".join(lost) or "none does",
            False if lost else True if is_complete else None,
        ),
        _check_frames("door-key", 125_000, planned, finished),
        _check_frames("key-corridor", 3_000_000, planned, finished),
        _check_deep_sea(planned, finished),
    ]


def _check_frames(name: str, bar: int, planned: Mapping, finished: Mapping) -> Check:
    task, records = TASKS[name], finished.get((name, DEFAULT.name), [])
    frames = median_frames(records) if records else float("nan")
    return Check(
        f"{task.title} is solved in at most {bar:,} frames, median over seeds.",
        format_frames(frames) if records else "no runs",
        frames <= bar if _is_complete(task, planned, finished) else None,
    )


def _check_deep_sea(planned: Mapping, finished: Mapping) -> Check:
    """Counts the sizes that the median seed solves within 10,000 episodes. There is no bar."""
    sizes = [task for task in TASKS.values() if task.group == "deep-sea"]
    by_size = {task.title: finished.get((task.name, DEFAULT.name), []) for task in sizes}
    episodes = {
        title: _upper_median([record["episodes_to_solve"] or float("inf") for record in records])
        for title, records in by_size.items()
        if records
    }
    solved = [title for title, number in episodes.items() if number <= 10_000]
    return Check(
        "DeepSea: sizes that the median seed solves within 10,000 episodes.",
        f"{len(solved)} of {len(sizes)}" + (f" ({', '.join(solved)})" if solved else ""),
        None,
    )


def _is_complete(task: Task, planned: Mapping, finished: Mapping) -> bool:
    key = (task.name, DEFAULT.name)
    return key in finished and len(finished[key]) >= planned[key]


def _verdict(holds: bool | None) -> str:
    return "–" if holds is None else "holds" if holds else "does not hold"


def format_frames(frames: float) -> str:
    """Returns a number of frames in thousands or millions, or `never`."""
    if not np.isfinite(frames):
        return "never"
    return f"{frames / 1e6:.2f} M" if frames >= 1e6 else f"{frames / 1e3:.0f} k"


def format_number(value: float) -> str:
    """Returns a return with three significant digits, or a dash for NaN."""
    return "–" if np.isnan(value) else f"{value:.3g}"

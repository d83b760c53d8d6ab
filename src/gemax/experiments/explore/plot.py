"""Learning curves of the suite: one panel per task."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemax.experiments.explore.suite import DEFAULT, METHODS, TASKS, Task
from gemax.runs.plots import hide_frame

NUM_COLUMNS = 4
NUM_POINTS = 100
"""Points of a curve, to which the seeds are interpolated."""


def plot_curves(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Plots the return of the last 100 episodes against frames: the median over seeds, and the default's range."""
    tasks = [task for task in TASKS.values() if any(record["task"] == task.name for record in records)]
    num_rows = -(-len(tasks) // NUM_COLUMNS)
    num_columns = min(len(tasks), NUM_COLUMNS)
    figure = Figure(figsize=(3.2 * num_columns, 2.5 * num_rows + 0.4), layout="constrained")
    axes = figure.subplots(num_rows, num_columns, squeeze=False).flatten()
    for axis, task in zip(axes, tasks, strict=False):
        _draw_task(axis, task, [record for record in records if record["task"] == task.name])
    for axis in axes[len(tasks) :]:
        axis.set_visible(False)
    used = {record["method"] for record in records}
    lines = [
        axes[0].plot([], [], color=method.colour, label=method.title)[0]
        for method in METHODS.values()
        if method.name in used
    ]
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(len(lines), 9), frameon=False, fontsize="small"
    )
    return figure


def _draw_task(axis: Axes, task: Task, records: Sequence[Mapping[str, Any]]) -> None:
    """Draws one panel, with the return that solves the task as a dashed line."""
    budget = max(record["frames"] for record in records)
    unit, name = (1e6, "million") if budget >= 1e6 else (1e3, "thousand")
    grid = np.linspace(0.0, budget, NUM_POINTS)
    # The default method is drawn last, above the others.
    for method in reversed(METHODS.values()):
        curves = [record["curve"] for record in records if record["method"] == method.name]
        rows = [_interpolate(grid, curve) for curve in curves if len(curve["frames"])]
        if not rows:
            continue
        axis.plot(grid / unit, np.median(rows, axis=0), color=method.colour, linewidth=1.4)
        if method == DEFAULT:
            low, high = np.min(rows, axis=0), np.max(rows, axis=0)
            axis.fill_between(grid / unit, low, high, color=method.colour, alpha=0.15, linewidth=0)
    axis.axhline(task.solved, color="0.3", linestyle="--", linewidth=0.8)
    axis.set_title(task.title, fontsize="medium")
    axis.set_xlabel(f"{name} frames", fontsize="small")
    axis.set_ylabel("return", fontsize="small")
    axis.tick_params(labelsize="small")
    axis.set_xlim(0, budget / unit)
    # At least from a random policy to the best return.
    axis.update_datalim([(0.0, task.random), (0.0, task.best)])
    axis.autoscale_view(scalex=False)
    hide_frame(axis)


def _interpolate(grid: np.ndarray, curve: Mapping[str, Sequence[float]]) -> np.ndarray:
    """Returns the return at the points of the grid. NaN before the first episode ended and after the run."""
    return np.interp(grid, curve["frames"], curve["return"], left=np.nan, right=np.nan)

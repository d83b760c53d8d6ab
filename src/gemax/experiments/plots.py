"""Learning curves of several methods or settings, with confidence bands."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemax.experiments.records import Record
from gemax.experiments.statistics import PerSeed, bucket_means, mean_and_interval
from gemax.rewards.registry import METHODS
from gemax.runs.plots import hide_frame

COLOURS = {method.title: method.colour for method in METHODS.values()}
"""Colours by the titles of the methods, the same in all figures."""
AXIS_LABELS = {"return": "return, last 1,000 episodes", "visitation_entropy": "entropy of visits, nats"}


def subplots(num_columns: int, *, width: float = 4.2) -> tuple[Figure, list[Axes]]:
    """Returns a figure with axes side by side."""
    figure = Figure(figsize=(width * num_columns, 3.3), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, num_columns)))


def return_curves(
    panels: Mapping[str, Mapping[str, Sequence[Record]]],
    colours: Mapping[str, str] = COLOURS,
    *,
    width: float = 4.2,
) -> Figure:
    """Plots return against updates: one panel per title, with one curve per label."""
    figure, axes = subplots(len(panels), width=width)
    for axis, (title, runs) in zip(axes, panels.items(), strict=True):
        draw_curves(axis, runs, "return", colours, title)
        draw_legend(axis)
    for axis in axes[1:]:
        axis.set_ylabel("")
    return figure


def draw_curves(
    axis: Axes,
    runs: Mapping[str, Sequence[Record]],
    curve: str,
    colours: Mapping[str, str] = COLOURS,
    title: str = "",
) -> None:
    """Draws one curve per label: the mean over seeds in 20 buckets, with its 95 % interval.

    The legend shows the mean training time in seconds.
    """
    largest = 0.0
    for index, (label, records) in enumerate(runs.items()):
        position, values = curve_buckets(records, curve)
        mean, half_width = mean_and_interval(values)
        largest = max(largest, float(np.nanmax(np.abs(mean))))
        colour = colours.get(label, f"C{index}")
        seconds = np.mean([record.summary["seconds"] for record in records])
        axis.plot(position, mean, color=colour, label=f"{label} ({seconds:.0f} s)", linewidth=1.6)
        low, high = mean - half_width, mean + half_width
        axis.fill_between(position, low, high, color=colour, alpha=0.2, linewidth=0)
    frames = next(iter(runs.values()))[0].config.frames_per_update
    axis.set_xlabel(f"updates of {frames:,} frames")
    axis.set_ylabel(AXIS_LABELS[curve])
    axis.set_title(title)
    axis.set_xlim(left=0)
    if curve == "return" and largest <= 1.0:
        # Confidence intervals can exceed the maximum return.
        axis.set_ylim(-0.02, 1.05)
    hide_frame(axis)


def draw_seeds(axis: Axes, groups: Mapping[str, PerSeed], colours: Mapping[str, str], label: str) -> None:
    """Draws one point per seed, in one column per group."""
    for index, (name, values) in enumerate(groups.items()):
        axis.scatter(np.full(len(values), index), values, color=colours.get(name, f"C{index}"))
    axis.set_xticks(range(len(groups)), list(groups))
    axis.set_ylabel(label)
    hide_frame(axis)


def draw_legend(axis: Axes, **style: Any) -> None:
    """Draws a small legend without a frame."""
    axis.legend(frameon=False, fontsize="small", **style)


def curve_buckets(
    records: Sequence[Record], curve: str
) -> tuple[Float[np.ndarray, " buckets"], Float[np.ndarray, "seeds buckets"]]:
    """Returns the ends of 20 buckets of updates, and the mean of the curve in each bucket for each seed."""
    last = records[0].config.run.updates
    rows = [bucket_means(record.curves["update"], record.curves[curve], last) for record in records]
    return rows[0][0], np.stack([values for _, values in rows])

"""Compares finished runs: a table and one figure, grouped by environment, method and settings."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemax.experiments.statistics import Estimate, bucket_means, estimate_mean, mean_and_interval
from gemax.rewards.registry import METHODS
from gemax.runs.files import write_figure
from gemax.runs.handle import Run, open_run
from gemax.runs.plots import NotebookFigure, hide_frame
from gemax.training.config import Config
from gemax.training.presets import configure

COLUMNS = ("environment", "method", "runs", "return", "best return", "entropy, share", "frames", "seconds")
"""Headings of the table."""
OTHER_COLOUR = "tab:pink"
"""Colour of custom rewards."""


NOT_COMPARED = {
    "env_id", "method", "preset", "seed", "seeds", "grouped", "start_update", "updates", "stop_at_return",
    "updates_per_call", "checkpoint_every", "keep_checkpoints", "visitation_decay", "vectorization_mode", "num_workers",
    "env_timeout", "on_env_fault", "max_env_restarts", "env_restart_steps",
}  # fmt: skip
"""Settings that do not divide runs into groups: seeds, length, bookkeeping, and what has a column of its own."""
LINE_STYLES = ("-", "--", ":", "-.")
"""Of the groups of one method."""


class Group(NamedTuple):
    """The runs of one method in one environment, with the same settings."""

    env_id: str
    method: str
    runs: list[Run]
    settings: dict[str, Any]
    """Settings that are not the defaults of the method, and that not all groups of the environment share."""

    @property
    def title(self) -> str:
        """Name of the method in plots and tables, with its settings."""
        name = METHODS[self.method].title if self.method in METHODS else self.method
        return ", ".join([name, *(_describe(setting, value) for setting, value in self.settings.items())])

    def values(self, name: str) -> list[float]:
        """Returns a field of every summary, without those that have none."""
        found = (run.summary.get(name) for run in self.runs)
        return [float(value) for value in found if value is not None]

    def shares(self) -> list[float]:
        """Returns the visitation entropy of every run as a share of its maximum, where that is known."""
        summaries = [run.summary for run in self.runs]
        return [
            summary["visitation_entropy"] / summary["entropy_ceiling"]
            for summary in summaries
            if summary.get("visitation_entropy") is not None and summary.get("entropy_ceiling")
        ]


class Comparison(NamedTuple):
    """A table and a figure of several runs. Notebooks show both."""

    groups: list[Group]
    figure: Figure

    @property
    def rows(self) -> list[list[str]]:
        """The table: one row per group, with the columns `COLUMNS`. ± is half of a 95 % interval."""
        return [_row(group) for group in self.groups]

    def _repr_html_(self) -> str:
        """Returns the table and the figure, for notebooks."""
        from gemax.runs.files import figure_bytes
        from gemax.runs.handle import inline_image

        cells = [_html_row("th", COLUMNS), *(_html_row("td", row) for row in self.rows)]
        return f"<table>{''.join(cells)}</table>{inline_image(figure_bytes(self.figure), 640)}"


def compare(*runs: Run | str | Path, out: str | Path | None = None) -> Comparison:
    """Compares runs by their return, grouped by environment, method and settings, as `gemax compare` does.

    Settings that differ between the groups of an environment are named, unless they are the defaults of the method.
    Runs that differ only in their seed, their length or their bookkeeping are in one group.

    Args:
        runs: Runs or run directories. A run of several seeds counts as several runs.
        out: PNG file to write the figure to as well.

    Raises:
        ValueError: There is nothing to compare.
    """
    groups = group_runs(seed for run in runs for seed in open_run(run).seeds.values())
    if not groups:
        raise ValueError("there must be at least one run to compare.")
    figure = plot_groups(groups)
    if out is not None:
        write_figure(Path(out), figure)
    return Comparison(groups, figure)


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Groups runs by environment, method and settings, in the order in which they are given."""
    groups: dict[tuple[Any, ...], Group] = {}
    for run in runs:
        env_id, method, settings = (
            run.config.env.env_id,
            run.config.intrinsic.method,
            changed_settings(run.config),
        )
        group = groups.setdefault((env_id, method, *settings.items()), Group(env_id, method, [], settings))
        group.runs.append(run)
    return [_without_shared(group, groups.values()) for group in groups.values()]


def changed_settings(config: Config) -> dict[str, Any]:
    """Returns the settings of a run that are not the defaults of its environment, method and preset."""
    preset = config.run.preset
    default = configure(config.env.env_id, preset, method=config.intrinsic.method).flat
    changed = {
        name: value
        for name, value in config.flat.items()
        if name not in NOT_COMPARED and value != default[name]
    }
    return changed if preset == "laptop" else {"preset": preset, **changed}


def _without_shared(group: Group, groups: Iterable[Group]) -> Group:
    """Returns the group without those settings that all groups of its environment have."""
    others = [other.settings for other in groups if other.env_id == group.env_id]
    own = {
        name: value
        for name, value in group.settings.items()
        if any(name not in settings or settings[name] != value for settings in others)
    }
    return group._replace(settings=own)


def _describe(name: str, value: Any) -> str:
    return "another map" if name == "map_text" else f"{name} {value}"


def plot_groups(groups: Sequence[Group]) -> Figure:
    """Plots the mean return over frames of every method with its 95 % interval, one axis per environment."""
    env_ids = list(dict.fromkeys(group.env_id for group in groups))
    figure = NotebookFigure(figsize=(1.0 + 5.0 * len(env_ids), 3.6), layout="constrained")
    axes = figure.subplots(1, len(env_ids), squeeze=False)[0]
    for axis, env_id in zip(axes, env_ids, strict=True):
        num_drawn: dict[str, int] = {}
        for group in groups:
            if group.env_id == env_id:
                number = num_drawn[group.method] = num_drawn.get(group.method, -1) + 1
                _draw_group(axis, group, LINE_STYLES[number % len(LINE_STYLES)])
        axis.set_title(env_id, loc="left")
        axis.set_xlabel("frames")
        hide_frame(axis)
        axis.legend(frameon=False, loc="best", fontsize="small")
    axes[0].set_ylabel("return, last 100 episodes")
    return figure


def _draw_group(axis: Axes, group: Group, line_style: str) -> None:
    metrics = [run.metrics for run in group.runs]
    known = [of_run for of_run in metrics if len(of_run) and np.isfinite(of_run["recent_return"]).any()]
    colour = METHODS[group.method].colour if group.method in METHODS else OTHER_COLOUR
    # The table has all settings of a long title.
    title = textwrap.fill(textwrap.shorten(group.title, 72, placeholder=" …"), 36)
    label = f"{title} ({len(group.runs)})"
    if not known:
        axis.plot([], [], color=colour, label=f"{label}: no episode has ended")
        return
    # Runs of different lengths are compared as far as all of them go.
    last = min(of_run["frames"][-1] for of_run in known)
    curves = [bucket_means(of_run["frames"], of_run["recent_return"], last) for of_run in known]
    values = np.stack([curve for _, curve in curves])
    mean, half_width = mean_and_interval(values)
    axis.plot(curves[0][0], mean, color=colour, label=label, linestyle=line_style)
    if len(known) > 1:
        axis.fill_between(curves[0][0], mean - half_width, mean + half_width, color=colour, alpha=0.2, lw=0)


def _row(group: Group) -> list[str]:
    estimates = [
        _format(group.values("recent_return")),
        _format(group.values("best_return")),
        _format(group.shares(), "{:.1%}"),
        _format(group.values("frames"), "{:,.0f}"),
        _format(group.values("seconds"), "{:,.0f}"),
    ]
    return [group.env_id, group.title, str(len(group.runs)), *estimates]


def _format(values: list[float], specification: str = "{:.3g}") -> str:
    """Returns the mean of some values and half of its interval, or a dash if there are none."""
    if not values:
        return "–"
    estimate: Estimate = estimate_mean(np.asarray(values))
    text, half_width = specification.format(estimate[0]), (estimate[2] - estimate[1]) / 2
    is_exact = math.isnan(half_width) or half_width == 0.0
    return text if is_exact else f"{text} ± {specification.format(half_width)}"


def _html_row(tag: str, cells: Sequence[Any]) -> str:
    from html import escape

    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

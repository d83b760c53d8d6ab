"""Plots of a run: learning curve, heatmap of visits and principal components of the embedding.

The functions that draw on one axis are shared with the figures of `gemax.experiments`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from gemax.envs.base import FiniteEnv
from gemax.runs.files import figure_bytes, write_figure
from gemax.training.learn import Trainer
from gemax.training.state import TrainState


def write_plots(
    path: Path, trainer: Trainer, state: TrainState, metrics: list[dict[str, Any]], max_entropy: float | None
) -> None:
    """Writes the plots of one seed, except those without data."""
    write_group_plots(path, trainer, [state], metrics, [], max_entropy)
    finite, table = trainer.finite, trainer.table.rows
    if finite is not None and trainer.reward.embed is not None and table is not None:
        embedding = np.asarray(jax.jit(trainer.reward.embed)(state.reward, table))
        if np.isfinite(embedding).all():
            write_figure(path / "embedding.png", embedding_plot(finite, embedding, trainer.spec.name))


def write_group_plots(
    path: Path,
    trainer: Trainer,
    states: list[TrainState],
    metrics: list[dict[str, Any]],
    metrics_of_seeds: list[list[dict[str, Any]]],
    max_entropy: float | None,
    is_late: Callable[[], bool] = lambda: False,
) -> None:
    """Writes the plots of several seeds: all learning curves with their mean, and the heatmap of the mean visits.

    Each takes a quarter of a second. `is_late` is called before each of them, and may refuse it.
    """
    name, suffix = trainer.spec.name, ", mean of seeds" if len(states) > 1 else ""
    if metrics and not is_late():
        curve = learning_curve(f"{name}{suffix}", metrics, max_entropy, metrics_of_seeds)
        write_figure(path / "learning_curve.png", curve)
    if trainer.finite is not None:
        visits = np.mean([np.asarray(state.statistics.visits) for state in states], axis=0)
        if visits.sum() > 0 and not is_late():
            title = f"{name}: visits{suffix}"
            write_figure(path / "heatmap.png", heatmap(trainer.finite, visits, title))


def learning_curve(
    title: str,
    metrics: list[dict[str, Any]],
    max_entropy: float | None,
    metrics_of_seeds: Sequence[list[dict[str, Any]]] = (),
) -> Figure:
    """Plots returns, and the entropy as a share of its maximum, against updates. Single seeds are thin lines."""
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    draw_learning_curve(figure.subplots(), title, metrics, max_entropy is not None, metrics_of_seeds)
    return figure


def run_figure(
    trainer: Trainer,
    states: list[TrainState],
    metrics: list[dict[str, Any]],
    metrics_of_seeds: Sequence[list[dict[str, Any]]],
) -> Figure:
    """Plots the learning curve of a run and, beside it, the map of visits of a finite environment."""
    visits = np.mean([np.asarray(state.statistics.visits) for state in states], axis=0)
    has_map = trainer.finite is not None and visits.sum() > 0
    figure = NotebookFigure(figsize=(10.0 if has_map else 7.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 2 if has_map else 1, width_ratios=[7, 3] if has_map else None, squeeze=False)[0]
    seeds = metrics_of_seeds if len(states) > 1 else ()
    if metrics:
        draw_learning_curve(axes[0], trainer.spec.name, metrics, trainer.finite is not None, seeds)
    if trainer.finite is not None and has_map:
        draw_heatmap(axes[1], trainer.finite, visits, "visits")
    return figure


class NotebookFigure(Figure):
    """A figure that notebooks show without pyplot."""

    def _repr_png_(self) -> bytes:
        return figure_bytes(self)


def draw_learning_curve(
    axis: Axes,
    title: str,
    metrics: list[dict[str, Any]],
    has_entropy: bool,
    metrics_of_seeds: Sequence[list[dict[str, Any]]] = (),
) -> None:
    """Draws returns, and the entropy as a share of its maximum if it is known. Single seeds are thin lines."""
    curves = {
        "return": ("tab:cyan", "return, last 1,000 episodes"),
        "recent_return": ("tab:blue", "return, last 100 episodes"),
    }
    if has_entropy:
        curves["entropy_share"] = ("tab:orange", "entropy, share of its maximum")
        axis.set_ylim(-0.02, 1.05)
    for name, (colour, label) in curves.items():
        for lines in metrics_of_seeds:
            axis.plot(_column(lines, "update"), _column(lines, name), color=colour, linewidth=0.6, alpha=0.5)
        axis.plot(_column(metrics, "update"), _column(metrics, name), color=colour, label=label)
    last = metrics[-1]
    axis.set_xlim(0, last["update"])
    axis.set_xlabel("updates")
    hide_frame(axis)
    if any(line.get(name) is not None for line in metrics for name in curves):
        axis.legend(frameon=False, loc="lower right")
    else:
        axis.set_yticks([])
        axis.text(0.5, 0.5, "no episode has ended", transform=axis.transAxes, ha="center", color="0.4")
    caption = f"{last['update']:,} updates, {last['frames']:,} frames, {last['seconds']:.0f} s"
    axis.set_title(caption, loc="right", fontsize="small", color="0.4")
    axis.set_title(title, loc="left")


def heatmap(finite: FiniteEnv, visits: Float[np.ndarray, " cells"], title: str) -> Figure:
    """Plots the visits on the map, with a colour bar."""
    rows, columns = finite.cell_positions.max(axis=0) + 1
    figure = Figure(figsize=(1.2 + 0.3 * columns, 0.9 + 0.3 * rows), layout="constrained")
    axis = figure.subplots()
    figure.colorbar(draw_heatmap(axis, finite, visits, title), ax=axis, shrink=0.8)
    return figure


def embedding_plot(finite: FiniteEnv, embedding: Float[np.ndarray, "rows D"], name: str) -> Figure:
    """Plots two principal components of the embeddings. Lines join cells that are one step apart."""
    _, cells = rows_and_cells(finite)
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axis = figure.subplots()
    points, variance = draw_embedding(axis, finite, embedding[None])
    first_of_cell = {int(cell): i for i, cell in reversed(list(enumerate(cells)))}
    for cell, neighbour in zip(*np.nonzero(finite.distances() == 1), strict=True):
        if cell < neighbour and cell in first_of_cell and neighbour in first_of_cell:
            ends = points[[first_of_cell[cell], first_of_cell[neighbour]]]
            axis.plot(*ends.T, color="0.8", linewidth=0.8, zorder=0)
    hide_ticks(axis, f"{name}: f(x), two components ({variance:.0%} of the variance)")
    return figure


def draw_heatmap(axis: Axes, finite: FiniteEnv, visits: Float[np.ndarray, " cells"], title: str) -> AxesImage:
    """Draws the visits on the map, divided by their maximum. The most visited cell is black."""
    image = np.full(finite.cell_positions.max(axis=0) + 1, np.nan)
    image[tuple(finite.cell_positions.T)] = visits / visits.max()
    axis.set_facecolor("tab:brown")
    hide_ticks(axis, title)
    return axis.imshow(image, cmap="gray_r", vmin=0.0, vmax=1.0)


def draw_embedding(
    axis: Axes, finite: FiniteEnv, embedding: Float[np.ndarray, "noises rows D"], **style: Any
) -> tuple[Float[np.ndarray, "N 2"], float]:
    """Draws two principal components of the embeddings of all observations, coloured by cell.

    Returns the points, and their share of the variance.
    """
    rows, cells = rows_and_cells(finite)
    points, variance = two_components(embedding[:, rows].reshape(-1, embedding.shape[-1]))
    draw_points(axis, points, cell_colours(finite, np.tile(cells, len(embedding))), **style)
    return points, variance


def draw_points(
    axis: Axes, points: Float[np.ndarray, "N 2"], colours: Float[np.ndarray, "N 3"], **style: Any
) -> None:
    """Draws points of an embedding, with the same scale on both axes."""
    axis.scatter(*points.T, c=colours, **({"s": 14, "linewidths": 0.8} | style))
    axis.set_aspect("equal", "datalim")


def two_components(embedding: Float[np.ndarray, "N D"]) -> tuple[Float[np.ndarray, "N 2"], float]:
    """Returns the first two principal components, and their share of the variance."""
    points = embedding - embedding.mean(axis=0)
    _, sizes, components = np.linalg.svd(points, full_matrices=False)
    return points @ components[:2].T, float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-30))


def rows_and_cells(finite: FiniteEnv) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
    """Returns the rows of the observation table that at least one state maps to, and the agent's cell in each."""
    rows, first = np.unique(finite.observation_of_state, return_index=True)
    return rows, finite.model.cell[first]


def cell_colours(finite: FiniteEnv, cells: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N 3"]:
    """Returns a colour for each cell by its position on the map: blue above, red below, brighter to the right."""
    position = finite.cell_positions[cells] / np.maximum(finite.cell_positions.max(axis=0), 1)
    return np.stack([position[:, 0], 0.15 + 0.6 * position[:, 1], 1.0 - position[:, 0]], axis=1)


def hide_ticks(axis: Axes, title: str) -> None:
    """Sets the title of an axis and removes its ticks, for units without a meaning."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title, fontsize="medium")


def hide_frame(axis: Axes) -> None:
    """Removes the upper and right border of a plot."""
    axis.spines[["top", "right"]].set_visible(False)


def _column(metrics: list[dict[str, Any]], name: str) -> list[float]:
    return [np.nan if line.get(name) is None else line[name] for line in metrics]

"""What a run looked like: learning curve, visits on the map, and the embedding's first two components."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from gemax.runs.files import write_figure
from gemax.training.learn import Trainer
from gemax.training.state import TrainState
from gemax.worlds.base import FiniteFacts


def draw_pictures(
    path: Path, trainer: Trainer, state: TrainState, metrics: list[dict[str, Any]], ceiling: float | None
) -> None:
    """Writes the pictures that the run has something to show for."""
    if metrics:
        write_figure(path / "learning_curve.png", learning_curve(trainer.world.name, metrics, ceiling))
    finite = trainer.world.finite
    if finite is None:
        return
    visits = np.asarray(state.tally.visits)
    if visits.sum() > 0:
        write_figure(path / "heatmap.png", heatmap(finite, visits, f"{trainer.world.name}: visits"))
    if trainer.reward.embed is not None and trainer.eyes.table is not None:
        embedding = np.asarray(jax.jit(trainer.reward.embed)(state.reward, trainer.eyes.table))
        if np.isfinite(embedding).all():
            write_figure(path / "embedding.png", embedding_figure(trainer, embedding))


def draw_group_pictures(
    path: Path,
    trainer: Trainer,
    states: list[TrainState],
    metrics: list[dict[str, Any]],
    metrics_of_seeds: list[list[dict[str, Any]]],
    ceiling: float | None,
) -> None:
    """Writes what several seeds have to show together: their curves and their mean, and where they were on average."""
    name = trainer.world.name
    if metrics:
        curve = learning_curve(f"{name}, mean of seeds", metrics, ceiling, metrics_of_seeds)
        write_figure(path / "learning_curve.png", curve)
    visits = np.mean([np.asarray(state.tally.visits) for state in states], axis=0)
    if trainer.world.finite is not None and visits.sum() > 0:
        title = f"{name}: visits, mean of seeds"
        write_figure(path / "heatmap.png", heatmap(trainer.world.finite, visits, title))


def learning_curve(
    title: str,
    metrics: list[dict[str, Any]],
    ceiling: float | None,
    metrics_of_seeds: Sequence[list[dict[str, Any]]] = (),
) -> Figure:
    """Return, and entropy as a share of its ceiling, against updates. Single seeds are thin lines."""
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axis = figure.subplots()
    curves = {"return": ("tab:blue", "return, last 1,000 episodes")}
    if ceiling is not None:
        curves["entropy_share"] = ("tab:orange", "entropy, share of the ceiling")
        axis.set_ylim(-0.02, 1.05)
    for name, (colour, label) in curves.items():
        for lines in metrics_of_seeds:
            axis.plot(_column(lines, "update"), _column(lines, name), color=colour, linewidth=0.6, alpha=0.5)
        axis.plot(_column(metrics, "update"), _column(metrics, name), color=colour, label=label)
    axis.set_xlabel("updates")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right")
    last = metrics[-1]
    caption = f"{last['update']:,} updates, {last['frames']:,} frames, {last['seconds']:.0f} s"
    axis.set_title(caption, loc="right", fontsize="small", color="0.4")
    axis.set_title(title, loc="left")
    return figure


def heatmap(finite: FiniteFacts, visits: Float[np.ndarray, " squares"], title: str) -> Figure:
    """Visits on the map, divided by the largest: black is where the agent was most."""
    rows, columns = finite.square_positions.max(axis=0) + 1
    picture = np.full((rows, columns), np.nan)
    picture[tuple(finite.square_positions.T)] = visits / visits.max()
    figure = Figure(figsize=(1.2 + 0.3 * columns, 0.9 + 0.3 * rows), layout="constrained")
    axis = figure.subplots()
    axis.set_facecolor("tab:brown")
    image = axis.imshow(picture, cmap="gray_r", vmin=0.0, vmax=1.0)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title, fontsize="medium")
    figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


def embedding_figure(trainer: Trainer, embedding: Float[np.ndarray, "rows D"]) -> Figure:
    """The first two principal components, coloured by the place on the map; lines join squares one step apart."""
    finite = trainer.world.finite
    assert finite is not None
    rows, squares = _rows_and_squares(finite)
    points = embedding[rows] - embedding[rows].mean(axis=0)
    _, sizes, components = np.linalg.svd(points, full_matrices=False)
    plane = points @ components[:2].T
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axis = figure.subplots()
    first_of_square = {int(square): i for i, square in reversed(list(enumerate(squares)))}
    for one, other in zip(*np.nonzero(finite.distances == 1), strict=True):
        if one < other and one in first_of_square and other in first_of_square:
            ends = plane[[first_of_square[one], first_of_square[other]]]
            axis.plot(*ends.T, color="0.8", linewidth=0.8, zorder=0)
    position = finite.square_positions[squares] / np.maximum(finite.square_positions.max(axis=0), 1)
    colours = np.stack([position[:, 0], 0.35 + 0 * position[:, 0], 1.0 - position[:, 1]], axis=1)
    axis.scatter(*plane.T, c=colours, s=14)
    share = (sizes[:2] ** 2).sum() / (sizes**2).sum()
    axis.set_title(
        f"{trainer.world.name}: f(x), two components ({share:.0%} of the variance)", fontsize="medium"
    )
    axis.set_aspect("equal", "datalim")
    axis.set_xticks([])
    axis.set_yticks([])
    return figure


def _rows_and_squares(finite: FiniteFacts) -> tuple[np.ndarray, np.ndarray]:
    """Every row of the table, and the square that the agent is on in it."""
    rows = finite.rows_of_states
    _, first = np.unique(rows, return_index=True)
    return rows[first], finite.model.square[first]


def _column(metrics: list[dict[str, Any]], name: str) -> list[float]:
    return [np.nan if line.get(name) is None else line[name] for line in metrics]

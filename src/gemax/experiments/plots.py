"""What the figures have in common: curves with bands, visits on a map, points on a plane."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemax.experiments.records import Record
from gemax.experiments.statistics import bucketed, mean_and_interval
from gemax.worlds.base import FiniteFacts

COLOURS = {
    "GEM": "tab:blue",
    "RND": "tab:green",
    "NGU": "tab:orange",
    "NGU+RND": "tab:red",
    "oracle": "tab:purple",
    "none": "0.5",
}
"""The same method has the same colour everywhere."""
TITLES = {
    "two-rooms": "2-Rooms",
    "two-rooms-noisy": "2-Rooms with noise",
    "sixteen-leaves": "16-Leaves",
    "two-keys": "2-Keys",
    "mountain-car": "MountainCar",
    "cartpole-swingup": "CartpoleSwingup",
}


def panels(number: int, *, width: float = 4.2, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    """Axes side by side."""
    figure = Figure(figsize=(width * number, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, number)))


def draw_curves(
    axis: Axes, runs: Mapping[str, Sequence[Record]], curve: str, colours: Mapping[str, str] | None = None
) -> None:
    """The mean over seeds of each label in 20 buckets, with its 95 % interval; the legend has the seconds it took."""
    largest = 0.0
    for number, (label, records) in enumerate(runs.items()):
        position, values = buckets_of(records, curve)
        mean, half_width = mean_and_interval(values)
        largest = max(largest, float(np.nanmax(np.abs(mean))))
        colour = (colours or COLOURS).get(label, f"C{number}")
        seconds = np.mean([record.facts["seconds"] for record in records])
        axis.plot(position, mean, color=colour, label=f"{label} ({seconds:.0f} s)", linewidth=1.6)
        axis.fill_between(
            position, mean - half_width, mean + half_width, color=colour, alpha=0.2, linewidth=0
        )
    axis.set_xlabel(f"updates of {_frames(runs):,} frames")
    axis.set_xlim(left=0)
    if curve == "return" and largest <= 1.0:
        # Intervals may reach beyond what can be earned.
        axis.set_ylim(-0.02, 1.05)
    axis.spines[["top", "right"]].set_visible(False)


def buckets_of(
    records: Sequence[Record], curve: str
) -> tuple[Float[np.ndarray, " buckets"], Float[np.ndarray, "seeds buckets"]]:
    """A curve of every seed in 20 buckets of updates."""
    last = records[0].config.updates
    rows = [bucketed(record.curves["update"], record.curves[curve], last) for record in records]
    return rows[0][0], np.stack([values for _, values in rows])


def draw_visits(axis: Axes, finite: FiniteFacts, visits: Float[np.ndarray, " squares"], title: str) -> None:
    """Visits on the map, divided by the largest: black is where the agent was most."""
    rows, columns = finite.square_positions.max(axis=0) + 1
    picture = np.full((rows, columns), np.nan)
    picture[tuple(finite.square_positions.T)] = visits / visits.max()
    axis.set_facecolor("tab:brown")
    axis.imshow(picture, cmap="gray_r", vmin=0.0, vmax=1.0)
    bare(axis, title)


def principal_plane(embedding: Float[np.ndarray, "N D"]) -> tuple[Float[np.ndarray, "N 2"], float]:
    """The first two principal components, and their share of the variance."""
    points = embedding - embedding.mean(axis=0)
    _, sizes, components = np.linalg.svd(points, full_matrices=False)
    return points @ components[:2].T, float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-30))


def colours_of_squares(finite: FiniteFacts, squares: np.ndarray) -> Float[np.ndarray, "N 3"]:
    """Neighbours on the map have similar colours: blue above, red below, brighter to the right."""
    place = finite.square_positions[squares] / np.maximum(finite.square_positions.max(axis=0), 1)
    return np.stack([place[:, 0], 0.15 + 0.6 * place[:, 1], 1.0 - place[:, 0]], axis=1)


def draw_plane(axis: Axes, plane: Float[np.ndarray, "N 2"], colours: Float[np.ndarray, "N 3"], **how) -> None:
    """Points of an embedding; both directions at the same scale."""
    axis.scatter(*plane.T, c=colours, **({"s": 14, "linewidths": 0.8} | how))
    axis.set_aspect("equal", "datalim")


def bare(axis: Axes, title: str) -> None:
    """No numbers at the axes, where they mean nothing."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title, fontsize="medium")


def _frames(runs: Mapping[str, Sequence[Record]]) -> int:
    return next(iter(runs.values()))[0].config.frames_per_update

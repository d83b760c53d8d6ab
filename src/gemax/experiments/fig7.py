"""Figure 7: visits under a coarse, a medium and a fine resolution of the embedding.

Claims: a finer resolution gives a larger entropy of visits. Fine: close to uniform in each room. Medium: skewed to
the rooms' boundaries, since states in the middle of a room are similar. Coarse: nearly one path, since leaving it
gains nothing.

`sec:sweepsim`.
"""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool
from matplotlib.figure import Figure

from gemax.envs.base import FiniteEnv
from gemax.envs.maps import paper_map
from gemax.experiments import claims, measures
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.plots import draw_curves, draw_legend
from gemax.experiments.statistics import PerSeed
from gemax.runs.plots import draw_heatmap

RESOLUTIONS = {
    "coarse": {"huber_offset": 0.3, "adjacency_scale": 20.0},
    "medium": {"huber_offset": 0.6, "adjacency_scale": 10.0},
    "fine": {"huber_offset": 1.0, "adjacency_scale": 1.0},
}
"""δ and C of each resolution."""
COLOURS = {"coarse": "tab:red", "medium": "tab:orange", "fine": "tab:blue"}
WITH_REWARD, REWARD_FREE = "with the reward", "reward-free"
PATH_LENGTH = 22
"""Steps from the start to the reward."""


def analyse(runs: Runs) -> FigureResult:
    """Plots entropy against updates, and the mean visits at the end of training."""
    finite = measures.finite_env("two-rooms")
    figure = Figure(figsize=(13.0, 7.4), layout="constrained")
    rows: Any = figure.subfigures(2, 1)
    for row, task in zip(rows, (WITH_REWARD, REWARD_FREE), strict=True):
        groups = {name: runs[f"{name}, {task}"] for name in RESOLUTIONS}
        axes = row.subplots(1, 4, width_ratios=(1.6, 1, 1, 1))
        draw_curves(axes[0], groups, "visitation_entropy", COLOURS, task)
        axes[0].axhline(groups["fine"][0].summary["entropy_ceiling"], color="0.5", linestyle=":")
        draw_legend(axes[0], loc="lower right")
        for axis, (name, records) in zip(axes[1:], groups.items(), strict=True):
            visits = np.mean([record.visits for record in records], axis=0)
            draw_heatmap(axis, finite, visits, f"{name}, {task}")
    return FigureResult(figure, decide_claims(runs, finite))


def decide_claims(runs: Runs, finite: FiniteEnv) -> list[claims.Claim]:
    """Decides the claims. Entropies and paths are measured with the reward, boundaries without it."""

    def measured(measure: measures.Measure, task: str, *names: str) -> dict[str, PerSeed]:
        return {name: measure(runs[f"{name}, {task}"]) for name in names}

    def finer_above_coarser(finer: str, coarser: str) -> claims.Claim:
        reward_free = measured(measures.final_entropies, REWARD_FREE, finer, coarser)
        return claims.decide_by_difference(
            f"fig7-{finer}-above-{coarser}",
            f"a {finer} resolution gives a larger entropy of visits than a {coarser} one",
            f"final entropy in nats, {finer} - {coarser} ≥ 0",
            measured(measures.final_entropies, WITH_REWARD, finer, coarser),
            reward_free={name: values.tolist() for name, values in reward_free.items()},
        )

    boundary = boundary_cells(finite)
    boundaries = claims.decide_by_difference(
        "fig7-medium-at-the-boundaries",
        "a medium resolution skews visits towards the rooms' boundaries (reward-free)",
        "share of visits at the boundaries, medium - fine ≥ 0",
        measured(partial(measures.visit_shares, cells=boundary), REWARD_FREE, "medium", "fine"),
        share_of_cells=float(boundary.mean()),
    )
    path = claims.decide_by_difference(
        "fig7-coarse-is-one-path",
        "a coarse resolution leaves no reason to deviate from a single path",
        f"share of visits on the {PATH_LENGTH} most visited cells, coarse - fine ≥ 0.2",
        measured(partial(measures.top_visit_shares, num_cells=PATH_LENGTH), WITH_REWARD, "coarse", "fine"),
    )
    return [finer_above_coarser("fine", "medium"), finer_above_coarser("medium", "coarse"), boundaries, path]


def boundary_cells(finite: FiniteEnv) -> Bool[np.ndarray, " cells"]:
    """Returns a mask of the cells of 2-Rooms that are next to a wall."""
    is_open = set(paper_map("two-rooms").open_cells)
    neighbours = finite.cell_positions[:, None] + np.asarray([(0, 1), (1, 0), (0, -1), (-1, 0)])
    return np.asarray([any(tuple(cell) not in is_open for cell in cells) for cells in neighbours.tolist()])


EXPERIMENT = Experiment(
    "The resolution of the embedding",
    "Finer resolutions give larger entropies; medium skews visits to the boundaries, coarse to one path.",
    analyse,
    {
        f"{name}, {task}": {"env_id": "two-rooms", "reward_free": task == REWARD_FREE, **resolution}
        for task in (WITH_REWARD, REWARD_FREE)
        for name, resolution in RESOLUTIONS.items()
    },
)

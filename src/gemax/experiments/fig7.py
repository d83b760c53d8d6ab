"""Figure 7: the resolution of the embedding decides what counts as different.

Claims: a finer resolution gives a larger entropy of visits. Fine: close to uniform in each room. Medium: skewed to
the rooms' boundaries, since the middles are clustered together. Coarse: nearly a line, with no reason to leave a
single path.

`sec:sweepsim`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gemax.experiments.budgets import configured
from gemax.experiments.claims import Claim, claim_at_least
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import final_entropies
from gemax.experiments.plots import draw_curves, draw_visits
from gemax.experiments.records import Record
from gemax.experiments.statistics import difference_of_means, estimate_of
from gemax.training.config import Preset
from gemax.worlds.base import FiniteFacts
from gemax.worlds.maps import TWO_ROOMS, parse_map
from gemax.worlds.registry import make_world

RESOLUTIONS = {"coarse": (0.3, 20.0), "medium": (0.6, 10.0), "fine": (1.0, 1.0)}
"""δ and C."""
COLOURS = {"coarse": "tab:red", "medium": "tab:orange", "fine": "tab:blue"}
TASKS = {"with the reward": False, "reward-free": True}


def sweep(preset: Preset) -> Sweep:
    """With the reward, as in the paper, and without, where nothing but the geometry speaks."""
    return {
        f"{name}, {task}": dataclasses.replace(
            configured("two-rooms", preset, reward_free=is_free), huber_offset=delta, adjacency_scale=scale
        )
        for task, is_free in TASKS.items()
        for name, (delta, scale) in RESOLUTIONS.items()
    }


def show(runs: Runs) -> Shown:
    """Entropy against updates, and where the agent was at the end, on average over seeds."""
    finite = make_world("two-rooms").finite
    assert finite is not None
    figure = Figure(figsize=(13.0, 7.4), layout="constrained")
    rows: Any = figure.subfigures(len(TASKS), 1)
    for number, task in enumerate(TASKS):
        axes = rows[number].subplots(1, 4, width_ratios=(1.6, 1, 1, 1))
        draw_curves(
            axes[0], {name: runs[f"{name}, {task}"] for name in RESOLUTIONS}, "visitation_entropy", COLOURS
        )
        axes[0].axhline(runs[f"fine, {task}"][0].facts["entropy_ceiling"], color="0.5", linestyle=":")
        axes[0].set_ylabel("entropy of visits, nats")
        axes[0].set_title(task)
        axes[0].legend(frameon=False, fontsize="small", loc="lower right")
        for axis, name in zip(axes[1:], RESOLUTIONS, strict=True):
            visits = np.mean([record.visits for record in runs[f"{name}, {task}"]], axis=0)
            draw_visits(axis, finite, visits, f"{name}, {task}")
    return Shown({"fig7": figure}, claims_of(runs, finite))


def claims_of(runs: Runs, finite: FiniteFacts) -> list[Claim]:
    """Of the runs with the reward; those without it are numbers beside."""
    claims = []
    for finer, coarser in (("fine", "medium"), ("medium", "coarse")):
        one, other = (final_entropies(runs[f"{name}, with the reward"]) for name in (finer, coarser))
        free = [final_entropies(runs[f"{name}, reward-free"]) for name in (finer, coarser)]
        claims.append(
            claim_at_least(
                f"fig7-{finer}-above-{coarser}",
                f"a {finer} resolution gives a larger entropy of visits than a {coarser} one",
                f"final entropy in nats, {finer} - {coarser}",
                estimate_of(difference_of_means, one, other),
                0.0,
                **{finer: one.tolist(), coarser: other.tolist()},
                reward_free={finer: free[0].tolist(), coarser: free[1].tolist()},
            )
        )
    edge = boundary_squares(finite)
    medium, fine = (shares_on(runs[f"{name}, reward-free"], edge) for name in ("medium", "fine"))
    claims.append(
        claim_at_least(
            "fig7-medium-at-the-boundaries",
            "a medium resolution skews visits towards the rooms' boundaries (reward-free)",
            "share of visits at the boundaries, medium - fine",
            estimate_of(difference_of_means, medium, fine),
            0.0,
            medium=medium.tolist(),
            fine=fine.tolist(),
            share_of_squares=float(edge.mean()),
        )
    )
    coarse, fine = (path_shares(runs[f"{name}, with the reward"]) for name in ("coarse", "fine"))
    claims.append(
        claim_at_least(
            "fig7-coarse-is-one-path",
            "a coarse resolution leaves no reason to deviate from a single path",
            f"share of visits on the {PATH} most visited squares, coarse - fine",
            estimate_of(difference_of_means, coarse, fine),
            0.2,
            coarse=coarse.tolist(),
            fine=fine.tolist(),
        )
    )
    return claims


PATH = 22
"""Steps from the start to the reward."""


def boundary_squares(finite: FiniteFacts) -> np.ndarray:
    """Which squares have a wall beside them."""
    grid_map = parse_map(TWO_ROOMS)
    is_open = set(grid_map.open_squares)
    return np.asarray(
        [
            any(
                (row + down, column + right) not in is_open
                for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))
            )
            for row, column in finite.square_positions.tolist()
        ]
    )


def shares_on(records: Sequence[Record], squares: np.ndarray) -> np.ndarray:
    """The share of the visits that fall on some squares, of every seed."""
    return np.asarray([record.visits[squares].sum() / record.visits.sum() for record in records])


def path_shares(records: Sequence[Record]) -> np.ndarray:
    """The share of the visits on as many squares as the shortest way has, the most visited ones."""
    return np.asarray([np.sort(record.visits)[-PATH:].sum() / record.visits.sum() for record in records])


EXPERIMENT = Experiment(
    "fig7",
    "The resolution of the embedding",
    "Finer resolutions give larger entropies; medium skews visits to the boundaries, coarse to one path.",
    sweep,
    show,
)

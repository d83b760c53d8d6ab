"""Figure 4: GEM against RND, NGU and NGU+RND in two gridworlds and two continuous worlds.

Claims: NGU alone is diverse within an episode only, and does not cover 16-Leaves. RND is slow and unsteady. NGU+RND
solves all. GEM does too, is the fastest in the gridworlds and comparable in the continuous worlds.

`sec:ngurnd`.
"""

import numpy as np

from gemax.experiments.budgets import configured
from gemax.experiments.claims import Claim, claim_at_least, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import areas, final_returns, share_solved, solving_times
from gemax.experiments.plots import TITLES, draw_curves, panels
from gemax.experiments.statistics import (
    difference_of_means,
    estimate_of,
    mean_of,
    ratio_of_means,
    stratified_interquartile_mean,
)
from gemax.training.config import Preset

GRIDWORLDS = ("two-rooms", "sixteen-leaves")
CONTINUOUS = ("mountain-car", "cartpole-swingup")
WORLDS = GRIDWORLDS + CONTINUOUS
RIVALS = {"RND": "rnd", "NGU": "ngu", "NGU+RND": "ngu-rnd"}
METHODS = {"GEM": "gem", **RIVALS}


def sweep(preset: Preset) -> Sweep:
    """Every method in every world."""
    return {
        f"{world}: {label}": configured(world, preset, method=method)
        for world in WORLDS
        for label, method in METHODS.items()
    }


def show(runs: Runs) -> Shown:
    """Return against updates, and who solves what how fast."""
    figure, axes = panels(len(WORLDS))
    for world, axis in zip(WORLDS, axes, strict=True):
        draw_curves(axis, {label: runs[f"{world}: {label}"] for label in METHODS}, "return")
        axis.set_title(TITLES[world])
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("return, last 1,000 episodes")
    claims = [_ngu_misses_leaves(runs), _solves_all(runs, "NGU+RND"), _solves_all(runs, "GEM")]
    for world in WORLDS:
        claims += [_gem_is_as_fast(runs, world, rival) for rival in RIVALS]
    claims += [_rnd_is_unsteady(runs, world) for world in WORLDS]
    return Shown({"fig4": figure}, claims, _table(runs))


def _ngu_misses_leaves(runs: Runs) -> Claim:
    gem, ngu = (final_returns(runs[f"sixteen-leaves: {label}"]) for label in ("GEM", "NGU"))
    return claim_at_least(
        "fig4-ngu-misses-leaves",
        "16-Leaves: NGU alone does not cover all leaves and ends below GEM",
        "final return, GEM - NGU",
        estimate_of(difference_of_means, gem, ngu),
        0.05,
        gem=gem.tolist(),
        ngu=ngu.tolist(),
    )


def _solves_all(runs: Runs, label: str) -> Claim:
    by_world = {world: share_solved(runs[f"{world}: {label}"]) for world in WORLDS}
    return claim_at_least(
        f"fig4-{METHODS[label]}-solves-all",
        f"{label} solves all four tasks, with every seed",
        "share of the runs that solved their task",
        estimate_of(mean_of, np.concatenate(list(by_world.values()))),
        1.0,
        **{world: solved.tolist() for world, solved in by_world.items()},
    )


def _gem_is_as_fast(runs: Runs, world: str, rival: str) -> Claim:
    gem, other = (solving_times(runs[f"{world}: {label}"]) for label in ("GEM", rival))
    bar, words = (1.0, "at least as fast as") if world in GRIDWORLDS else (1.25, "not slower than")
    return claim_at_most(
        f"fig4-{world}-gem-as-fast-as-{RIVALS[rival]}",
        f"{TITLES[world]}: GEM is {words} {rival}",
        f"updates to solve, GEM / {rival}",
        estimate_of(ratio_of_means, gem, other),
        bar,
        gem=gem.tolist(),
        rival=other.tolist(),
    )


def _rnd_is_unsteady(runs: Runs, world: str) -> Claim:
    gem, rnd = (areas(runs[f"{world}: {label}"]) for label in ("GEM", "RND"))
    return claim_at_least(
        f"fig4-{world}-rnd-unsteady",
        f"{TITLES[world]}: RND is less steady than GEM",
        "deviation over seeds of the area under the curve, RND / GEM",
        estimate_of(_ratio_of_deviations, rnd, gem),
        1.0,
        rnd=rnd.tolist(),
        gem=gem.tolist(),
    )


def _ratio_of_deviations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(one.std(axis=-1) / np.maximum(other.std(axis=-1), 1e-9))


def _table(runs: Runs) -> str:
    """Beside the mean, what outliers cannot move."""
    lines = [
        "| method | seeds solved | updates to solve, as a share of the run: interquartile mean over all worlds |",
        "|---|---|---|",
    ]
    for label in METHODS:
        groups = [runs[f"{world}: {label}"] for world in WORLDS]
        shares = [solving_times(records) / records[0].config.updates for records in groups]
        value, low, high = stratified_interquartile_mean(shares)
        solved = int(sum(share_solved(records).sum() for records in groups))
        lines.append(
            f"| {label} | {solved} of {sum(map(len, groups))} | {value:.2f} ({low:.2f} to {high:.2f}) |"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    "fig4",
    "GEM against RND, NGU and NGU+RND",
    "NGU alone does not cover 16-Leaves, RND is slow and unsteady, NGU+RND solves all; GEM does too, and faster.",
    sweep,
    show,
)

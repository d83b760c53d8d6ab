"""Claims that the paper makes in passing: the exponent q of the regulariser, and the normalisation of the reward.

`sec:similarity`: higher q relate closer to a reachability distance, and q = 4 works well. "Intrinsic Reward
Normalization": with it GEM is robust to the resolution of the embedding and to the size of the world.
"""

import numpy as np

from gemax.experiments.budgets import configured
from gemax.experiments.claims import Claim, claim_at_least
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.fig7 import RESOLUTIONS
from gemax.experiments.measures import areas, geometry_kept, share_solved
from gemax.experiments.plots import draw_curves, panels
from gemax.experiments.statistics import difference_of_means, estimate_of, mean_of
from gemax.training.config import Preset
from gemax.worlds.registry import make_world

EXPONENTS = (1.0, 2.0, 4.0)


def sweep_q(preset: Preset) -> Sweep:
    """Q = 1, 2 and 4 in 2-Rooms."""
    return {f"q = {q:g}": configured("two-rooms", preset, huber_exponent=q) for q in EXPONENTS}


def show_q(runs: Runs) -> Shown:
    """Return against updates, and the geometry that each q keeps."""
    finite = make_world("two-rooms").finite
    assert finite is not None
    kept = {
        label: np.asarray([geometry_kept(record, finite) for record in records])
        for label, records in runs.items()
    }
    figure, (curves, bars) = panels(2)
    draw_curves(curves, runs, "return")
    curves.set_ylabel("return, last 1,000 episodes")
    curves.legend(frameon=False, fontsize="small")
    for number, values in enumerate(kept.values()):
        bars.scatter(np.full(len(values), number), values, color=f"C{number}")
    bars.set_xticks(range(len(kept)), list(kept))
    bars.set_ylabel("rank correlation with steps on the map")
    bars.spines[["top", "right"]].set_visible(False)
    claims = [
        claim_at_least(
            "passing-q-works",
            "q = 4 works well: 2-Rooms is solved",
            "share of the seeds that solved it",
            estimate_of(mean_of, share_solved(runs["q = 4"])),
            1.0,
        ),
        claim_at_least(
            "passing-q-nearer-to-reachability",
            "a higher exponent relates closer to the number of steps between states",
            "rank correlation of embedding distance with steps on the map, q = 4 - q = 1",
            estimate_of(difference_of_means, kept["q = 4"], kept["q = 1"]),
            0.0,
            **{label: values.tolist() for label, values in kept.items()},
        ),
    ]
    return Shown({"passing-q": figure}, claims)


NORMALISED, RAW = "normalised", "only scaled"


def sweep_normalisation(preset: Preset) -> Sweep:
    """The three resolutions of figure 7, normalised and not. Raw rewards differ in size and mean by resolution."""
    return {
        f"{how}, {name}": configured(
            "two-rooms", preset, huber_offset=delta, adjacency_scale=scale, normalise=how == NORMALISED
        )
        for how in (NORMALISED, RAW)
        for name, (delta, scale) in RESOLUTIONS.items()
    }


def show_normalisation(runs: Runs) -> Shown:
    """Return against updates."""
    figure, axes = panels(2)
    for axis, how in zip(axes, (NORMALISED, RAW), strict=True):
        draw_curves(axis, {name: runs[f"{how}, {name}"] for name in RESOLUTIONS}, "return")
        axis.set_title(how)
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("return, last 1,000 episodes")
    return Shown({"passing-normalisation": figure}, [_claim(runs)])


def _claim(runs: Runs) -> Claim:
    worst = {
        how: np.min([areas(runs[f"{how}, {name}"]) for name in RESOLUTIONS], axis=0)
        for how in (NORMALISED, RAW)
    }
    return claim_at_least(
        "passing-normalisation-robust",
        "normalised rewards make GEM robust to the resolution of the embedding",
        "area under the curve at the worst resolution, normalised - only scaled",
        estimate_of(difference_of_means, worst[NORMALISED], worst[RAW]),
        0.0,
        **{how: values.tolist() for how, values in worst.items()},
    )


EXPONENT = Experiment(
    "passing-q",
    "The exponent q",
    "Higher exponents relate closer to a reachability distance; q = 4 works well.",
    sweep_q,
    show_q,
)
NORMALISATION = Experiment(
    "passing-normalisation",
    "Normalisation of the reward",
    "Normalisation makes GEM robust to the resolution of the embedding.",
    sweep_normalisation,
    show_normalisation,
)

"""Ablations that the paper only mentions: the exponent q, normalisations, and the return estimate.

`sec:similarity`: higher q relate closer to a reachability distance, and q = 4 works well. "Intrinsic Reward
Normalization": with it GEM is robust to the resolution of the embedding and to the size of the environment.
`alg:policygradient` has averaged returns and TD advantages without correction, and the text has V-trace. RND's rewards
are normalised "as per RND, with the exponential decay being 0.95", which can be read in three ways.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemax.experiments import claims, measures, plots, statistics
from gemax.experiments.experiment import Experiment, FigureResult, Runs, figure_config
from gemax.experiments.fig7 import RESOLUTIONS

NORMALISED, NOT_NORMALISED = "normalised", "only scaled"
RAW_STD = 0.47
"""Mean standard deviation of GEM's raw reward in nats, over the first 200 updates in 2-Rooms with the fine resolution.
Without normalisation, the scale is divided by it, and the reward is centred. Both sides then have the same scale at the
fine resolution, and the same mean. They differ in whether the scale adapts to the other resolutions."""
RND_READINGS = {
    "its return, decay 0.95": {},
    "its return, no decay": {"rnd_return_decay": 1.0},
    "its error, decay 0.95": {"rnd_divisor": "error"},
}
"""The quantity whose standard deviation divides RND's error. The first is that of the figures, the second that of RND's
own paper."""
RETURN_TO_ERROR = 50.0
"""About how many times as large the standard deviation of the return is in the first updates. Later, rewards that are
divided without decay shrink with the error, and the others do not: that is a part of the reading."""
VTRACE, AVERAGED = "V-trace", "averaged returns, TD advantage"


def analyse_q(runs: Runs) -> FigureResult:
    """Plots return against updates, and the geometry learned with each exponent."""
    finite = measures.finite_env("two-rooms")
    correlations = {label: measures.geometry_correlations(records, finite) for label, records in runs.items()}
    figure, (left, right) = plots.subplots(2)
    plots.draw_curves(left, runs, "return")
    plots.draw_legend(left)
    plots.draw_seeds(right, correlations, {}, "rank correlation with steps on the map")
    works = claims.decide_by_solving(
        "ablation-q-works", "q = 4 works well: 2-Rooms is solved", {"q = 4": runs["q = 4"]}
    )
    geometry = claims.decide_by_difference(
        "ablation-q-nearer-to-reachability",
        "a higher exponent relates closer to the number of steps between states",
        "rank correlation of embedding distance with steps on the map, q = 4 - q = 1 ≥ 0",
        {label: correlations[label] for label in ("q = 4", "q = 1")},
        **{"q = 2": correlations["q = 2"].tolist()},
    )
    return FigureResult(figure, [works, geometry], measures.solving_table({"2-Rooms": runs}))


def analyse_normalisation(runs: Runs) -> FigureResult:
    """Plots return against updates and compares the worst resolutions."""
    panels = {
        label: {name: runs[f"{label}, {name}"] for name in RESOLUTIONS}
        for label in (NORMALISED, NOT_NORMALISED)
    }
    claim = claims.decide_by_difference(
        "ablation-normalisation-robust",
        "normalised rewards make GEM robust to the resolution of the embedding",
        "area under the curve at the worst resolution, normalised - only scaled ≥ 0",
        {
            label: np.min([measures.return_areas(records) for records in groups.values()], axis=0)
            for label, groups in panels.items()
        },
    )
    return FigureResult(plots.return_curves(panels), [claim], measures.solving_table(panels))


def analyse_returns(runs: Runs) -> FigureResult:
    """Plots return against updates, and compares the updates to solve."""
    solves = claims.decide_by_solving(
        "ablation-returns-solves",
        "with averaged returns and TD advantages of overlapping unrolls, uncorrected, 2-Rooms is solved",
        {AVERAGED: runs[AVERAGED]},
    )
    speed = claims.decide_by_speed(
        "ablation-returns-as-fast",
        "they are not slower than V-trace with the same unrolls",
        "updates to solve, averaged / V-trace ≤ 1.25",
        {"averaged": runs[AVERAGED], "vtrace": runs[VTRACE]},
    )
    table = measures.solving_table({"2-Rooms": runs})
    return FigureResult(plots.return_curves({"": runs}, width=5.0), [solves, speed], table)


def analyse_rnd(runs: Runs) -> FigureResult:
    """Plots return against updates, and decides for each reading whether RND is less steady than GEM."""
    decided = [
        claims.decide_by_estimate(
            statistics.estimate_ratio_of_stds,
            f"ablation-rnd-{claims.id_of(label)}-unsteady",
            f"2-Rooms: RND, divided by the standard deviation of {label}, is less steady than GEM",
            "standard deviation over seeds of the area under the curve, RND / GEM ≥ 1",
            {"rnd": measures.return_areas(runs[label]), "gem": measures.return_areas(runs["GEM"])},
        )
        for label in RND_READINGS
    ]
    table = measures.solving_table({"2-Rooms": runs})
    return FigureResult(plots.return_curves({"": runs}, width=5.0), decided, table)


def rnd_settings(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a reading, with a scale that gives first rewards of about the same size."""
    settings = {"env_id": "two-rooms", "method": "rnd", **reading}
    if "rnd_divisor" in reading:
        scale = figure_config("two-rooms", "laptop", method="rnd").intrinsic.intrinsic_scale
        settings["intrinsic_scale"] = float(f"{scale / RETURN_TO_ERROR:.3g}")
    return settings


def scale_of(label: str) -> dict[str, float]:
    """Returns the settings that give both labels the same scale at the fine resolution."""
    scale = figure_config("two-rooms", "laptop").intrinsic.intrinsic_scale
    return {"intrinsic_scale": scale if label == NORMALISED else float(f"{scale / RAW_STD:.3g}")}


EXPONENT = Experiment(
    "The exponent q",
    "Higher exponents relate closer to a reachability distance; q = 4 works well.",
    analyse_q,
    {f"q = {q:g}": {"env_id": "two-rooms", "huber_exponent": q} for q in (1.0, 2.0, 4.0)},
)
NORMALISATION = Experiment(
    "Normalisation of the reward",
    "Normalisation makes GEM robust to the resolution of the embedding.",
    analyse_normalisation,
    # Raw rewards differ in size between the resolutions of figure 7.
    {
        f"{label}, {name}": {
            "env_id": "two-rooms",
            "normalise_reward": label == NORMALISED,
            "centre_reward": label == NOT_NORMALISED,
            **scale_of(label),
            **resolution,
        }
        for label in (NORMALISED, NOT_NORMALISED)
        for name, resolution in RESOLUTIONS.items()
    },
)
RND = Experiment(
    "The normalisation of RND",
    "RND's rewards are normalised as in its paper, with the decay 0.95 of the GEM paper's text. Other readings: "
    "without decay, as RND's authors do, and by the error itself.",
    analyse_rnd,
    {"GEM": {"env_id": "two-rooms"}}
    | {label: rnd_settings(reading) for label, reading in RND_READINGS.items()},
)
OVERLAPPING = {"env_id": "two-rooms", "unroll_length": 20, "unroll_period": 10}
RETURNS = Experiment(
    "The return estimate",
    "The paper's algorithm averages n-step returns and uses the TD error as advantage, without a correction for steps "
    "that older policies took. Its text has V-trace, which is the default here. Unrolls of 20 steps every 10.",
    analyse_returns,
    {VTRACE: OVERLAPPING, AVERAGED: OVERLAPPING | {"returns": "averaged", "advantage": "td"}},
)

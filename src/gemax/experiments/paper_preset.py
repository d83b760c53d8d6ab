"""The paper's own settings, `--preset paper`: no method is tuned, and the scales are those of the paper's table.

Convolutions on pixels, an LSTM of 256, 256 environments, a learning rate of 1e-4, 32 sampled negatives, and traces of
20 steps every 10. An update takes 0.2 to 0.5 seconds on two cores, and several seconds with noise, whose observations
have no table. So these experiments are not part of `gemax reproduce all`. Like all experiments, they can be stopped and
continued.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gemax.envs.registry import ENVS
from gemax.experiments import claims, fig3, fig4, fig5, measures, plots, statistics
from gemax.experiments.experiment import Experiment, FigureResult, Runs

SETTINGS = {"preset": "paper", "checkpoint_every": 200}
UPDATES = {"two-rooms": 2000, "mountain-car": 3000, "sixteen-leaves": 3000, "two-rooms-noisy": 1000}
"""The number of updates is ours. The paper does not say how long it trained."""
ORACLES = {label: settings for label, settings in fig3.SETTINGS.items() if label != "GEM"}
SLOW_ORACLES = tuple(label for label in ORACLES if label != "oracle, n = 1")
BASELINES = {title: {"method": method} for method, title in fig4.TITLES.items() if method != "gem"}
COLOURS = plots.COLOURS | fig3.COLOURS
FEW = ("oracle, n = 1", "NGU+RND")
"""What GEM is compared with where runs are long."""


def analyse(name: str, env_id: str, runs: Runs) -> FigureResult:
    """Plots return against updates, and decides the claims of figures 3 and 4 about the runs that there are."""
    panels = {ENVS[env_id].title: runs}
    decided = [_solves(name, env_id, runs, label) for label in ("GEM", "NGU+RND") if label in runs]
    decided += [_compare_speed(name, env_id, runs, label) for label in runs if label != "GEM"]
    if "RND" in runs:
        decided.append(
            claims.decide_by_estimate(
                statistics.estimate_ratio_of_stds,
                f"{name}-rnd-unsteady",
                f"{ENVS[env_id].title}, paper preset: RND is less steady than GEM",
                "standard deviation over seeds of the area under the curve, RND / GEM ≥ 1",
                {label: measures.return_areas(runs[label]) for label in ("RND", "GEM")},
            )
        )
    figure = plots.return_curves(panels, COLOURS, width=6.0)
    return FigureResult(figure, decided, measures.solving_table(panels))


def _solves(name: str, env_id: str, runs: Runs, label: str) -> claims.Claim:
    return claims.decide_by_solving(
        f"{name}-{claims.id_of(label)}-solves",
        f"{ENVS[env_id].title}, paper preset: {label} solves it",
        {label: runs[label]},
    )


def _compare_speed(name: str, env_id: str, runs: Runs, label: str) -> claims.Claim:
    """Compares the updates to solve with the bars of figures 3 and 4."""
    title, names = f"{ENVS[env_id].title}, paper preset", {"GEM": runs["GEM"], label: runs[label]}
    if label in SLOW_ORACLES:
        return claims.decide_by_speed(
            f"{name}-gem-twice-as-fast-as-{claims.id_of(label)}",
            f"{title}: GEM is at least twice as fast as the {label}",
            f"updates to solve, {label} / GEM ≥ 2",
            dict(reversed(names.items())),
        )
    bar = 1 if label not in ORACLES and ENVS[env_id].is_gridworld else 1.25
    return claims.decide_by_speed(
        f"{name}-gem-as-fast-as-{claims.id_of(label)}",
        f"{title}: GEM is {'at least as fast as' if bar == 1 else 'not slower than'} {label}",
        f"updates to solve, GEM / {label} ≤ {bar}",
        names,
    )


def analyse_noise(runs: Runs) -> FigureResult:
    """Plots return against updates with and without AR, and decides whether AR makes GEM robust to noise."""
    title, with_ar = f"{ENVS['two-rooms-noisy'].title}, paper preset", {fig5.WITH_AR: runs[fig5.WITH_AR]}
    decided = [
        claims.decide_by_solving("paper-noise-with-ar", f"{title}: GEM with AR solves it", with_ar),
        claims.decide_by_mean(
            "paper-noise-without-ar",
            f"{title}: GEM without AR fails",
            "final return ≤ 0.05",
            {"returns": measures.final_returns(runs[fig5.WITHOUT_AR])},
        ),
    ]
    panels = {ENVS["two-rooms-noisy"].title: runs}
    return FigureResult(plots.return_curves(panels, width=6.0), decided, measures.solving_table(panels))


def paper_experiment(
    title: str,
    env_id: str,
    runs: Mapping[str, Mapping[str, Any]],
    analyse: Callable[[Runs], FigureResult],
    num_seeds: int,
) -> Experiment:
    """Returns an experiment with the paper's settings."""
    return Experiment(
        f"The paper's settings: {title}",
        f"{ENVS[env_id].title} with `--preset paper` and {UPDATES[env_id]:,} updates. No method is tuned.",
        analyse,
        {
            label: {"env_id": env_id, "updates": UPDATES[env_id], **SETTINGS, **settings}
            for label, settings in runs.items()
        },
        num_seeds=num_seeds,
        is_in_all=False,
    )


ALL_RUNS = {"GEM": {}, **ORACLES, **BASELINES}
FEW_RUNS = {"GEM": {}} | {label: ALL_RUNS[label] for label in FEW}
EXPERIMENTS = {
    "paper-rooms": paper_experiment(
        "figures 3 and 4", "two-rooms", ALL_RUNS, partial(analyse, "paper-rooms", "two-rooms"), 5
    ),
    "paper-car": paper_experiment(
        "MountainCar",
        "mountain-car",
        {"GEM": {}, **BASELINES},
        partial(analyse, "paper-car", "mountain-car"),
        3,
    ),
    "paper-leaves": paper_experiment(
        "16-Leaves", "sixteen-leaves", FEW_RUNS, partial(analyse, "paper-leaves", "sixteen-leaves"), 3
    ),
    "paper-noise": paper_experiment("figure 5", "two-rooms-noisy", fig5.SETTINGS, analyse_noise, 3),
}

"""Extensions of the paper: Tsallis entropies, exact negatives, past visits, two scales, and shares of the ceiling."""

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments import claims, fig3, fig4, measures, plots
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.measures import solving_table
from gemax.experiments.statistics import estimate_mean
from gemax.rewards.registry import PAPER_METHODS
from gemax.runs.solving import reaches

MEMORY = "GEM with past visits (ours)"
MEMORY_BASELINES = {label: settings for label, settings in fig3.SETTINGS.items() if label != "GEM"} | {
    title: {"method": method} for method, title in fig4.TITLES.items() if method != "gem"
}
MEMORY_ENV_IDS = ("two-rooms", "sixteen-leaves")
TWO_SCALES = "GEM over and within episodes (ours)"
SCALE_ENV_IDS = (
    "two-rooms", "two-rooms-noisy", "sixteen-leaves", "two-keys", "mountain-car", "cartpole-swingup",
)  # fmt: skip
EXACT, SAMPLED = "all negatives", "32 sampled negatives"


def analyse_tsallis(runs: Runs) -> FigureResult:
    """Plots return and entropy against updates, and decides whether each α solves 2-Rooms."""
    figure, (left, right) = plots.subplots(2)
    plots.draw_curves(left, runs, "return")
    plots.draw_curves(right, runs, "visitation_entropy")
    plots.draw_legend(left)
    decided = [
        claims.decide_by_solving(
            f"extension-tsallis-{label.removeprefix('α = ')}",
            f"2-Rooms is solved with the Tsallis entropy of {label}",
            {label: records},
        )
        for label, records in runs.items()
    ]
    return FigureResult(figure, decided, solving_table({"2-Rooms": runs}))


def analyse_negatives(runs: Runs) -> FigureResult:
    """Plots return against updates, and compares the updates to solve."""
    claim = claims.decide_by_speed(
        "extension-negatives-exact",
        "the exact expectation over negatives is no slower than 32 sampled ones",
        "updates to solve, exact / sampled ≤ 1.1",
        {"exact": runs[EXACT], "sampled": runs[SAMPLED]},
    )
    return FigureResult(plots.return_curves({"": runs}, width=5.0), [claim], solving_table({"2-Rooms": runs}))


def analyse_memory(runs: Runs) -> FigureResult:
    """Plots return against updates, and compares GEM with past visits with all runs of figures 3 and 4."""
    others = ("GEM", *MEMORY_BASELINES)
    panels = {
        ENVS[env_id].title: {label: runs[f"{env_id}: {label}"] for label in (MEMORY, *others)}
        for env_id in MEMORY_ENV_IDS
    }
    decided = [
        claims.decide_by_speed(
            f"extension-memory-{env_id}-{claims.id_of(label)}",
            f"{ENVS[env_id].title}: GEM with a memory of past visits is not slower than {label}",
            f"updates to solve, GEM with past visits / {label} ≤ 1",
            {"memory": runs[f"{env_id}: {MEMORY}"], "other": runs[f"{env_id}: {label}"]},
        )
        for env_id in MEMORY_ENV_IDS
        for label in others
    ]
    colours = plots.COLOURS | fig3.COLOURS | {MEMORY: "tab:cyan"}
    return FigureResult(plots.return_curves(panels, colours, width=4.6), decided, solving_table(panels))


def analyse_two_scales(runs: Runs) -> FigureResult:
    """Plots return against updates, and compares GEM with a measured episodic weight with GEM over all episodes."""
    panels = {
        ENVS[env_id].title: {label: runs[f"{env_id}: {label}"] for label in ("GEM", TWO_SCALES)}
        for env_id in SCALE_ENV_IDS
    }
    decided = [
        claims.decide_by_speed(
            f"extension-scales-{env_id}",
            f"{ENVS[env_id].title}: GEM over and within episodes is no slower than GEM over all episodes",
            "updates to solve, both / GEM ≤ 1.1",
            {"both": runs[f"{env_id}: {TWO_SCALES}"], "gem": runs[f"{env_id}: GEM"]},
        )
        for env_id in SCALE_ENV_IDS
    ]
    leaves = measures.final_returns(runs[f"sixteen-leaves: {TWO_SCALES}"])
    all_leaves = claims.decide_for_every_seed(
        "extension-scales-leaves",
        "16-Leaves: GEM over and within episodes keeps all 16 leaves, with every seed",
        "share of seeds whose final return is at least 0.95",
        {"sixteen-leaves": np.array([reaches(value, 0.95) for value in leaves], float)},
        final_returns=leaves.tolist(),
    )
    colours = plots.COLOURS | {TWO_SCALES: "tab:cyan"}
    figure = plots.return_curves(panels, colours, width=3.2)
    return FigureResult(figure, [*decided, all_leaves], solving_table(panels))


def analyse_ceiling(runs: Runs) -> FigureResult:
    """Plots the frozen policy's entropy as a share of the ceiling, one point per seed. Decides the claim about GEM."""
    measure = "entropy of visits, share of the ceiling"
    random = measures.random_entropy_share(runs["GEM"][0])
    shares = {label: measures.entropy_shares(records) for label, records in runs.items()}
    figure, (axis,) = plots.subplots(1, width=6.0)
    plots.draw_seeds(axis, shares, plots.COLOURS, measure)
    axis.axhline(random, color="0.5", linestyle=":", label="random policy")
    axis.axhline(1.0, color="0.5")
    plots.draw_legend(axis)
    claim = claims.decide(
        "extension-ceiling-gem",
        "2-Rooms, reward-free: the entropy of GEM's frozen policy is within 3 % of the ceiling",
        f"{measure} ≥ 0.97",
        estimate_mean(shares["GEM"]),
        random_policy=random,
        **{label: values.tolist() for label, values in shares.items()},
    )
    return FigureResult(figure, [claim])


TSALLIS = Experiment(
    "Tsallis entropies",
    "GEM with the Tsallis entropies of the appendix. α = 1 is Shannon.",
    analyse_tsallis,
    {f"α = {alpha:g}": {"env_id": "two-rooms", "alpha": alpha} for alpha in (0.0, 0.5, 1.0, 1.5)},
)
NEGATIVES = Experiment(
    "Exact against sampled negatives",
    "The expectation over negatives can be computed exactly at low cost. The paper samples 32 negatives.",
    analyse_negatives,
    {
        EXACT: {"env_id": "two-rooms", "num_negatives": 0},
        SAMPLED: {"env_id": "two-rooms", "num_negatives": 32},
    },
)
PAST_VISITS = Experiment(
    "GEM with a memory of past visits",
    "An extension, not in the paper: GEM's negatives come from the visits of the last hundred or so updates, as the "
    "oracle's counts do (`past_visits_decay` 0.99). Otherwise these are the runs of figures 3 and 4.",
    analyse_memory,
    {
        f"{env_id}: {label}": {"env_id": env_id, **settings}
        for env_id in MEMORY_ENV_IDS
        for label, settings in {"GEM": {}, MEMORY: {"past_visits_decay": 0.99}, **MEMORY_BASELINES}.items()
    },
    num_seeds=10,
)
SCALES = Experiment(
    "GEM over and within episodes",
    "An extension, not in the paper: the default of `gemax train`, which measures the weight of the entropy within "
    "episodes (`episodic_weight auto`), against GEM over all episodes, the paper's.",
    analyse_two_scales,
    {
        f"{env_id}: {label}": {"env_id": env_id, **settings}
        for env_id in SCALE_ENV_IDS
        for label, settings in {"GEM": {}, TWO_SCALES: {"episodic_weight": "auto"}}.items()
    },
)
CEILING = Experiment(
    "Entropy as a share of the ceiling",
    "The largest possible entropy of visits is known. Each method's share of it, without the extrinsic reward.",
    analyse_ceiling,
    {
        row.title: {"env_id": "two-rooms", "method": method, "reward_free": True}
        for method, row in PAPER_METHODS.items()
    },
)

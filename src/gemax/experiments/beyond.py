"""Beyond the paper: Tsallis entropies, sampled negatives, and how near to the ceiling each method comes."""

import numpy as np

from gemax.experiments.budgets import configured
from gemax.experiments.claims import claim_at_least, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import (
    entropy_of,
    entropy_shares,
    random_policy_visits,
    share_solved,
    solving_times,
)
from gemax.experiments.plots import COLOURS, draw_curves, panels
from gemax.experiments.statistics import estimate_of, mean_of, ratio_of_means
from gemax.training.config import Preset
from gemax.worlds.registry import make_world

ALPHAS = (0.0, 0.5, 1.0, 1.5)


def sweep_tsallis(preset: Preset) -> Sweep:
    """α = 1 is Shannon's entropy."""
    return {f"α = {alpha:g}": configured("two-rooms", preset, alpha=alpha) for alpha in ALPHAS}


def show_tsallis(runs: Runs) -> Shown:
    """Return and entropy against updates."""
    figure, (returns, entropies) = panels(2)
    draw_curves(returns, runs, "return")
    draw_curves(entropies, runs, "visitation_entropy")
    returns.set_ylabel("return, last 1,000 episodes")
    entropies.set_ylabel("entropy of visits, nats")
    returns.legend(frameon=False, fontsize="small")
    claims = [
        claim_at_least(
            f"beyond-tsallis-{label.removeprefix('α = ')}",
            f"2-Rooms is solved with the Tsallis entropy of {label}",
            "share of the seeds that solved it",
            estimate_of(mean_of, share_solved(records)),
            1.0,
            updates=solving_times(records).tolist(),
        )
        for label, records in runs.items()
    ]
    return Shown({"beyond-tsallis": figure}, claims)


EXACT, SAMPLED = "all negatives", "32 sampled negatives"


def sweep_negatives(preset: Preset) -> Sweep:
    """The expectation over negatives by all of the other half, or by 32 of them as in the paper."""
    return {
        EXACT: configured("two-rooms", preset, num_negatives=0),
        SAMPLED: configured("two-rooms", preset, num_negatives=32),
    }


def show_negatives(runs: Runs) -> Shown:
    """Return against updates."""
    figure, (axis,) = panels(1, width=5.0)
    draw_curves(axis, runs, "return")
    axis.set_ylabel("return, last 1,000 episodes")
    axis.legend(frameon=False, fontsize="small")
    exact, sampled = solving_times(runs[EXACT]), solving_times(runs[SAMPLED])
    claim = claim_at_most(
        "beyond-negatives-exact",
        "the exact expectation over negatives is no slower than 32 sampled ones",
        "updates to solve, exact / sampled",
        estimate_of(ratio_of_means, exact, sampled),
        1.1,
        exact=exact.tolist(),
        sampled=sampled.tolist(),
    )
    return Shown({"beyond-negatives": figure}, [claim])


METHODS = {"GEM": "gem", "oracle": "oracle", "RND": "rnd", "NGU": "ngu", "NGU+RND": "ngu-rnd", "none": "none"}


def sweep_ceiling(preset: Preset) -> Sweep:
    """Every method in 2-Rooms, with no reward but its own."""
    return {
        label: configured("two-rooms", preset, method=method, reward_free=True)
        for label, method in METHODS.items()
    }


def show_ceiling(runs: Runs) -> Shown:
    """The entropy of the frozen policy as a share of the ceiling, a point a seed."""
    finite = make_world("two-rooms").finite
    assert finite is not None
    random = entropy_of(random_policy_visits(finite)) / runs["GEM"][0].facts["entropy_ceiling"]
    shares = {label: entropy_shares(records) for label, records in runs.items()}
    figure, (axis,) = panels(1, width=6.0)
    for number, (label, values) in enumerate(shares.items()):
        axis.scatter(np.full(len(values), number), values, color=COLOURS[label])
    axis.axhline(random, color="0.5", linestyle=":", label="random policy")
    axis.axhline(1.0, color="0.5")
    axis.set_xticks(range(len(shares)), list(shares))
    axis.set_ylabel("entropy of visits, share of the ceiling")
    axis.legend(frameon=False, fontsize="small")
    axis.spines[["top", "right"]].set_visible(False)
    claim = claim_at_least(
        "beyond-ceiling-gem",
        "2-Rooms, reward-free: the frozen policy of GEM comes within 3 % of the largest entropy there is",
        "entropy of visits, share of the ceiling",
        estimate_of(mean_of, shares["GEM"]),
        0.97,
        random_policy=float(random),
        **{label: values.tolist() for label, values in shares.items()},
    )
    return Shown({"beyond-ceiling": figure}, [claim])


TSALLIS = Experiment(
    "beyond-tsallis",
    "Tsallis entropies",
    "The generalisation of the appendix, at work: α from 0 to 1.5.",
    sweep_tsallis,
    show_tsallis,
)
NEGATIVES = Experiment(
    "beyond-negatives",
    "Exact against sampled negatives",
    "The expectation over negatives can be had exactly, and cheaply.",
    sweep_negatives,
    show_negatives,
)
CEILING = Experiment(
    "beyond-ceiling",
    "How near to the ceiling",
    "The largest entropy of visits is known; each method's share of it, without any reward from the world.",
    sweep_ceiling,
    show_ceiling,
)

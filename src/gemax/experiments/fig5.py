"""Figure 5: adjacency regularisation on and off, noise in view or not, in 2-Rooms.

Claim: with the regulariser there is no difference between noiseless and noisy. Without it the agent fails under noise,
and is no better than one that chooses every action alike.

`sec:adjreg`.
"""

import numpy as np

from gemax.experiments.budgets import configured
from gemax.experiments.claims import Claim, claim_at_least, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import (
    areas,
    entropy_of,
    entropy_shares,
    final_returns,
    random_policy_visits,
)
from gemax.experiments.plots import draw_curves, panels
from gemax.experiments.statistics import estimate_of, mean_of, ratio_of_means
from gemax.training.config import Preset
from gemax.worlds.registry import make_world

WITH, WITHOUT = "with AR", "without AR"
COLOURS = {"noiseless": "tab:blue", "noisy": "tab:orange"}
WORLDS = {"noiseless": "two-rooms", "noisy": "two-rooms-noisy"}


def sweep(preset: Preset) -> Sweep:
    """Two by two."""
    changes = {WITH: {}, WITHOUT: {"adjacency_scale": 0.0}}
    return {
        f"{label}, {noise}": configured(world, preset, **changes[label])
        for label in (WITH, WITHOUT)
        for noise, world in WORLDS.items()
    }


def show(runs: Runs) -> Shown:
    """Return against updates, with the regulariser and without."""
    figure, axes = panels(2)
    for label, axis in zip((WITH, WITHOUT), axes, strict=True):
        draw_curves(axis, {noise: runs[f"{label}, {noise}"] for noise in WORLDS}, "return", COLOURS)
        axis.set_title(f"GEM {label}")
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("return, last 1,000 episodes")
    return Shown({"fig5": figure}, claims_of(runs))


def claims_of(runs: Runs) -> list[Claim]:
    """By the area under the curve, and by what a random policy does."""
    noisy, noiseless = (areas(runs[f"{WITH}, {noise}"]) for noise in ("noisy", "noiseless"))
    failed = runs[f"{WITHOUT}, noisy"]
    returns, shares = final_returns(failed), entropy_shares(failed)
    finite = make_world("two-rooms").finite
    assert finite is not None
    random_share = entropy_of(random_policy_visits(finite)) / failed[0].facts["entropy_ceiling"]
    return [
        claim_at_least(
            "fig5-noise-makes-no-difference",
            "with AR, noise costs at most a fifth of the area under the curve",
            "area under the curve, noisy / noiseless",
            estimate_of(ratio_of_means, noisy, noiseless),
            0.8,
            noisy=noisy.tolist(),
            noiseless=noiseless.tolist(),
        ),
        claim_at_most(
            "fig5-without-ar-fails",
            "without AR the agent fails to solve the noisy task",
            "final return",
            estimate_of(mean_of, returns),
            0.05,
            returns=returns.tolist(),
        ),
        claim_at_most(
            "fig5-without-ar-no-better-than-random",
            "without AR and under noise it visits no more evenly than a random policy",
            "entropy of visits, as a share of that of a random policy",
            estimate_of(mean_of, shares / random_share),
            1.02,
            entropy_shares=shares.tolist(),
            random_policy=np.round(random_share, 4).item(),
        ),
    ]


EXPERIMENT = Experiment(
    "fig5",
    "Adjacency regularisation and noise",
    "With AR noise makes no difference; without it the agent fails under noise.",
    sweep,
    show,
)

"""Figure 3: GEM against oracle counts whose policy is updated in every n-th update only.

Claim: GEM is as fast as the idealised case n = 1, and several times faster than larger n. Alternating optimisation, in
which the density has to catch up before the policy moves, is what these stand for.

`sec:sweep2timescale`.
"""

import numpy as np

from gemax.experiments.budgets import UPDATES, configured
from gemax.experiments.claims import Claim, claim_at_least, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import solving_times
from gemax.experiments.plots import TITLES, draw_curves, panels
from gemax.experiments.statistics import estimate_of, ratio_of_means
from gemax.training.config import Preset

WORLDS = ("two-rooms", "sixteen-leaves")
SLOW = (5, 10)
"""Values of n beside 1."""
COLOURS = {
    "GEM": "tab:blue",
    "oracle, n = 1": "0.25",
    "oracle, n = 5": "tab:olive",
    "oracle, n = 10": "tab:pink",
}


def sweep(preset: Preset) -> Sweep:
    """The slow ones are given half as long again, to be found at least twice as slow if they are."""
    runs: Sweep = {}
    for world in WORLDS:
        runs[f"{world}: GEM"] = configured(world, preset)
        runs[f"{world}: oracle, n = 1"] = configured(world, preset, method="oracle")
        for every in SLOW:
            longer = {"updates": 3 * UPDATES[world] // 2} if preset == "laptop" else {}
            slow = configured(world, preset, method="oracle", policy_every=every, **longer)
            runs[f"{world}: oracle, n = {every}"] = slow
    return runs


def show(runs: Runs) -> Shown:
    """Return against updates, and who is faster by how much."""
    figure, axes = panels(len(WORLDS), width=4.6)
    claims: list[Claim] = []
    for world, axis in zip(WORLDS, axes, strict=True):
        here = {label: runs[f"{world}: {label}"] for label in COLOURS}
        draw_curves(axis, here, "return", COLOURS)
        axis.set_title(TITLES[world])
        axis.legend(frameon=False, fontsize="small")
        claims += claims_of(world, {label: solving_times(records) for label, records in here.items()})
    axes[0].set_ylabel("return, last 1,000 episodes")
    return Shown({"fig3": figure}, claims)


def claims_of(world: str, times: dict[str, np.ndarray]) -> list[Claim]:
    """From the updates that each seed took; one that did not solve the world counts with the length of its run."""
    gem = times["GEM"]
    claims = [
        claim_at_most(
            f"fig3-{world}-level-with-n-1",
            f"{TITLES[world]}: GEM is just as fast as the oracle with n = 1",
            "updates to solve, GEM / oracle",
            estimate_of(ratio_of_means, gem, times["oracle, n = 1"]),
            1.25,
            gem=gem.tolist(),
            oracle=times["oracle, n = 1"].tolist(),
        )
    ]
    for every in SLOW:
        slow = times[f"oracle, n = {every}"]
        claims.append(
            claim_at_least(
                f"fig3-{world}-faster-than-n-{every}",
                f"{TITLES[world]}: GEM is at least twice as fast as the oracle with n = {every}",
                "updates to solve, oracle / GEM",
                estimate_of(ratio_of_means, slow, gem),
                2.0,
                gem=gem.tolist(),
                oracle=slow.tolist(),
            )
        )
    return claims


EXPERIMENT = Experiment(
    "fig3",
    "Oracle counts against GEM",
    "GEM is as fast as oracle counts with n = 1, and several times faster than with n = 5 and 10.",
    sweep,
    show,
)

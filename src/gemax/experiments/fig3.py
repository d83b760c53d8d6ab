"""Figure 3: GEM against the count oracle with the policy updated only in every n-th update.

Claim: GEM is as fast as the idealised case n = 1, and several times faster than larger n. Larger n model alternating
optimisation, where the density must converge before each policy update.

`sec:sweep2timescale`.
"""

from gemax.envs.registry import ENVS
from gemax.experiments.claims import Claim, decide_by_speed
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.measures import solving_table
from gemax.experiments.plots import return_curves

ENV_IDS = ("two-rooms", "sixteen-leaves")
SLOW_BUDGET = 2.0
"""Length of the runs of the slow oracles, relative to the others, so that a ratio of 2 can be measured."""
SETTINGS = {
    "GEM": {},
    "oracle, n = 1": {"method": "oracle"},
    "oracle, n = 5": {"method": "oracle", "policy_every": 5, "budget": SLOW_BUDGET},
    "oracle, n = 10": {"method": "oracle", "policy_every": 10, "budget": SLOW_BUDGET},
}
COLOURS = dict(zip(SETTINGS, ("tab:blue", "0.25", "tab:olive", "tab:pink"), strict=True))


def analyse(runs: Runs) -> FigureResult:
    """Plots return against updates and compares the updates to solve."""
    groups = {env_id: {label: runs[f"{env_id}: {label}"] for label in SETTINGS} for env_id in ENV_IDS}
    panels = {ENVS[env_id].title: group for env_id, group in groups.items()}
    claims = [claim for env_id, group in groups.items() for claim in decide_claims(env_id, group)]
    return FigureResult(return_curves(panels, COLOURS, width=4.6), claims, solving_table(panels))


def decide_claims(env_id: str, runs: Runs) -> list[Claim]:
    """Decides the claims about one environment from the updates to solve of each label."""
    as_fast = decide_by_speed(
        f"fig3-{env_id}-level-with-n-1",
        f"{ENVS[env_id].title}: GEM is just as fast as the oracle with n = 1",
        "updates to solve, GEM / oracle ≤ 1.25",
        {"gem": runs["GEM"], "oracle": runs["oracle, n = 1"]},
    )
    faster = [
        decide_by_speed(
            f"fig3-{env_id}-faster-than-n-{n}",
            f"{ENVS[env_id].title}: GEM is at least twice as fast as the oracle with n = {n}",
            "updates to solve, oracle / GEM ≥ 2",
            {"oracle": runs[f"oracle, n = {n}"], "gem": runs["GEM"]},
        )
        for n in (5, 10)
    ]
    return [as_fast, *faster]


EXPERIMENT = Experiment(
    "The count oracle against GEM",
    "GEM is as fast as the count oracle with n = 1, and several times faster than with n = 5 and 10.",
    analyse,
    {
        f"{env_id}: {label}": {"env_id": env_id, **settings}
        for env_id in ENV_IDS
        for label, settings in SETTINGS.items()
    },
    num_seeds=10,
)

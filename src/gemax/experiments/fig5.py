"""Figure 5: GEM in 2-Rooms with and without adjacency regularisation (AR), with and without noise.

Claim: with AR, noise makes no difference. Without AR the agent fails under noise, and is no better than the uniform
random policy.

`sec:adjreg`.
"""

from gemax.experiments import claims, measures
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.plots import return_curves

WITH_AR, WITHOUT_AR = "with AR", "without AR"
SETTINGS = {WITH_AR: {}, WITHOUT_AR: {"adjacency_scale": 0.0}}
ENV_IDS = {"noiseless": "two-rooms", "noisy": "two-rooms-noisy"}
COLOURS = {"noiseless": "tab:blue", "noisy": "tab:orange"}
SWEEP = {
    f"{label}, {noise}": {"env_id": env_id, **settings}
    for label, settings in SETTINGS.items()
    for noise, env_id in ENV_IDS.items()
}


def analyse(runs: Runs) -> FigureResult:
    """Plots return against updates, with and without AR."""
    panels = {f"GEM {label}": {noise: runs[f"{label}, {noise}"] for noise in ENV_IDS} for label in SETTINGS}
    return FigureResult(return_curves(panels, COLOURS), decide_claims(runs), measures.solving_table(panels))


def decide_claims(runs: Runs) -> list[claims.Claim]:
    """Decides the claims by the area under the curve, and by comparison with the uniform random policy."""
    noisy_without_ar = runs[f"{WITHOUT_AR}, noisy"]
    random = measures.random_entropy_share(noisy_without_ar[0])
    random_return = measures.random_policy_return(measures.finite_env("two-rooms"))
    areas = {noise: measures.return_areas(runs[f"{WITH_AR}, {noise}"]) for noise in ("noisy", "noiseless")}
    return [
        claims.decide_by_ratio(
            "fig5-noise-makes-no-difference",
            "with AR, noise costs at most a fifth of the area under the curve",
            "area under the curve, noisy / noiseless ≥ 0.8",
            areas,
        ),
        claims.decide_by_mean(
            "fig5-without-ar-fails",
            "without AR the agent fails to solve the noisy task",
            "final return ≤ 0.05",
            {"returns": measures.final_returns(noisy_without_ar)},
        ),
        claims.decide_by_mean(
            "fig5-without-ar-no-better-than-random",
            "without AR and under noise, the return is no better than that of a random policy",
            "final return - that of a random policy ≤ 0.02",
            {"differences": measures.final_returns(noisy_without_ar) - random_return},
            random_policy=round(random_return, 4),
        ),
        claims.decide_by_mean(
            "fig5-without-ar-no-more-even-than-random",
            "without AR and under noise, visits are no more even than those of a random policy",
            "entropy of visits, as a share of that of a random policy ≤ 1.02",
            {"shares_of_random_policy": measures.entropy_shares(noisy_without_ar) / random},
            random_policy=round(random, 4),
        ),
    ]


EXPERIMENT = Experiment(
    "Adjacency regularisation and noise",
    "With AR noise makes no difference; without it the agent fails under noise.",
    analyse,
    SWEEP,
)

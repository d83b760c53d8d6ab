"""Figure 6: the embedding f in the four settings of figure 5.

Claim: with adjacency regularisation (AR) f learns the grid geometry of 2-Rooms, with or without noise. Without AR the
embeddings are random and follow the noise.

`sec:adjreg`.
"""

from matplotlib.figure import Figure

from gemax.experiments import claims
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.fig5 import SWEEP, WITH_AR, WITHOUT_AR
from gemax.experiments.measures import finite_env, geometry_correlations
from gemax.experiments.statistics import PerSeed
from gemax.runs.plots import draw_embedding, hide_ticks

MEASURE = "rank correlation of embedding distance with steps on the map"


def analyse(runs: Runs) -> FigureResult:
    """Plots two principal components for seed 0, and measures the geometry of every seed."""
    finite = finite_env("two-rooms")
    correlations = {label: geometry_correlations(records, finite) for label, records in runs.items()}
    figure = Figure(figsize=(13.0, 3.6), layout="constrained")
    for axis, (label, records) in zip(figure.subplots(1, 4), runs.items(), strict=True):
        assert records[0].embedding is not None
        _, variance = draw_embedding(axis, finite, records[0].embedding, s=10)
        correlation = correlations[label].mean()
        hide_ticks(axis, f"{label}\n{variance:.0%} of the variance; rank correlation {correlation:.2f}")
    return FigureResult(figure, decide_claims(correlations))


def decide_claims(correlations: dict[str, PerSeed]) -> list[claims.Claim]:
    """Decides the claims by the rank correlation between distances of embeddings and steps on the map."""
    geometry = [
        claims.decide_by_mean(
            f"fig6-geometry-{noise}",
            f"with AR, {noise}: f learns the geometry of the rooms",
            f"{MEASURE} ≥ 0.9",
            {"seeds": correlations[f"{WITH_AR}, {noise}"]},
        )
        for noise in ("noiseless", "noisy")
    ]
    random = claims.decide_by_mean(
        "fig6-random-without-ar-under-noise",
        "without AR and under noise the embeddings follow the noise",
        f"{MEASURE} ≤ 0.1",
        {"seeds": correlations[f"{WITHOUT_AR}, noisy"]},
    )
    noiseless = {"with_ar": f"{WITH_AR}, noiseless", "without_ar": f"{WITHOUT_AR}, noiseless"}
    from_ar = claims.decide_by_difference(
        "fig6-ar-brings-geometry",
        "without noise, too, the geometry comes from AR",
        f"{MEASURE}, with AR - without ≥ 0.3",
        {name: correlations[label] for name, label in noiseless.items()},
    )
    return [*geometry, random, from_ar]


EXPERIMENT = Experiment(
    "Embeddings with and without adjacency regularisation",
    "With AR f learns the geometry of 2-Rooms whatever the noise; without it embeddings are random.",
    analyse,
    SWEEP,
)

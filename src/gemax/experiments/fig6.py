"""Figure 6: what f has learned in the four settings of figure 5.

Claim: with adjacency regularisation f learns the grid-like geometry of 2-Rooms, and noise does not disturb it. Without
it the embeddings are random, and follow the noise.

`sec:adjreg`.
"""

import numpy as np
from matplotlib.figure import Figure

from gemax.experiments import fig5
from gemax.experiments.claims import Claim, claim_at_least, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown
from gemax.experiments.measures import geometry_kept, rows_and_squares
from gemax.experiments.plots import bare, colours_of_squares, draw_plane, principal_plane
from gemax.experiments.records import Record
from gemax.experiments.statistics import difference_of_means, estimate_of, mean_of
from gemax.worlds.base import FiniteFacts
from gemax.worlds.registry import make_world


def show(runs: Runs) -> Shown:
    """The first two principal components of seed 0, and the geometry kept by every seed."""
    finite = make_world("two-rooms").finite
    assert finite is not None
    kept = {
        label: np.asarray([geometry_kept(record, finite) for record in records])
        for label, records in runs.items()
    }
    figure = Figure(figsize=(13.0, 3.6), layout="constrained")
    for axis, (label, records) in zip(figure.subplots(1, 4), runs.items(), strict=True):
        plane, colours, share = plane_of(records[0], finite)
        draw_plane(axis, plane, colours, s=10)
        bare(axis, f"{label}\n{share:.0%} of the variance; geometry kept {kept[label].mean():.2f}")
    return Shown({"fig6": figure}, claims_of(kept))


def plane_of(record: Record, finite: FiniteFacts) -> tuple[np.ndarray, np.ndarray, float]:
    """Points, colours by the place on the map, and the share of the variance; under noise, several points a square."""
    assert record.embedding is not None
    rows, squares = rows_and_squares(finite)
    embedding = record.embedding[:, rows].reshape(-1, record.embedding.shape[-1])
    plane, share = principal_plane(embedding)
    return plane, colours_of_squares(finite, np.tile(squares, len(record.embedding))), share


def claims_of(kept: dict[str, np.ndarray]) -> list[Claim]:
    """By the rank correlation between distances of embeddings and steps on the map."""
    measure = "rank correlation of embedding distance with steps on the map"
    claims = [
        claim_at_least(
            f"fig6-geometry-{noise}",
            f"with AR, {noise}: f learns the geometry of the rooms",
            measure,
            estimate_of(mean_of, kept[f"{fig5.WITH}, {noise}"]),
            0.9,
            seeds=kept[f"{fig5.WITH}, {noise}"].tolist(),
        )
        for noise in fig5.WORLDS
    ]
    claims.append(
        claim_at_most(
            "fig6-random-without-ar-under-noise",
            "without AR and under noise the embeddings follow the noise",
            measure,
            estimate_of(mean_of, kept[f"{fig5.WITHOUT}, noisy"]),
            0.1,
            seeds=kept[f"{fig5.WITHOUT}, noisy"].tolist(),
        )
    )
    one, other = kept[f"{fig5.WITH}, noiseless"], kept[f"{fig5.WITHOUT}, noiseless"]
    claims.append(
        claim_at_least(
            "fig6-ar-brings-geometry",
            "without noise, too, the geometry comes from AR",
            f"{measure}, with AR - without",
            estimate_of(difference_of_means, one, other),
            0.3,
            with_ar=one.tolist(),
            without_ar=other.tolist(),
        )
    )
    return claims


EXPERIMENT = Experiment(
    "fig6",
    "Embeddings with and without adjacency regularisation",
    "With AR f learns the geometry of 2-Rooms whatever the noise; without it embeddings are random.",
    fig5.sweep,
    show,
)

"""The geometry of an embedding for the page: principal components that keep their orientation, and p_k."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

KEPT_VARIANCE = 0.9999
"""Share of the variance in the components that similarities are computed from."""


class Components(NamedTuple):
    """Principal components of embedded observations."""

    two: Float[np.ndarray, "N 2"]
    three: Float[np.ndarray, "N 3"]
    all: Float[np.ndarray, "N K"]
    """As many components as carry nearly all of the variance. Distances are those of the embedding."""
    shares: list[float]
    """Share of the variance in two and in three components."""


def principal_components(
    embedding: Float[np.ndarray, "N D"], positions: Float[np.ndarray, "N M"] | None = None
) -> Components:
    """Returns the principal components of an embedding.

    Signs and order of components are arbitrary, so that points would jump from snapshot to snapshot. They are rotated
    and mirrored onto the positions of the points, if given, as well as possible.
    """
    points = embedding.astype(np.float64) - embedding.mean(axis=0)
    left, sizes, _ = np.linalg.svd(points, full_matrices=False)
    scores, variance = left * sizes, sizes**2
    shares = np.cumsum(variance) / max(variance.sum(), 1e-30)
    num_kept = max(int(np.searchsorted(shares, KEPT_VARIANCE)) + 1, 3)
    scores = np.pad(scores, ((0, 0), (0, max(3 - scores.shape[1], 0))))
    return Components(
        oriented(scores[:, :2], positions),
        oriented(scores[:, :3], positions),
        scores[:, :num_kept],
        [float(shares[min(count, len(shares)) - 1]) for count in (2, 3)],
    )


def oriented(
    points: Float[np.ndarray, "N K"], positions: Float[np.ndarray, "N M"] | None
) -> Float[np.ndarray, "N K"]:
    """Returns the points rotated or mirrored onto the positions: the solution of the orthogonal Procrustes problem."""
    if positions is None:
        return points
    target = np.zeros_like(points)
    size = min(points.shape[1], positions.shape[1])
    target[:, :size] = (positions - positions.mean(axis=0))[:, :size]
    left, _, right = np.linalg.svd(points.T @ target)
    return points @ (left @ right)


def expected_similarity(
    embedding: Float[np.ndarray, "N D"], probability: Float[np.ndarray, " N"], scale: float
) -> Float[np.ndarray, " N"]:
    """Returns p_k(x) = E[k(x, x')] with k = exp(-c ‖f(x) - f(x')‖), over x' with these probabilities."""
    points = embedding.astype(np.float64)
    squares = (points**2).sum(axis=1)
    squared = squares[:, None] + squares[None] - 2 * points @ points.T
    np.fill_diagonal(squared, 0.0)
    return np.exp(-scale * np.sqrt(np.maximum(squared, 0.0))) @ probability

"""The largest visitation entropy that a finite environment allows. Exploration is reported as a share of it.

The visitation distributions of all policies, time-dependent ones included, form a convex set, and Shannon entropy is
concave over it, so Frank–Wolfe finds the maximum. Each iteration uses the gradient of the entropy as a reward, finds
the best policy for it by dynamic programming, and mixes that policy's visits in by a line search. The duality gap
bounds the distance to the maximum. All computations are in float64 NumPy.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from gemax.core import finite_model
from gemax.core.checks import check_similarity
from gemax.core.finite_model import FiniteModel, Visits
from gemax.settings import check_positive

ArrayFunction: TypeAlias = Callable[[np.ndarray], np.ndarray]

STEP_SIZES = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 20)])
"""Coarse grid of the line search."""
FINE_STEP_SIZES = np.linspace(0.0, 1.0, 21)
"""Fractions of the interval around the best coarse step size, for the fine search."""


MIN_ITERATIONS, MAX_OPERATIONS = 10, 10**9
"""Bounds of the work of one ceiling: iterations, and iterations times `num_operations`."""


class Ceiling(NamedTuple):
    """The largest visitation entropy found, with an upper bound."""

    entropy: float
    """Entropy that some policy reaches, in nats."""
    gap: float
    """No policy has an entropy above `entropy + gap`."""
    visits: Visits
    """Visitation distribution of that policy."""


class LowerBound(NamedTuple):
    """The largest geometry-aware entropy found. It has no upper bound, because H_k need not be concave."""

    entropy: float
    visits: Visits


def entropy_ceiling(
    model: FiniteModel,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 2_000,
    callback: Callable[[], None] = lambda: None,
) -> Ceiling:
    """Returns the largest Shannon entropy of visits, up to the tolerance. Calls `callback` in every iteration.

    Large models have fewer iterations, so that the time is bounded. The gap is then larger than the tolerance.
    """
    finite_model.check_model(model)
    check_positive("tolerance", tolerance)
    max_iterations = min(max_iterations, max(MIN_ITERATIONS, MAX_OPERATIONS // num_operations(model)))
    visits = finite_model.policy_visits(model, finite_model.uniform_policy(model))
    reachable = finite_model.reachable_cells(model)

    def entropy(visits: np.ndarray) -> np.ndarray:
        return _entropy(visits, visits)

    def gradient(visits: np.ndarray) -> np.ndarray:
        return np.where(reachable, -np.log(np.maximum(visits, np.finfo(float).tiny)) - 1.0, 0.0)

    visits, gap = _frank_wolfe(model, entropy, gradient, visits, tolerance, max_iterations, callback)
    return Ceiling(float(entropy(visits)), gap, visits)


def num_operations(model: FiniteModel) -> int:
    """Returns the size of one dynamic programme: horizon × states × actions × outcomes."""
    return model.horizon * model.successor.size


def geometric_entropy_bound(
    model: FiniteModel,
    similarity: Float[np.ndarray, "cells cells"],
    *,
    num_starts: int = 8,
    seed: int = 0,
    tolerance: float = 1e-3,
    max_iterations: int = 500,
) -> LowerBound:
    """Returns the largest geometry-aware entropy H_k found by Frank–Wolfe from several random policies."""
    finite_model.check_model(model)
    check_similarity(similarity)
    check_positive("num_starts", num_starts)

    def entropy(visits: np.ndarray) -> np.ndarray:
        return _entropy(visits, visits @ similarity)

    def gradient(visits: np.ndarray) -> np.ndarray:
        profile = np.maximum(similarity @ visits, np.finfo(float).tiny)
        return -np.log(profile) - similarity @ (visits / profile)

    rng, uniform = np.random.default_rng(seed), finite_model.uniform_policy(model)
    policies = [finite_model.random_policy(model, rng) for _ in range(num_starts - 1)]
    starts = [finite_model.policy_visits(model, policy) for policy in (uniform, *policies)]
    optima = [_frank_wolfe(model, entropy, gradient, start, tolerance, max_iterations)[0] for start in starts]
    best = max(optima, key=lambda visits: float(entropy(visits)))
    return LowerBound(float(entropy(best)), best)


def _entropy(visits: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """Returns `-E[ln p_k(x)]` of one distribution, or of each row of several."""
    return np.asarray(-np.sum(visits * np.log(np.maximum(profile, np.finfo(float).tiny)), axis=-1))


def _frank_wolfe(
    model: FiniteModel,
    objective: ArrayFunction,
    gradient: ArrayFunction,
    visits: Visits,
    tolerance: float,
    max_iterations: int,
    callback: Callable[[], None] = lambda: None,
) -> tuple[Visits, float]:
    """Maximises the objective from `visits` until the gap is below the tolerance. Returns the visits and the gap.

    The visits are a mixture of the visits of all policies found so far. After each dynamic programme, `_reweight`
    optimises the weights of the mixture. This reduces the number of programmes from thousands to dozens.
    """
    components, weights, gap = visits[None], np.ones(1), np.inf
    for _ in range(max_iterations):
        callback()
        reward = gradient(visits)
        target = finite_model.best_visits(model, reward)
        gap = float(reward @ (target - visits))
        if gap <= tolerance:
            break
        components, weights = np.concatenate([components, target[None]]), np.append(weights, 0.0)
        weights = _reweight(objective, gradient, components, weights, gap / 2)
        components, weights = components[weights > 0], weights[weights > 0]
        visits = weights @ components
    return visits, gap


def _reweight(
    objective: ArrayFunction,
    gradient: ArrayFunction,
    components: Float[np.ndarray, "components cells"],
    weights: Float[np.ndarray, " components"],
    tolerance: float,
    max_steps: int = 100,
) -> Float[np.ndarray, " components"]:
    """Returns new weights: shifts weight from the worst to the best component until their rewards are almost equal."""
    weights = weights.copy()
    for _ in range(max_steps):
        visits = weights @ components
        rewards = components @ gradient(visits)
        best, worst = int(np.argmax(rewards)), int(np.argmin(np.where(weights > 0, rewards, np.inf)))
        if rewards[best] - rewards[worst] <= tolerance:
            break
        step = weights[worst] * (components[best] - components[worst])
        moved = weights[worst] * _line_search(objective, visits, step)
        weights[best] += moved
        weights[worst] -= moved
    return weights / weights.sum()


def _line_search(objective: ArrayFunction, start: np.ndarray, step: np.ndarray) -> float:
    """Returns the best step size of the coarse grid, refined by a finer grid around it."""
    best = int(np.argmax(objective(np.maximum(start + STEP_SIZES[:, None] * step, 0.0))))
    low, high = STEP_SIZES[max(best - 1, 0)], STEP_SIZES[min(best + 1, len(STEP_SIZES) - 1)]
    finer = low + (high - low) * FINE_STEP_SIZES
    return float(finer[np.argmax(objective(np.maximum(start + finer[:, None] * step, 0.0)))])

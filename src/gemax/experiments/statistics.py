"""Summaries over seeds."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

STUDENT_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom."""


def mean_and_interval(
    values: Float[np.ndarray, "seeds *points"],
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """The mean over seeds and the half-width of its 95 % confidence interval; NaN where one seed says nothing."""
    num_seeds = values.shape[0]
    mean = values.mean(axis=0)
    if num_seeds < 2:
        return mean, np.full_like(mean, math.nan)
    quantile = STUDENT_T_95.get(num_seeds - 1, 1.96)
    return mean, quantile * values.std(axis=0, ddof=1) / math.sqrt(num_seeds)


NUM_BUCKETS = 20
"""Of a learning curve, as in the paper."""
NUM_RESAMPLES = 4000


def bucketed(
    position: Float[np.ndarray, " lines"], values: Float[np.ndarray, " lines"], last: float
) -> tuple[Float[np.ndarray, " buckets"], Float[np.ndarray, " buckets"]]:
    """The mean of a curve in each of 20 equal parts of the axis from 0 to `last`; NaN where it says nothing."""
    edges = np.linspace(0.0, last, NUM_BUCKETS + 1)
    bucket = np.clip(np.searchsorted(edges, position, side="left") - 1, 0, NUM_BUCKETS - 1)
    known = np.isfinite(values)
    sums = np.bincount(bucket[known], values[known], NUM_BUCKETS)
    counts = np.bincount(bucket[known], minlength=NUM_BUCKETS)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return edges[1:], means


def area_under_curve(update: Float[np.ndarray, " lines"], values: Float[np.ndarray, " lines"]) -> float:
    """The mean of a curve over all updates from the first; what is not known yet counts as 0."""
    return float(np.sum(np.nan_to_num(values) * np.diff(update, prepend=0.0)) / update[-1])


def interquartile_mean(values: Float[np.ndarray, "... seeds"]) -> Float[np.ndarray, "..."]:
    """The mean of the middle half; seeds at its ends count by the share of them that is inside."""
    num_seeds = values.shape[-1]
    inside = np.clip(np.arange(1, num_seeds + 1) - num_seeds / 4, 0, 1)
    weights = np.minimum(inside, inside[::-1])
    return np.asarray(np.sort(values, axis=-1) @ weights / weights.sum())


def stratified_interquartile_mean(
    groups: Sequence[Float[np.ndarray, " seeds"]],
) -> tuple[float, float, float]:
    """Interquartile mean over all runs of several tasks, with a 95 % interval: seeds are resampled task by task."""
    rng = np.random.default_rng(0)
    resampled = np.concatenate([_resampled(rng, group) for group in groups], axis=-1)
    low, high = np.quantile(interquartile_mean(resampled), [0.025, 0.975])
    return float(interquartile_mean(np.concatenate(list(groups)))), float(low), float(high)


Estimate = tuple[float, float, float]
"""A value, and the ends of its 95 % interval."""


def estimate_of(
    statistic: Callable[..., Float[np.ndarray, "..."]], *groups: Float[np.ndarray, " seeds"]
) -> Estimate:
    """A statistic of one or several groups of seeds, with its bootstrap interval: each group is resampled by itself.

    The statistic takes arrays [..., seeds] and reduces their last axis.
    """
    rng = np.random.default_rng(0)
    value = float(statistic(*groups))
    low, high = np.quantile(statistic(*(_resampled(rng, group) for group in groups)), [0.025, 0.975])
    return value, float(low), float(high)


def mean_of(values: Float[np.ndarray, "... seeds"]) -> Float[np.ndarray, "..."]:
    """For `estimate_of`."""
    return np.asarray(values.mean(axis=-1))


def ratio_of_means(
    one: Float[np.ndarray, "... seeds"], other: Float[np.ndarray, "... seeds"]
) -> Float[np.ndarray, "..."]:
    """For `estimate_of`."""
    return np.asarray(one.mean(axis=-1) / other.mean(axis=-1))


def difference_of_means(
    one: Float[np.ndarray, "... seeds"], other: Float[np.ndarray, "... seeds"]
) -> Float[np.ndarray, "..."]:
    """For `estimate_of`."""
    return np.asarray(one.mean(axis=-1) - other.mean(axis=-1))


def rank_correlation(one: Float[np.ndarray, " N"], other: Float[np.ndarray, " N"]) -> float:
    """Spearman's: how far two orders agree, from -1 to 1."""
    ranks = np.stack([_ranks(one), _ranks(other)])
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """What is equal shares its mean rank."""
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts - 1) / 2.0)[number.reshape(-1)]


def _resampled(
    rng: np.random.Generator, group: Float[np.ndarray, " seeds"]
) -> Float[np.ndarray, "resamples seeds"]:
    return group[rng.integers(len(group), size=(NUM_RESAMPLES, len(group)))]

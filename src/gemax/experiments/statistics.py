"""Statistics over seeds: means with confidence intervals, bootstrap estimates and correlations."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

PerSeed: TypeAlias = Float[np.ndarray, " seeds"]
"""One number per seed."""
Resamples: TypeAlias = Float[np.ndarray, "... seeds"]
"""One number per seed, for any number of bootstrap resamples."""
PerResample: TypeAlias = Float[np.ndarray, "..."]
"""One number per bootstrap resample."""
Statistic: TypeAlias = Callable[..., PerResample]
"""Takes one `Resamples` per group of seeds and reduces the last axis."""
Estimate: TypeAlias = tuple[float, float, float]
"""A value, and the ends of its 95 % confidence interval."""

STUDENT_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom."""
NUM_BUCKETS = 20
"""Buckets of a learning curve, as in the paper."""
NUM_RESAMPLES = 4000
"""Bootstrap resamples."""


def mean_and_interval(
    values: Float[np.ndarray, "seeds *points"],
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """Returns the mean over seeds and the half-width of its 95 % confidence interval, which is NaN for one seed."""
    num_seeds = values.shape[0]
    mean = values.mean(axis=0)
    if num_seeds < 2:
        return mean, np.full_like(mean, math.nan)
    quantile = STUDENT_T_95.get(num_seeds - 1, 1.96)
    return mean, quantile * values.std(axis=0, ddof=1) / math.sqrt(num_seeds)


def bucket_means(
    update: Float[np.ndarray, " points"], values: Float[np.ndarray, " points"], last_update: float
) -> tuple[Float[np.ndarray, " buckets"], Float[np.ndarray, " buckets"]]:
    """Divides the updates from 0 to `last_update` into 20 equal buckets. Returns their ends and the mean in each.

    PerResample that are not finite are ignored. The mean of a bucket without values is NaN.
    """
    edges = np.linspace(0.0, last_update, NUM_BUCKETS + 1)
    bucket = np.clip(np.searchsorted(edges, update, side="left") - 1, 0, NUM_BUCKETS - 1)
    known = np.isfinite(values)
    sums = np.bincount(bucket[known], values[known], NUM_BUCKETS)
    counts = np.bincount(bucket[known], minlength=NUM_BUCKETS)
    return edges[1:], np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def area_under_curve(update: Float[np.ndarray, " points"], values: Float[np.ndarray, " points"]) -> float:
    """Returns the mean of a curve over all updates. NaN counts as 0."""
    return float(np.sum(np.nan_to_num(values) * np.diff(update, prepend=0.0)) / update[-1])


def interquartile_mean(values: Resamples) -> PerResample:
    """Returns the mean of the middle half of the values. PerResample on its boundary have fractional weights."""
    num_seeds = values.shape[-1]
    inside = np.clip(np.arange(1, num_seeds + 1) - num_seeds / 4, 0, 1)
    weights = np.minimum(inside, inside[::-1])
    return np.asarray(np.sort(values, axis=-1) @ weights / weights.sum())


def stratified_interquartile_mean(groups: Sequence[PerSeed]) -> Estimate:
    """Returns the interquartile mean over the runs of several tasks. Seeds are resampled within their task."""
    return bootstrap(lambda *values: interquartile_mean(np.concatenate(values, axis=-1)), *groups)


def bootstrap(statistic: Statistic, *groups: PerSeed) -> Estimate:
    """Estimates a statistic of one or more groups of seeds. Each group is resampled independently."""
    rng = np.random.default_rng(0)
    low, high = np.quantile(statistic(*(_resample(rng, group) for group in groups)), [0.025, 0.975])
    return float(statistic(*groups)), float(low), float(high)


def mean(values: Resamples) -> PerResample:
    """Returns the mean over seeds."""
    return np.asarray(values.mean(axis=-1))


def ratio_of_means(numerator: Resamples, denominator: Resamples) -> PerResample:
    """Returns the mean of the first group divided by the mean of the second."""
    return np.asarray(mean(numerator) / mean(denominator))


def difference_of_means(first: Resamples, second: Resamples) -> PerResample:
    """Returns the mean of the first group minus the mean of the second."""
    return np.asarray(mean(first) - mean(second))


def ratio_of_stds(numerator: Resamples, denominator: Resamples) -> PerResample:
    """Returns the standard deviation of the first group divided by the standard deviation of the second."""
    return np.asarray(numerator.std(axis=-1) / np.maximum(denominator.std(axis=-1), 1e-9))


def rank_correlation(first: Float[np.ndarray, " N"], second: Float[np.ndarray, " N"]) -> float:
    """Returns Spearman's rank correlation."""
    return float(np.corrcoef(np.stack([_ranks(first), _ranks(second)]))[0, 1])


def _ranks(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Returns the rank of each value. Equal values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts - 1) / 2.0)[index.reshape(-1)]


def _resample(rng: np.random.Generator, group: PerSeed) -> Float[np.ndarray, "resamples seeds"]:
    return group[rng.integers(len(group), size=(NUM_RESAMPLES, len(group)))]

"""Statistics over seeds: estimates with confidence intervals, learning curves and correlations."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, stdtrit

PerSeed: TypeAlias = Float[np.ndarray, " seeds"]
"""One number per seed."""
Group: TypeAlias = Float[np.ndarray, " _"]
"""One number per seed, for one of several groups with their own number of seeds."""
Resamples: TypeAlias = Float[np.ndarray, "... seeds"]
"""One number per seed, for any number of bootstrap resamples."""
PerResample: TypeAlias = Float[np.ndarray, "..."]
"""One number per bootstrap resample."""
Statistic: TypeAlias = Callable[..., PerResample]
"""Takes one `Resamples` per group of seeds and reduces the last axis."""
Estimate: TypeAlias = tuple[float, float, float]
"""A value, and the ends of its 95 % confidence interval."""

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
    return mean, _student_t(num_seeds - 1) * values.std(axis=0, ddof=1) / math.sqrt(num_seeds)


def bucket_means(
    update: Float[np.ndarray, " points"], values: Float[np.ndarray, " points"], last_update: float
) -> tuple[Float[np.ndarray, " buckets"], Float[np.ndarray, " buckets"]]:
    """Divides the updates from 0 to `last_update` into 20 equal buckets. Returns their ends and the mean in each.

    Values that are not finite are ignored. The mean of a bucket without values is NaN.
    """
    edges = np.linspace(0.0, last_update, NUM_BUCKETS + 1)
    bucket = np.clip(np.searchsorted(edges, update, side="left") - 1, 0, NUM_BUCKETS - 1)
    known = np.isfinite(values)
    sums = np.bincount(bucket[known], values[known], NUM_BUCKETS)
    counts = np.bincount(bucket[known], minlength=NUM_BUCKETS)
    return edges[1:], np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def area_under_curve(update: Float[np.ndarray, " points"], values: Float[np.ndarray, " points"]) -> float:
    """Returns the mean of a curve over all updates.

    NaN counts as 0, or as the smallest value if that is negative: no return yet must not look better than any return.
    """
    smallest = np.min(values, initial=0.0, where=np.isfinite(values))
    known = np.where(np.isnan(values), smallest, values)
    return float(np.sum(known * np.diff(update, prepend=0.0)) / update[-1])


def estimate_mean(values: PerSeed) -> Estimate:
    """Estimates a mean by Student's t."""
    middle, half_width = (float(part[0]) for part in mean_and_interval(values[:, None]))
    return middle, middle - half_width, middle + half_width


def estimate_difference(
    first: Float[np.ndarray, " seeds"], second: Float[np.ndarray, " other_seeds"]
) -> Estimate:
    """Estimates the mean of the first group minus that of the second by Welch's t, which allows unequal variances.

    The interval is NaN if a group has one seed.
    """
    difference = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
        return difference, math.nan, math.nan
    variances = [float(group.var(ddof=1)) / len(group) for group in (first, second)]
    total = sum(variances)
    if total == 0.0:
        return difference, difference, difference
    shares = [variance / total for variance in variances]
    # Welch and Satterthwaite. Shares of the variance instead of variances, which can underflow when they are squared.
    freedom = 1.0 / sum(
        share**2 / (len(group) - 1) for share, group in zip(shares, (first, second), strict=True)
    )
    half_width = _student_t(freedom) * math.sqrt(total)
    return difference, difference - half_width, difference + half_width


def estimate_ratio(
    numerator: Float[np.ndarray, " seeds"], denominator: Float[np.ndarray, " other_seeds"]
) -> Estimate:
    """Estimates the ratio of two geometric means by Welch's t on logarithms.

    NaN unless all numbers are positive, and if a group is empty.
    """
    if min(numerator.min(initial=np.inf), denominator.min(initial=np.inf)) <= 0.0 or not (
        len(numerator) and len(denominator)
    ):
        return math.nan, math.nan, math.nan
    value, low, high = np.exp(estimate_difference(np.log(numerator), np.log(denominator))).tolist()
    return value, low, high


def estimate_share(successes: int, num_seeds: int) -> Estimate:
    """Estimates the share of seeds that succeed, with the exact binomial interval of Clopper and Pearson.

    NaN without seeds.
    """
    if num_seeds == 0:
        return math.nan, math.nan, math.nan
    failures = num_seeds - successes
    low = betaincinv(successes, failures + 1, 0.025) if successes else 0.0
    high = betaincinv(successes + 1, failures, 0.975) if failures else 1.0
    return successes / num_seeds, float(low), float(high)


def estimate_ratio_of_stds(numerator: Group, denominator: Group) -> Estimate:
    """Estimates the ratio of two standard deviations over seeds by Welch's t on jackknife pseudo-values of ln σ.

    Miller (1968). Unlike the F interval it does not assume normal values, and unlike a percentile bootstrap it is not
    too narrow for few seeds. NaN if a group has less than three seeds, or if leaving one out leaves equal values.
    """
    groups = [_pseudo_log_stds(group) for group in (numerator, denominator)]
    if any(group is None for group in groups):
        return math.nan, math.nan, math.nan
    value, low, high = np.exp(estimate_difference(*groups)).tolist()  # pyright: ignore[reportArgumentType]
    return value, low, high


def interquartile_mean(values: Resamples) -> PerResample:
    """Returns the mean of the middle half of the values. Values on its boundary have fractional weights."""
    num_seeds = values.shape[-1]
    inside = np.clip(np.arange(1, num_seeds + 1) - num_seeds / 4, 0, 1)
    weights = np.minimum(inside, inside[::-1])
    return np.asarray(np.sort(values, axis=-1) @ weights / weights.sum())


def stratified_interquartile_mean(groups: Sequence[Group]) -> Estimate:
    """Returns the mean over tasks of the interquartile mean of each. Seeds are resampled within their task.

    Every task has the same weight, whatever its number of seeds.
    """
    return bootstrap(
        lambda *values: np.mean([interquartile_mean(group) for group in values], axis=0), *groups
    )


def bootstrap(statistic: Statistic, *groups: Group) -> Estimate:
    """Estimates a statistic of one or more groups of seeds. Each group is resampled independently."""
    rng = np.random.default_rng(0)
    low, high = np.quantile(statistic(*(_resample(rng, group) for group in groups)), [0.025, 0.975])
    return float(statistic(*groups)), float(low), float(high)


def rank_correlation(first: Float[np.ndarray, " N"], second: Float[np.ndarray, " N"]) -> float:
    """Returns Spearman's rank correlation."""
    return float(np.corrcoef(np.stack([_ranks(first), _ranks(second)]))[0, 1])


def _pseudo_log_stds(values: PerSeed) -> PerSeed | None:
    """Returns the jackknife pseudo-values of ln σ, whose mean is ln σ without bias. None if a σ is zero or unknown."""
    num_seeds = len(values)
    if num_seeds < 3:
        return None
    stds = [values.std(ddof=1), *(np.delete(values, index).std(ddof=1) for index in range(num_seeds))]
    if min(stds) <= 0.0:
        return None
    logs = np.log(stds)
    return num_seeds * logs[0] - (num_seeds - 1) * logs[1:]


def _student_t(freedom: float) -> float:
    """Returns the two-sided 95 % quantile of Student's t."""
    return float(stdtrit(freedom, 0.975))


def _ranks(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Returns the rank of each value. Equal values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts - 1) / 2.0)[index.reshape(-1)]


def _resample(rng: np.random.Generator, group: PerSeed) -> Float[np.ndarray, "resamples seeds"]:
    return group[rng.integers(len(group), size=(NUM_RESAMPLES, len(group)))]

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gemax.experiments.statistics import (
    NUM_BUCKETS,
    area_under_curve,
    bootstrap,
    bucket_means,
    difference_of_means,
    interquartile_mean,
    mean,
    mean_and_interval,
    rank_correlation,
    ratio_of_means,
    stratified_interquartile_mean,
)


def test_interval_is_that_of_students_t():
    values = np.random.default_rng(0).normal(size=(5, 3))
    mean, half_width = mean_and_interval(values)
    low, high = stats.t.interval(0.95, 4, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    np.testing.assert_allclose(mean - half_width, low, rtol=1e-3)
    np.testing.assert_allclose(mean + half_width, high, rtol=1e-3)


def test_one_seed_has_no_interval():
    mean, half_width = mean_and_interval(np.ones((1, 2)))
    np.testing.assert_array_equal(mean, 1.0)
    assert np.isnan(half_width).all()


def test_buckets_are_means_of_equal_parts_of_the_run():
    update = np.arange(10.0, 401.0, 10.0)
    ends, means = bucket_means(update, update, 400.0)
    np.testing.assert_allclose(ends, np.arange(20.0, 401.0, 20.0))
    np.testing.assert_allclose(means, np.arange(15.0, 400.0, 20.0))


def test_buckets_without_values_are_nan():
    _, means = bucket_means(np.asarray([100.0, 200.0]), np.asarray([np.nan, 3.0]), 200.0)
    assert np.isnan(means[:-1]).all()
    assert means[-1] == 3.0
    assert len(means) == NUM_BUCKETS


def test_area_is_the_mean_over_updates_with_nan_as_zero():
    assert area_under_curve(np.asarray([1.0, 2.0, 4.0]), np.asarray([np.nan, 1.0, 0.5])) == 0.5


@given(st.integers(0, 100), st.sampled_from([4, 8, 40]))
def test_interquartile_mean_equals_the_trimmed_mean_if_quarters_are_whole(seed, num_seeds):
    values = np.random.default_rng(seed).normal(size=num_seeds)
    np.testing.assert_allclose(interquartile_mean(values), stats.trim_mean(values, 0.25))


def test_interquartile_mean_of_five_seeds_has_fractional_weights():
    values = np.asarray([0.0, 100.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(interquartile_mean(values), (0.75 * 1 + 2 + 0.75 * 3) / 2.5)


def test_an_outlier_does_not_move_the_interquartile_mean():
    assert interquartile_mean(np.asarray([1.0, 1.0, 1.0, 1.0, 1e9])) == 1.0


def test_stratified_interval_contains_the_estimate():
    rng = np.random.default_rng(0)
    value, low, high = stratified_interquartile_mean([rng.normal(size=5), 1 + rng.normal(size=5)])
    assert low < value < high


@pytest.mark.parametrize(
    ("statistic", "groups", "expected"),
    [
        (mean, [[1.0, 3.0]], 2.0),
        (ratio_of_means, [[2.0, 4.0], [1.0, 2.0]], 2.0),
        (difference_of_means, [[2.0, 4.0], [1.0, 2.0]], 1.5),
    ],
)
def test_estimates_are_the_statistic_with_an_interval_around_it(statistic, groups, expected):
    value, low, high = bootstrap(statistic, *(np.asarray(group) for group in groups))
    assert value == expected
    assert low <= value <= high
    assert low < high


def test_bootstrap_interval_is_close_to_the_normal_interval_for_many_seeds():
    values = np.random.default_rng(1).normal(size=400)
    _, low, high = bootstrap(mean, values)
    np.testing.assert_allclose((high - low) / 2, 1.96 * values.std() / 20, rtol=0.1)


def test_equal_seeds_have_an_interval_of_zero_width():
    assert bootstrap(mean, np.ones(5)) == (1.0, 1.0, 1.0)


@given(st.integers(0, 50))
def test_rank_correlation_equals_spearmans_with_ties(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 30).astype(float), rng.normal(size=30)
    np.testing.assert_allclose(rank_correlation(one, other), stats.spearmanr(one, other).statistic)

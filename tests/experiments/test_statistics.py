import math

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
    estimate_difference,
    estimate_mean,
    estimate_ratio,
    estimate_ratio_of_stds,
    estimate_share,
    interquartile_mean,
    mean_and_interval,
    rank_correlation,
    stratified_interquartile_mean,
)


def test_interval_is_that_of_students_t():
    values = np.random.default_rng(0).normal(size=(5, 3))
    mean, half_width = mean_and_interval(values)
    low, high = stats.t.interval(0.95, 4, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    np.testing.assert_allclose(mean - half_width, low, rtol=1e-3)
    np.testing.assert_allclose(mean + half_width, high, rtol=1e-3)


@pytest.mark.fault(41)
def test_one_seed_has_no_interval():
    mean, half_width = mean_and_interval(np.ones((1, 2)))
    np.testing.assert_array_equal(mean, 1.0)
    assert np.isnan(half_width).all()


def test_buckets_are_means_of_equal_parts_of_the_run():
    update = np.arange(10.0, 401.0, 10.0)
    ends, means = bucket_means(update, update, 400.0)
    np.testing.assert_allclose(ends, np.arange(20.0, 401.0, 20.0))
    np.testing.assert_allclose(means, np.arange(15.0, 400.0, 20.0))


@pytest.mark.fault(41)
def test_buckets_without_values_are_nan():
    _, means = bucket_means(np.asarray([100.0, 200.0]), np.asarray([np.nan, 3.0]), 200.0)
    assert np.isnan(means[:-1]).all()
    assert means[-1] == 3.0
    assert len(means) == NUM_BUCKETS


def test_area_is_the_mean_over_updates_with_nan_as_zero():
    assert area_under_curve(np.asarray([1.0, 2.0, 4.0]), np.asarray([np.nan, 1.0, 0.5])) == 0.5
    assert area_under_curve(np.asarray([1.0, 2.0]), np.full(2, np.nan)) == 0.0


def test_an_unknown_return_counts_as_the_smallest_if_returns_are_negative():
    assert area_under_curve(np.asarray([1.0, 2.0, 4.0]), np.asarray([np.nan, -8.0, -4.0])) == -6.0


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


def test_tasks_have_the_same_weight_whatever_their_number_of_seeds():
    value, _, _ = stratified_interquartile_mean([np.zeros(10), np.ones(5)])
    assert value == 0.5


def test_mean_has_the_interval_of_students_t():
    values = np.asarray([1.0, 4.0, 2.0, 7.0])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval()
    np.testing.assert_allclose(estimate_mean(values), (3.5, expected.low, expected.high))


@given(st.integers(0, 50), st.sampled_from([2, 5, 12]))
def test_difference_has_the_interval_of_welchs_t(seed, num_seeds):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(1.0, 3.0, num_seeds), rng.normal(size=5)
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    value, low, high = estimate_difference(first, second)
    np.testing.assert_allclose(value, np.mean(first) - np.mean(second))
    np.testing.assert_allclose((low, high), (expected.low, expected.high), rtol=1e-6)


def test_ratio_is_that_of_geometric_means_with_welchs_t_on_logarithms():
    first, second = np.asarray([2.0, 8.0, 4.0]), np.asarray([1.0, 2.0, 4.0, 0.5])
    expected = stats.ttest_ind(np.log(first), np.log(second), equal_var=False).confidence_interval()
    value, low, high = estimate_ratio(first, second)
    np.testing.assert_allclose(value, 64 ** (1 / 3) / 4 ** (1 / 4))
    np.testing.assert_allclose((low, high), (np.exp(expected.low), np.exp(expected.high)))


def test_interval_of_a_ratio_contains_the_truth_in_95_of_100_experiments_with_five_seeds():
    rng = np.random.default_rng(0)
    groups = np.exp(rng.normal(scale=0.3, size=(2000, 2, 5)))
    intervals = np.asarray([estimate_ratio(2.0 * first, second)[1:] for first, second in groups])
    covered = (intervals[:, 0] <= 2.0) & (intervals[:, 1] >= 2.0)
    assert 0.94 <= covered.mean() <= 0.965


def test_inverse_ratio_has_the_inverse_interval():
    first, second = np.asarray([2.0, 8.0, 4.0]), np.asarray([1.0, 2.0, 4.0, 0.5])
    value, low, high = estimate_ratio(first, second)
    np.testing.assert_allclose(estimate_ratio(second, first), (1 / value, 1 / high, 1 / low))


@pytest.mark.parametrize("estimate", [estimate_difference, estimate_ratio])
def test_equal_seeds_have_an_interval_of_zero_width(estimate):
    value, low, high = estimate(np.full(5, 4.0), np.full(5, 2.0))
    assert value == low == high == pytest.approx(2.0)
    assert estimate_mean(np.ones(5)) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("estimate", [estimate_difference, estimate_ratio])
@pytest.mark.fault(41, 54)
def test_one_seed_has_a_value_without_an_interval(estimate):
    value, low, high = estimate(np.full(1, 4.0), np.full(5, 2.0))
    assert value == pytest.approx(2.0)
    assert np.isnan([low, high]).all()


def test_ratio_of_numbers_that_are_not_positive_is_nan():
    assert np.isnan(estimate_ratio(np.asarray([0.0, 1.0]), np.ones(2))).all()


@pytest.mark.parametrize(("successes", "num_seeds"), [(0, 5), (1, 5), (5, 5), (15, 20), (19, 20), (20, 20)])
def test_ends_of_the_interval_of_a_share_have_binomial_tails_of_a_fortieth(successes, num_seeds):
    value, low, high = estimate_share(successes, num_seeds)

    def probability(counts, share):
        return sum(math.comb(num_seeds, n) * share**n * (1 - share) ** (num_seeds - n) for n in counts)

    assert value == successes / num_seeds
    if successes > 0:
        assert probability(range(successes, num_seeds + 1), low) == pytest.approx(0.025)
    else:
        assert low == 0.0
    if successes < num_seeds:
        assert probability(range(successes + 1), high) == pytest.approx(0.025)
    else:
        assert high == 1.0


def test_bootstrap_interval_is_close_to_the_normal_interval_for_many_seeds():
    values = np.random.default_rng(1).normal(size=400)
    _, low, high = bootstrap(lambda resamples: resamples.mean(axis=-1), values)
    np.testing.assert_allclose((high - low) / 2, 1.96 * values.std() / 20, rtol=0.1)


def test_ratio_of_standard_deviations_has_an_interval_around_it():
    value, low, high = estimate_ratio_of_stds(np.asarray([1.0, 3.0, 5.0]), np.asarray([1.0, 2.0, 3.0]))
    assert value == pytest.approx(2.0)
    assert low < value < high


def test_interval_of_a_ratio_of_standard_deviations_contains_the_truth_in_most_experiments_with_five_seeds():
    """A percentile bootstrap contains it in fewer than 75 of 100."""
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(1000, 2, 5))
    intervals = np.asarray([estimate_ratio_of_stds(3.0 * first, second)[1:] for first, second in groups])
    covered = (intervals[:, 0] <= 3.0) & (intervals[:, 1] >= 3.0)
    assert 0.9 <= covered.mean() <= 0.99


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1.0, 1.0, 2.0]])
def test_ratio_of_standard_deviations_is_unknown_if_a_seed_less_leaves_none(values):
    assert np.isnan(estimate_ratio_of_stds(np.asarray(values), np.asarray([1.0, 2.0, 4.0]))).all()


@given(st.integers(0, 50))
def test_rank_correlation_equals_spearmans_with_ties(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 30).astype(float), rng.normal(size=30)
    np.testing.assert_allclose(rank_correlation(one, other), stats.spearmanr(one, other).statistic)

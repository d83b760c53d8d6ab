import numpy as np

from gemax.experiments.statistics import mean_and_interval


def test_interval_is_that_of_student_for_few_seeds():
    from scipy import stats

    values = np.random.default_rng(0).normal(size=(5, 3))
    mean, half_width = mean_and_interval(values)
    low, high = stats.t.interval(0.95, 4, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    np.testing.assert_allclose(mean - half_width, low, rtol=1e-3)
    np.testing.assert_allclose(mean + half_width, high, rtol=1e-3)


def test_one_seed_has_no_interval():
    mean, half_width = mean_and_interval(np.ones((1, 2)))
    np.testing.assert_array_equal(mean, 1.0)
    assert np.isnan(half_width).all()

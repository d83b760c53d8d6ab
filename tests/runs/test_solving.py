import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.runs.solving import find_crossings, reaches


def test_a_float32_mean_of_95_hundredths_reaches_95_hundredths():
    mean = np.asarray([1.0] * 950 + [0.0] * 50, np.float32).mean()
    assert float(mean) == pytest.approx(0.949999988, abs=1e-9)
    assert float(mean) < 0.95
    assert reaches(float(mean), 0.95)
    assert not reaches(0.9499, 0.95)


@pytest.mark.parametrize("threshold", [0.5, 0.95, -200.0, 400.0, 0.0])
def test_tolerance_is_a_few_units_in_the_last_place_of_float32(threshold):
    below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
    assert reaches(float(below), threshold)
    assert not reaches(threshold - 1e-5 * max(1.0, abs(threshold)), threshold)


def test_nan_reaches_nothing_and_nothing_finite_reaches_infinity():
    assert not reaches(np.nan, 0.95)
    np.testing.assert_array_equal(reaches(np.asarray([np.nan, 1e9, 0.0]), np.inf), False)


@pytest.mark.parametrize(
    ("is_reached", "expected"),
    [
        ([0, 1, 1], (1, 1)),
        ([1, 1, 1], (0, 0)),
        ([0, 1, 0, 1, 1], (1, 3)),
        ([0, 1, 1, 0], (1, None)),
        ([0, 0], (None, None)),
        ([], (None, None)),
    ],
)
def test_a_crossing_is_held_if_no_later_point_is_below(is_reached, expected):
    assert find_crossings(np.asarray(is_reached, bool)) == expected


@given(st.lists(st.booleans(), max_size=12))
def test_crossings_satisfy_their_definitions(is_reached):
    first, held = find_crossings(np.asarray(is_reached, bool))
    points = range(len(is_reached))
    assert first == next((point for point in points if is_reached[point]), None)
    assert held == next((point for point in points if all(is_reached[point:])), None)

import numpy as np

from gemax.core.ceiling import entropy_ceiling, reachable_squares
from tests.core.test_ceiling import corridor


def test_squares_that_a_random_policy_practically_never_sees_count_as_reachable():
    """A corridor so long that a random walk's chance to reach its end is zero in float64."""
    model = corridor(700, horizon=699)
    assert reachable_squares(model).all()
    assert not reachable_squares(corridor(5, horizon=2))[3:].any()


def test_ceiling_of_a_long_corridor_is_finite_and_certified():
    ceiling = entropy_ceiling(corridor(60, horizon=80), tolerance=1e-2)
    assert np.isfinite(ceiling.entropy)
    assert 0 <= ceiling.gap <= 1e-2
    assert ceiling.entropy <= np.log(60)

import jax.numpy as jnp
import numpy as np
import pytest

from gemax.core.entropy import shannon_entropy, visitation_entropy


@pytest.mark.parametrize("visits", [np.asarray([3, 0, 1, 4]), np.asarray([0.6, 0.0, 0.2, 0.8])])
def test_visitation_entropy_equals_the_shannon_entropy_of_the_frequencies(visits):
    expected = shannon_entropy(jnp.asarray(visits / visits.sum()))
    assert visitation_entropy(visits) == pytest.approx(float(expected), rel=1e-6)


def test_visitation_entropy_of_uniform_visits_is_the_logarithm_of_their_number():
    assert visitation_entropy(np.full(7, 5)) == pytest.approx(np.log(7))

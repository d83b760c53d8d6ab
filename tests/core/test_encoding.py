import jax.numpy as jnp
import numpy as np

from gemax.core.encoding import soft_one_hot


def test_soft_one_hot_is_one_at_its_bucket_centre_and_decays_by_e_per_bucket():
    encoded = soft_one_hot(jnp.asarray([2.5, 0.0]), 5, 0.0, 5.0)
    np.testing.assert_allclose(encoded[0], np.exp([-2.0, -1.0, 0.0, -1.0, -2.0]), rtol=1e-6)
    np.testing.assert_allclose(encoded[1], np.exp([-0.5, -1.5, -2.5, -3.5, -4.5]), rtol=1e-6)


def test_soft_one_hot_does_not_depend_on_the_unit_of_its_values():
    values = jnp.asarray([[1.0], [7.0]])
    np.testing.assert_allclose(
        soft_one_hot(values, 4, 0.0, 8.0), soft_one_hot(10 * values - 5, 4, -5.0, 75.0), rtol=1e-5
    )
    assert soft_one_hot(values, 4, 0.0, 8.0).shape == (2, 1, 4)

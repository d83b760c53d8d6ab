import jax
import pytest
from hypothesis import settings

settings.register_profile("gemax", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("gemax")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)

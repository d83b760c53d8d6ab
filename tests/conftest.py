import gc
import os

# Most of a test's time is compiling, which this halves, in child processes too. `make test-slow` undoes it: it learns.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax
import pytest
from hypothesis import settings

settings.register_profile("gemax", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("gemax")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def forget_what_was_compiled():
    """Compiled functions stay in memory for good; over the whole suite that is gigabytes."""
    yield
    jax.clear_caches()
    gc.collect()

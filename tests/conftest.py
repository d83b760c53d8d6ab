import gc
import itertools
import os
import tempfile
from pathlib import Path

# Most of a test's time is compiling, which these settings halve, in child processes too. A program is generated in one
# part, because both cores are busy anyway. `make test-slow` undoes it: it learns.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)

import jax
import pytest
from hypothesis import settings

from tests.reliability import Reliability, faults_of

settings.register_profile("gemax", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("gemax")
jax.config.update("jax_numpy_rank_promotion", "raise")

MODULES_BETWEEN_CLEARS = 8
"""Modules of tests after which compiled functions are freed. Most modules use functions of the modules before."""
finished_modules = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption("--reliability", metavar="FILE", help="write the table of injected faults")
    parser.addoption("--reliability-add", action="store_true", help="keep the outcomes of other tests")


def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties += [("fault", list(fault)) for fault in faults_of(item)]


def pytest_configure(config):
    """What one process has compiled, no other need: workers, children and those that forgot share a folder."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="gemax-compiled-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        # Runs are signed with a key of the tests, not with the user's.
        os.environ["XDG_STATE_HOME"] = str(Path(folder.name) / "state")
    path = config.getoption("--reliability")
    if path is not None and not hasattr(config, "workerinput"):
        adds = config.getoption("--reliability-add")
        config.pluginmanager.register(Reliability(Path(path), adds=adds))
    # For this process, whose jax has read its settings already.
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def pytest_collection_finish():
    """All that is there now stays: to search it for garbage again and again is for nothing."""
    gc.freeze()


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def free_compiled_functions():
    """Frees compiled functions from time to time. They would stay in memory for good: gigabytes over the suite."""
    yield
    if next(finished_modules) % MODULES_BETWEEN_CLEARS == 0:
        jax.clear_caches()
        gc.collect()

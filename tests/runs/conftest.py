import fcntl
import os

import pytest
from tests.runs.children import CONFIG, finish


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder that all test workers share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def environment():
    """The environment variables of child processes, with the shared compilation cache."""
    return os.environ | {"PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="session")
def whole(shared, environment):
    """An undisturbed run."""
    return _made_once(shared / "whole", environment, CONFIG)


@pytest.fixture(scope="session")
def group(shared, environment):
    """An undisturbed run of two seeds."""
    return _made_once(shared / "group", environment, CONFIG.replace(seeds=2))


def _made_once(path, environment, config):
    """Makes a run once for all test workers; the others wait."""
    with path.with_suffix(".waiting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / "summary.json").exists():
            finish(path, "start", environment, config=config)
    return path

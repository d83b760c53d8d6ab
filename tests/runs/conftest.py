import dataclasses
import fcntl
import os

import pytest
from tests.runs.children import CONFIG, finish


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder that all workers of this session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def environment():
    """Theirs is ours, and with it all that any worker or child has compiled."""
    return os.environ | {"PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="session")
def whole(shared, environment):
    """The run that nothing happens to."""
    return _made_once(shared / "whole", environment, CONFIG)


@pytest.fixture(scope="session")
def group(shared, environment):
    """Two seeds that nothing happens to."""
    return _made_once(shared / "group", environment, dataclasses.replace(CONFIG, seeds=2))


def _made_once(path, environment, config):
    """Makes a run for all workers: the first one that needs it does, and the others wait."""
    with path.with_suffix(".waiting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / "summary.json").exists():
            finish(path, "start", environment, config=config)
    return path

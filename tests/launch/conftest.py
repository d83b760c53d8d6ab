import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment():
    """The environment variables of child processes. They and their actors can import the tests."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Otherwise `ray start` would write a token to the home directory.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    # Ray gives actors a low priority, so that they would wait for all other programs of a busy machine.
    priority = {"RAY_worker_niceness": "0"}
    return os.environ | token | priority | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def nothing_left():
    """Fails if the test leaves a process of Ray or a temporary folder behind."""
    before = ray_processes().keys(), temporary_folders()
    yield
    end = time.monotonic() + 30
    while (left := ray_processes().keys() - before[0]) and time.monotonic() < end:
        time.sleep(0.2)
    processes = ray_processes()
    assert not {number: processes.get(number) for number in left}
    assert temporary_folders() <= before[1]


def ray_processes():
    """The processes of Ray on this machine, by number."""
    found = {}
    for process in psutil.process_iter(["name", "cmdline", "status"]):
        words = [process.info["name"], *(process.info["cmdline"] or [])[:3]]
        is_alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if is_alive and any(word.startswith("ray::") or "/ray/" in word for word in words):
            found[process.pid] = words
    return found


def temporary_folders():
    """The temporary folders of gemax."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob("gemax-r*")}


@pytest.fixture
def short_folder():
    """A temporary folder whose name is short enough for the sockets of Ray."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder

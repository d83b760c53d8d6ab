"""One process at a time holds a run, and its lock ends with it."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from gemax.runs.locks import is_locked, locked
from gemax.runs.run_directory import create_run, resume_run

HOLD = """
import sys, time
from pathlib import Path
from gemax.runs.run_directory import create_run, resume_run

path = Path(sys.argv[1])
with (resume_run(path) if path.exists() else create_run(path, {})) as run:
    print("locked", *run.messages, flush=True)
    sys.stdin.readline()
    if "fail" in sys.argv:
        raise RuntimeError("on purpose")
    if "exit" in sys.argv:
        sys.exit(7)
"""


def start(code, path, *arguments):
    command, pipe = [sys.executable, "-c", code, str(path), *arguments], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def hold(path, *arguments):
    """Starts a process that holds the run until it reads a line."""
    process = start(HOLD, path, *arguments)
    assert process.stdout.readline().startswith("locked"), process.stderr.read()
    return process


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.fault(14)
def test_a_second_process_is_refused_and_the_first_is_named(tmp_path):
    path = tmp_path / "run"
    with hold(path) as first:
        before = contents(path)
        for opening in (create_run(path, {}), resume_run(path)):
            with (
                pytest.raises(ValueError, match=f"locked by pid {first.pid} on host {os.uname().nodename}"),
                opening,
            ):
                pytest.fail("the run was opened")
        assert contents(path) == before
        first.communicate("\n", timeout=20)
    with resume_run(path) as run:
        assert run.messages == ()


@pytest.mark.fault(14)
def test_the_lock_of_a_killed_process_is_taken_over_with_a_message(tmp_path):
    path = tmp_path / "run"
    with hold(path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=20)
        assert (path / "run.lock").exists()
        with resume_run(path) as run:
            assert len(run.messages) == 1
            assert f"pid {first.pid}" in run.messages[0]
            assert json.loads((path / "run.lock").read_text())["pid"] == os.getpid()
    assert not (path / "run.lock").exists()


@pytest.mark.parametrize("reason", ["fail", "exit"])
def test_the_lock_is_released_when_a_process_fails_or_exits(tmp_path, reason):
    with hold(tmp_path / "run", reason) as first:
        first.communicate("\n", timeout=20)
        assert first.returncode == {"fail": 1, "exit": 7}[reason]
    assert not (tmp_path / "run" / "run.lock").exists()


def test_the_lock_is_released_after_an_exception(tmp_path):
    with pytest.raises(KeyboardInterrupt), create_run(tmp_path / "run", {}):
        raise KeyboardInterrupt
    with resume_run(tmp_path / "run") as run:
        assert run.messages == ()


def test_one_process_cannot_open_a_run_twice(tmp_path):
    with create_run(tmp_path / "run", {}) as run:
        with pytest.raises(ValueError, match=f"locked by pid {os.getpid()}"), resume_run(run.path):
            pytest.fail("the run was opened")
        with pytest.raises(ValueError, match="locked"), create_run(run.path, {}):
            pytest.fail("the run was opened")


def leave_lock(path, **holder):
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "run.lock").write_text(json.dumps(holder))


def test_the_lock_of_another_host_is_never_taken_over(tmp_path):
    leave_lock(tmp_path / "run", pid=1, host="elsewhere", started="2026-01-01T00:00:00+00:00")
    with pytest.raises(ValueError, match=r"locked by pid 1 on host elsewhere .*delete .*run\.lock"):
        resume_run(tmp_path / "run").__enter__()
    assert (tmp_path / "run" / "run.lock").exists()


@pytest.mark.parametrize("content", [b"", b'{"pid": 12', b"\0" * 40, b"[]", b'{"pid": "x"}'])
def test_a_damaged_lock_file_without_a_holder_is_taken_over(tmp_path, content):
    leave_lock(tmp_path / "run")
    (tmp_path / "run" / "run.lock").write_bytes(content)
    with resume_run(tmp_path / "run") as run:
        assert run.messages == ()


def test_a_process_does_not_delete_the_lock_file_of_another(tmp_path):
    path = tmp_path / "run"
    with create_run(path, {}):
        (path / "run.lock").unlink()
        second = resume_run(path)
        second.__enter__()
    assert (path / "run.lock").exists()
    second.__exit__(None, None, None)
    assert not (path / "run.lock").exists()


def test_a_lock_file_deleted_between_opening_and_locking_is_created_again(tmp_path, monkeypatch):
    flock, deleted = fcntl.flock, []

    def delete_first(*arguments):
        if not deleted:
            deleted.append((tmp_path / "run" / "run.lock").unlink())
        return flock(*arguments)

    monkeypatch.setattr("fcntl.flock", delete_first)
    with create_run(tmp_path / "run", {}) as run:
        assert (run.path / "run.lock").exists()


@pytest.mark.parametrize("is_alive", [True, False])
def test_without_file_system_locks_the_pid_decides(tmp_path, monkeypatch, is_alive):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        if not is_alive:
            other.communicate(b"\n", timeout=20)
        leave_lock(tmp_path / "run", pid=other.pid, host=os.uname().nodename, started="today")
        if is_alive:
            with pytest.raises(ValueError, match=f"locked by pid {other.pid}"):
                resume_run(tmp_path / "run").__enter__()
        else:
            with resume_run(tmp_path / "run") as run:
                assert f"pid {other.pid}" in run.messages[0]


def test_readers_do_not_keep_each_other_or_the_owner_from_the_lock(tmp_path):
    path = tmp_path / "run.lock"
    path.touch()
    with path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not is_locked(path)
        released = threading.Timer(0.01, fcntl.flock, [reader, fcntl.LOCK_UN])
        released.start()
        with locked(path):
            assert is_locked(path)
        released.join()


@pytest.mark.fault(14)
def test_only_one_of_many_processes_gets_the_lock(tmp_path):
    leave_lock(tmp_path / "run", pid=2**22 + 1, host=os.uname().nodename, started="long ago")
    code = HOLD.replace("path = Path", "sys.stdin.readline(); path = Path")
    processes = [start(code, tmp_path / "run") for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    first_lines = [process.stdout.readline() for process in processes]
    assert sum(line.startswith("locked") for line in first_lines) == 1
    errors = [process.communicate("\n", timeout=20)[1] for process in processes]
    assert sum("is locked by" in error for error in errors) == 3

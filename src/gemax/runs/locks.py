"""Locks between processes: a lock file for a run, and a lock on a folder while it is written.

Both use `flock`, so the operating system releases them when the process ends, even if it is killed.
"""

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gemax.runs.files import open_descriptor

QUERY_SECONDS = 0.05
"""Longer than `is_locked` holds a lock."""


class _Owner(NamedTuple):
    """The process that holds a lock file, as written in it."""

    pid: int
    host: str
    started: str


@contextlib.contextmanager
def locked(path: Path) -> Iterator[str | None]:
    """Holds a lock file until the block ends. Yields a message if a process that has ended left the file behind.

    Raises:
        ValueError: Another process holds the lock.
    """
    descriptor, message = _acquire(path)
    try:
        yield message
    finally:
        with contextlib.suppress(OSError):
            if _is_same_file(path, descriptor):
                path.unlink()
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Locks a folder until the block ends, so that `is_locked` is true in other processes."""
    with open_descriptor(folder, os.O_RDONLY) as descriptor:
        # Some network file systems have no locks. There, a reader may remove a checkpoint that is being written.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Returns whether a process holds the lock of a file or folder. False if the lock cannot be read."""
    try:
        with open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
            # A shared lock, since several processes may ask at the same time.
            return _try_lock(descriptor, fcntl.LOCK_SH) is False
    except OSError:
        return False


def _acquire(path: Path) -> tuple[int, str | None]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            message = _claim(path, descriptor)
            if _is_same_file(path, descriptor):
                return descriptor, message
        except BaseException:
            os.close(descriptor)
            raise
        # The previous owner deleted the file between our open and our lock: lock the new file instead.
        os.close(descriptor)


def _claim(path: Path, descriptor: int) -> str | None:
    """Locks the file and writes this process into it. Returns a message if the previous owner has ended."""
    is_free = _try_lock(descriptor)
    if is_free is False:
        # `is_locked` of another process holds the lock for a moment.
        time.sleep(QUERY_SECONDS)
        is_free = _try_lock(descriptor)
    owner = _read_owner(descriptor)
    if is_free is None:
        is_free = owner is None or not _is_alive(owner.pid)
    # The owner may run on another host: its pid and, on some network file systems, its lock tell nothing.
    if not is_free or (owner is not None and owner.host != platform.node()):
        holder = f"pid {owner.pid} on host {owner.host} since {owner.started}" if owner else "another process"
        raise ValueError(f"{path.parent} is locked by {holder}. If that process is gone, delete {path}.")
    this_process = _Owner(os.getpid(), platform.node(), datetime.now(UTC).isoformat(timespec="seconds"))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(this_process._asdict()).encode(), 0)
    if owner is None:
        return None
    return f"Took over {path}: its owner, pid {owner.pid} since {owner.started}, is gone."


def _try_lock(descriptor: int, mode: int = fcntl.LOCK_EX) -> bool | None:
    """Returns whether the lock was free and is now ours, or None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read_owner(descriptor: int) -> _Owner | None:
    """Returns the owner named in the file, or None if the file is new or damaged."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        return _Owner(int(owner["pid"]), str(owner["host"]), str(owner["started"]))
    except (ValueError, TypeError, KeyError):
        return None


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()

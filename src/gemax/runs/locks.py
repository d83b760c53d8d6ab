"""A lock file: one process at a time, whatever becomes of it."""

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def locked(path: Path) -> Iterator[str | None]:
    """Holds a lock file. The lock ends with the process, however that ends; the file says whose it is."""
    descriptor, message = _acquired(path)
    try:
        yield message
    finally:
        with contextlib.suppress(OSError):
            if _is_still(path, descriptor):
                path.unlink()
        os.close(descriptor)


def _acquired(path: Path) -> tuple[int, str | None]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            message = _claim(path, descriptor)
            if _is_still(path, descriptor):
                return descriptor, message
        except BaseException:
            os.close(descriptor)
            raise
        # The process before us deleted the file after we had opened it: what we hold is a lock on nothing.
        os.close(descriptor)


def _claim(path: Path, descriptor: int) -> str | None:
    """Makes the lock ours, or refuses. The message tells of a process that left it behind."""
    is_free = _flock(descriptor)
    holder = _holder(descriptor)
    if is_free is None:
        is_free = holder is None or not _is_alive(holder["pid"])
    if not is_free or (holder is not None and holder["host"] != platform.node()):
        raise ValueError(_refusal(path, holder))
    ours = {
        "pid": os.getpid(),
        "host": platform.node(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(ours).encode(), 0)
    if holder is None:
        return None
    return f"Took over {path}: pid {holder['pid']}, which had it since {holder['started']}, is gone."


def _flock(descriptor: int) -> bool | None:
    """Whether the system gives us the lock; None where the file system has none, as on some clusters."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _holder(descriptor: int) -> dict[str, Any] | None:
    """Who the file says has the lock; None if it is new, or was cut short when the machine stopped."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return {"pid": int(holder["pid"]), "host": str(holder["host"]), "started": str(holder["started"])}
    except (ValueError, TypeError, KeyError):
        return None


def _refusal(path: Path, holder: dict[str, Any] | None) -> str:
    if holder is None:
        return f"{path.parent} is locked by another process."
    return (
        f"{path.parent} is locked by pid {holder['pid']} on host {holder['host']} since {holder['started']}. "
        f"If that process is gone, delete {path}."
    )


def _is_still(path: Path, descriptor: int) -> bool:
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

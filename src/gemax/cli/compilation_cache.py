"""A cache of compiled programs in the user's cache folder, so that the same settings compile only once.

JAX reads its settings from environment variables when it is imported. Setting them needs no import of JAX, and child
processes inherit them.
"""

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

FOLDER, MIN_SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
"""Variables of JAX: the folder of the cache, and the compile time from which on a program is stored."""
MAX_BYTES = 256 * 2**20
"""At the start of a command, the oldest programs beyond this size are deleted."""
NO_CACHE_FLAG = "--no-compilation-cache"


def use_compilation_cache() -> None:
    """Lets JAX store compiled programs, unless the user has set its cache folder.

    Does nothing if the folder cannot be written, or if other users could write to it: programs in it are executed.
    """
    if FOLDER in os.environ:
        return
    # Not at the top: `gemax --help` does not need the settings.
    from gemax.settings import PROGRAM_FOLDER

    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home directory
        root = cache_path()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_private(root):
            return
        folder = root / machine_digest()
        folder.mkdir(exist_ok=True, mode=0o700)
        delete_oldest(root, MAX_BYTES)
        os.environ[FOLDER] = str(folder)
        # Programs of gemax environments are also stored in a form that need not be traced.
        os.environ[PROGRAM_FOLDER] = str(folder)
        # Small programs too: there are about twenty of them before the first update.
        os.environ.setdefault(MIN_SECONDS, "0")


def cache_path() -> Path:
    """Returns the folder of compiled programs, in the user's cache folder."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "gemax" / "compiled"


def machine_digest() -> str:
    """Returns a name for what compiled programs depend on beside JAX: the processor, its cores, and jaxlib.

    A home folder can be shared by machines with different processors.
    """
    # Not at the top, because it takes a tenth of the time of `gemax --help`, which compiles nothing.
    from importlib.metadata import version

    features = platform.processor() + platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += "".join(sorted({line for line in lines if line.startswith(("flags", "model name"))}))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{features} {cores} {version('jaxlib')}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def delete_oldest(root: Path, max_bytes: int) -> None:
    """Deletes the files that were used least recently, until the others have at most `max_bytes`."""
    total = 0
    for status, file in sorted(_files(root), key=_age):
        total += status.st_size
        if total > max_bytes:
            file.unlink(missing_ok=True)


def _files(root: Path) -> Iterator[tuple[os.stat_result, Path]]:
    for file in root.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # another process has just deleted it
            yield file.stat(), file


def _age(entry: tuple[os.stat_result, Path]) -> tuple[float, str]:
    """Sort key: the file that was used last comes first."""
    status, file = entry
    return -max(status.st_mtime, status.st_atime), file.name


def _is_private(folder: Path) -> bool:
    status = folder.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)

"""Temporary folders that do not stay for good if their process is killed: the next process deletes them."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gemax.runs.locks import is_locked, locked_folder


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yields a new folder, which is deleted at the end. First deletes folders that killed processes have left."""
    parent = Path(tempfile.gettempdir())
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # deleted meanwhile
            if folder.lstat().st_uid == os.getuid() and not is_locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
    # Renamed once it is locked, because another process could delete it before.
    unnamed = Path(tempfile.mkdtemp(prefix=".gemax-"))
    with locked_folder(unnamed):
        folder = unnamed.rename(parent / f"{prefix}{unnamed.name.removeprefix('.gemax-')}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

"""Records that cannot be read, because they are cut, foreign or absurd: they are named, and their runs made again."""

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

MAX_FILE_BYTES = 2**23
"""Largest size of the file of a record. Records have a few hundred kilobytes."""
MAX_RECORD_BYTES = 2**28
"""Largest size of a record, unpacked."""


def is_readable(path: Path, is_record: Callable[[Path], bool]) -> bool:
    """Returns what `is_record` says of a file. False, with a warning, if the file cannot be read."""
    if not path.exists():
        return False
    try:
        _check_size(path)
        return is_record(path)
    except Exception as error:  # libraries raise many kinds of exceptions for damaged archives
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        warnings.warn(f"{path} is not a readable record ({reason}). Its run is made again.", stacklevel=2)
        return False


def _check_size(path: Path) -> None:
    """Raises ValueError for a file or an archive that is too large to be a record."""
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ValueError(f"it has {size:,} bytes; a record has at most {MAX_FILE_BYTES:,}")
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    if size > MAX_RECORD_BYTES:
        raise ValueError(f"it has {size:,} bytes, unpacked; a record has at most {MAX_RECORD_BYTES:,}")

"""Checks of run paths before anything is written: names, links, write permission and free space."""

import itertools
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

MAX_NAME_BYTES = 255
"""Limit of common file systems for one file name."""


def free_path(folder: Path, name: str) -> Path:
    """Returns the first of NAME, NAME-2, NAME-3 … that does not exist in `folder`."""
    names = itertools.chain([name], (f"{name}-{index}" for index in itertools.count(2)))
    return next(path for path in map(folder.joinpath, names) if not path.exists())


def check_names(path: Path) -> None:
    """Raises ValueError if a part of the path cannot be a file name."""
    for name in path.parts:
        if "\0" in name:
            raise ValueError(f"A path cannot contain the NUL character; got {str(path)!r}.")
        if len(os.fsencode(name)) > MAX_NAME_BYTES:
            raise ValueError(f"A name can have at most {MAX_NAME_BYTES} bytes; {name[:20]!r}... is longer.")


def check_no_links(paths: Iterable[Path]) -> None:
    """Raises ValueError if a path is a symbolic link: writing through it would change files outside the run."""
    for path in paths:
        if path.is_symlink():
            raise ValueError(f"{path} is a link. Remove it: a run writes only into its own directory.")


def check_writable(path: Path) -> None:
    """Checks that a run can be created at a path.

    Raises:
        ValueError: The path contains an invalid name.
        OSError: The path is not writable.
    """
    check_names(path)
    existing = _nearest_existing(path)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(
            f"Cannot write to {path}: {existing} is not a folder with write permission. "
            "Choose another directory for the run."
        )


def check_space(path: Path, needed_bytes: int) -> None:
    """Raises OSError if the disk has less free space than needed."""
    free = shutil.disk_usage(_nearest_existing(path)).free
    if free < needed_bytes:
        raise OSError(
            f"{path} has {free / 1e6:,.1f} MB of free space, but {needed_bytes / 1e6:,.1f} MB are needed. "
            "Free some space, or choose another directory."
        )


def _nearest_existing(path: Path) -> Path:
    """Returns the path itself or its nearest parent that exists."""
    return next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())

"""The files of the snapshots of a run: `snapshots/scene.json`, and one `update-N.npz` per snapshot. No pickle."""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gemax.runs.files import write_arrays, write_json

FOLDER = "snapshots"
SCENE = "scene.json"
FORMAT = 1
"""Version of the files. Raise it if an older page could not read them."""
MAX_BYTES = 64 * 2**20
"""Largest snapshot that is read. A damaged file may claim any size."""


class SnapshotError(ValueError):
    """A snapshot cannot be read."""


def snapshot_path(folder: Path, update: int) -> Path:
    """Returns the file of the snapshot after an update."""
    return folder / f"update-{update:010d}.npz"


def snapshot_updates(folder: Path) -> list[int]:
    """Returns the updates that have a snapshot, in order."""
    names = (re.fullmatch(r"update-(\d{10})\.npz", path.name) for path in folder.glob("update-*.npz"))
    return sorted(int(match[1]) for match in names if match)


def write_scene(folder: Path, scene: Mapping[str, Any]) -> None:
    """Writes the description of the environment, which does not change during a run."""
    write_json(folder / SCENE, {"format": FORMAT, **scene})


def read_scene(folder: Path) -> dict[str, Any]:
    """Reads the description of the environment.

    Raises:
        SnapshotError: The file is damaged, or was written by a newer version.
        OSError: The file cannot be read.
    """
    path = folder / SCENE
    try:
        scene = json.loads(path.read_bytes())
        version = scene["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SnapshotError(f"{path.name} is damaged ({type(error).__name__}).") from error
    if version != FORMAT:
        raise SnapshotError(
            f"{path.name} has format {version} and this version of gemax reads format {FORMAT}. Update gemax."
        )
    return scene


def write_snapshot(folder: Path, update: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a snapshot atomically."""
    write_arrays(snapshot_path(folder, update), arrays)


def read_snapshot(folder: Path, update: int) -> dict[str, np.ndarray]:
    """Reads the arrays of a snapshot.

    Raises:
        SnapshotError: The file is damaged or too large.
        OSError: The file cannot be read.
    """
    path = snapshot_path(folder, update)
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MAX_BYTES:
            raise SnapshotError(f"{path.name} has {size:,} bytes; at most {MAX_BYTES:,} are read.")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"{path.name} is damaged: {error}.") from error


def thinned(updates: list[int]) -> list[int]:
    """Returns every second update, with the first and the last one."""
    return [update for index, update in enumerate(updates) if index % 2 == 0 or index == len(updates) - 1]

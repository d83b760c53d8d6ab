"""Atomic file writes: a reader sees the old content or the new content, never part of it."""

import contextlib
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file atomically: to a temporary file, which is flushed and then renamed. Creates missing parents.

    Raises:
        OSError: The file cannot be written. The error names `path`, not the temporary file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(path, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_and_sync(file, content)
        # mkstemp creates files that only their owner can read.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_temporary_files(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Removes temporary files that killed processes left in `write_bytes`. Returns a message for each.

    Only call this while no other process writes files that match the patterns, for example while holding a lock.
    """
    leftovers = sorted(
        path for pattern in patterns for path in folder.glob(f".{pattern}.????????.tmp") if path.is_file()
    )
    for path in leftovers:
        path.unlink()
    return [f"Removed {path}, left by a process that was killed while writing." for path in leftovers]


def write_and_sync(file: IO[bytes], content: bytes) -> None:
    """Writes to an open file and flushes it to the disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flushes the file names of a folder to the disk. Without this, a power failure can lose a flushed file."""
    with open_descriptor(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def open_descriptor(path: Path, flags: int) -> Iterator[int]:
    """Opens a file descriptor and closes it when the block ends."""
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explain_write_errors(path: Path, advice: str = "Choose another directory for the run.") -> Iterator[None]:
    """Re-raises an OSError with the path, the reason and advice in one line."""
    try:
        yield
    except OSError as error:
        raise OSError(f"Cannot write to {path}: {error.strerror or error}. {advice}") from error


def to_json(value: Any) -> Any:
    """Converts a value to JSON types: arrays to numbers or nested lists, non-finite numbers to None.

    Raises:
        TypeError: The value has no JSON equivalent.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    array = np.asarray(value)
    if array.dtype.kind == "V":
        array = array.astype(np.float64)  # bfloat16 and similar dtypes, which NumPy does not treat as floats
    if array.dtype.kind not in "biuf":
        raise TypeError(f"Cannot convert {value!r} ({type(value).__name__}) to JSON. Use numbers or strings.")
    return to_json(array.tolist())


def encode_json(content: Any) -> bytes:
    """Returns indented JSON text. Raises ValueError for non-finite numbers."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, with null for non-finite numbers."""
    write_bytes(path, encode_json(to_json(content)))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays to one compressed file, readable by `np.load` without pickle."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    write_bytes(path, buffer.getvalue())


def figure_bytes(figure: "Figure") -> bytes:
    """Returns a Matplotlib figure as PNG. Equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def write_figure(path: Path, figure: "Figure") -> None:
    """Writes a Matplotlib figure as PNG."""
    write_bytes(path, figure_bytes(figure))


def write_image(path: Path, image: UInt8[np.ndarray, "height width 3"]) -> None:
    """Writes an RGB image as PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="png")
    write_bytes(path, buffer.getvalue())

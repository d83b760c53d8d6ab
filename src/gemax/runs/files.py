"""Writing files so that a reader never sees half of one."""

import io
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file as a whole or not at all, whatever happens in between.

    Raises:
        OSError: It cannot be written. The error names the file itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(path, content)
    except OSError as error:
        # A full disk does not say which file it was, and a temporary name helps nobody.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp keeps its files private; these are to be shared like any other.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Writes JSON for people and browsers to read: indented, and null where a number is not finite."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays as one compressed file, for `np.load` without pickle."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    write_bytes(path, buffer.getvalue())


def write_figure(path: Path, figure: "Figure") -> None:
    """Writes a plot as PNG. The same plot gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    write_bytes(path, buffer.getvalue())


def write_image(path: Path, image: UInt8[np.ndarray, "height width 3"]) -> None:
    """Writes pixels as PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="png")
    write_bytes(path, buffer.getvalue())


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content

"""Films as one image: all frames beside and below each other, which a page can show one by one."""

import io
from typing import TypeAlias

import numpy as np
from jaxtyping import UInt8

MAX_PIXELS = 3_000_000
"""Pixels of all frames together. Longer films keep their first frames only."""
MAX_SIDE = 8_000
"""Browsers show images up to 16,384 pixels wide; phones less."""

FilmArrays: TypeAlias = dict[str, np.ndarray]


def encode_film(frames: UInt8[np.ndarray, "frames height width 3"], *, is_lossless: bool) -> FilmArrays:
    """Returns the arrays `film` (bytes of a PNG or WebP file) and `film_grid` (frames, height, width, columns)."""
    from PIL import Image

    _, height, width, _ = frames.shape
    frames = frames[: max(MAX_PIXELS // (height * width), 1)]
    columns = max(min(len(frames), MAX_SIDE // width, round((len(frames) * height / width) ** 0.5)), 1)
    rows = -(-len(frames) // columns)
    sheet = np.zeros((rows * columns, height, width, 3), np.uint8)
    sheet[: len(frames)] = frames
    sheet = sheet.reshape(rows, columns, height, width, 3).swapaxes(1, 2).reshape(rows * height, -1, 3)
    buffer = io.BytesIO()
    if is_lossless:
        Image.fromarray(sheet).save(buffer, format="png")
    else:
        Image.fromarray(sheet).save(buffer, format="webp", quality=80, method=2)
    return {
        "film": np.frombuffer(buffer.getvalue(), np.uint8),
        "film_grid": np.array([len(frames), height, width, columns]),
    }

"""Image size, smooth edges and wheels of the drawings of continuous environments."""

from collections.abc import Callable

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 400, 300
OVERSAMPLING = 3
"""Images are drawn this many times larger and then scaled down, which smooths the edges."""
TYRE = (42, 44, 50)

Colour = tuple[int, int, int]
Point = tuple[float, float]


def draw_image(
    background: Colour, draw: Callable[[ImageDraw.ImageDraw], None]
) -> UInt8[np.ndarray, "height width 3"]:
    """Returns an image made by `draw`, which gets a canvas in oversampled pixels."""
    image = Image.new("RGB", (WIDTH * OVERSAMPLING, HEIGHT * OVERSAMPLING), background)
    draw(ImageDraw.Draw(image))
    return np.array(image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


def draw_wheel(draw: ImageDraw.ImageDraw, centre: Point, radius: int, hub: Colour) -> None:
    """Draws a tyre with a hub."""
    draw.circle(centre, radius * OVERSAMPLING, fill=TYRE)
    draw.circle(centre, 3 * OVERSAMPLING, fill=hub)

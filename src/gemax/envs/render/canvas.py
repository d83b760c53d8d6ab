"""Image size, smooth edges and wheels of the drawings of continuous environments, and colours of visits."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 400, 300
OVERSAMPLING = 3
"""Images are drawn this many times larger and then scaled down, which smooths the edges."""
TYRE = (42, 44, 50)

GAP = 16
"""Pixels between two images side by side."""

Colour = tuple[int, int, int]
RARE: Colour = (190, 226, 200)
OFTEN: Colour = (10, 92, 96)
"""Colours of the least and of the most visited cells."""
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


def visit_colours(visits: Float[np.ndarray, "*cells"]) -> Float[np.ndarray, "*cells 3"]:
    """Returns a colour for every cell, from pale to dark on a logarithmic scale of its visits."""
    share = np.log1p(visits) / max(np.log1p(visits.max()), 1e-9)
    return np.asarray(RARE) + share[..., None] * (np.asarray(OFTEN, float) - RARE)


def visits_image(
    visits: Float[np.ndarray, "rows columns"], height: int
) -> UInt8[np.ndarray, "height width 3"]:
    """Returns the visits to a grid of cells as an image of this height. Cells without a visit are white."""
    colours = np.where(visits[..., None] > 0, visit_colours(visits), 255).astype(np.uint8)
    width = visits.shape[1] * height // visits.shape[0]
    return np.array(Image.fromarray(colours).resize((width, height), Image.Resampling.NEAREST))


def side_by_side(
    left: UInt8[np.ndarray, "height width 3"], right: UInt8[np.ndarray, "height other_width 3"]
) -> UInt8[np.ndarray, "height total 3"]:
    """Returns two images of equal height beside each other, with a gap."""
    gap = np.full((len(left), GAP, 3), 255, np.uint8)
    return np.concatenate([left, gap, right], axis=1)

"""Draws Mountain Car."""

from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import ImageDraw

from gemax.envs.render.canvas import HEIGHT, OVERSAMPLING, WIDTH, Point, draw_image, draw_wheel

SKY, GROUND, ROAD = (226, 238, 247), (122, 158, 104), (74, 98, 66)
CAR, WINDOW, HUB = (204, 68, 56), (236, 244, 250), (190, 194, 200)
POLE, FLAG = (90, 84, 78), (240, 178, 40)
PIXELS_PER_UNIT = 210 * OVERSAMPLING
FLATTENING = 0.45
"""The hills are drawn flatter than sin(3x), so that they fit into the image."""


class Valley(NamedTuple):
    """Ends of the drawn ground and position of the goal, with the conversion to pixels."""

    left: float
    right: float
    goal: float

    def pixel(self, position: float | np.ndarray) -> np.ndarray:
        """Returns the pixel of the ground at a position: x to the right, y down."""
        centre = (self.left + self.right) / 2
        x = WIDTH * OVERSAMPLING / 2 + PIXELS_PER_UNIT * (np.asarray(position) - centre)
        y = HEIGHT * OVERSAMPLING * 0.56 - PIXELS_PER_UNIT * FLATTENING * np.sin(3 * np.asarray(position))
        return np.stack([x, y], axis=-1)


def draw_mountain_car(valley: Valley, position: float) -> UInt8[np.ndarray, "height width 3"]:
    """Returns an image of the valley with a flag at the goal, and of the car at a position."""

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        _draw_flag(canvas, *valley.pixel(valley.goal))
        _draw_ground(canvas, valley)
        _draw_car(canvas, position, valley.pixel(position))

    return draw_image(SKY, draw)


def _draw_ground(draw: ImageDraw.ImageDraw, valley: Valley) -> None:
    positions = np.linspace(valley.left - 0.2, valley.right + 0.2, 200)
    surface = [tuple(point) for point in valley.pixel(positions)]
    bottom = HEIGHT * OVERSAMPLING
    draw.polygon([(surface[0][0], bottom), *surface, (surface[-1][0], bottom)], fill=GROUND)
    draw.line(surface, fill=ROAD, width=3 * OVERSAMPLING, joint="curve")


def _draw_flag(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    top = y - 58 * OVERSAMPLING
    draw.line([(x, y), (x, top)], fill=POLE, width=3 * OVERSAMPLING)
    tip, hem = (x + 30 * OVERSAMPLING, top + 10 * OVERSAMPLING), (x, top + 20 * OVERSAMPLING)
    draw.polygon([(x, top), tip, hem], fill=FLAG)


def _draw_car(draw: ImageDraw.ImageDraw, position: float, ground: np.ndarray) -> None:
    slope = np.arctan(FLATTENING * 3 * np.cos(3 * position))
    # Columns: unit vectors along the ground and away from it, in pixels (y points down).
    axes = np.array([[np.cos(slope), -np.sin(slope)], [-np.sin(slope), -np.cos(slope)]])

    def to_pixels(*points: Point) -> list[Point]:
        return [(x, y) for x, y in ground + OVERSAMPLING * np.array(points) @ axes.T]

    body = to_pixels((-22.0, 6.0), (-22.0, 15.0), (-14.0, 17.0), (14.0, 17.0), (23.0, 13.0), (23.0, 6.0))
    draw.polygon(body, fill=CAR)
    draw.polygon(to_pixels((-14.0, 17.0), (-9.0, 27.0), (6.0, 27.0), (14.0, 17.0)), fill=CAR)
    draw.polygon(to_pixels((-9.0, 18.0), (-6.5, 24.0), (4.5, 24.0), (9.0, 18.0)), fill=WINDOW)
    for centre in to_pixels((-12.0, 7.0), (13.0, 7.0)):
        draw_wheel(draw, centre, 7, HUB)

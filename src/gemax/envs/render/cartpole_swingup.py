"""Draws cartpole swing-up."""

import numpy as np
from jaxtyping import UInt8
from PIL import ImageDraw

from gemax.envs.render.canvas import HEIGHT, OVERSAMPLING, WIDTH, Point, draw_image, draw_wheel

BACKGROUND, RAIL, BUMPER = (236, 241, 246), (128, 136, 148), (200, 88, 74)
CART, POLE, HINGE = (52, 88, 140), (222, 140, 48), (250, 232, 200)
PIXELS_PER_METRE = 42 * OVERSAMPLING
TRACK_END = 3.0
"""Distance of the bumpers from the middle, in metres: the end of the track by default."""
POLE_LENGTH = 1.9
"""In metres. The pole is drawn longer than its real length of 1 metre, so that its angle is easier to see."""


def draw_cartpole(x: float, theta: float) -> UInt8[np.ndarray, "height width 3"]:
    """Returns an image of the track, the cart at x and its pole at the angle theta."""

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        _draw_track(canvas)
        _draw_cart(canvas, x)
        _draw_pole(canvas, x, theta)

    return draw_image(BACKGROUND, draw)


def _pixel(x: float, y: float) -> Point:
    """Converts metres from the middle of the track, at the height of the hinge, to pixels. y points up."""
    middle_x, middle_y = WIDTH * OVERSAMPLING / 2, HEIGHT * OVERSAMPLING / 2
    return middle_x + PIXELS_PER_METRE * x, middle_y - PIXELS_PER_METRE * y


def _draw_track(draw: ImageDraw.ImageDraw) -> None:
    draw.line([_pixel(-TRACK_END, -0.5), _pixel(TRACK_END, -0.5)], fill=RAIL, width=5 * OVERSAMPLING)
    for metre in np.arange(-TRACK_END, TRACK_END + 1):
        draw.line([_pixel(metre, -0.5), _pixel(metre, -0.72)], fill=RAIL, width=3 * OVERSAMPLING)
    for end in (-TRACK_END, TRACK_END):
        draw.line([_pixel(end, -0.75), _pixel(end, 0.1)], fill=BUMPER, width=6 * OVERSAMPLING)


def _draw_cart(draw: ImageDraw.ImageDraw, x: float) -> None:
    body = [_pixel(x - 0.62, 0.22), _pixel(x + 0.62, -0.24)]
    draw.rounded_rectangle(body, radius=6 * OVERSAMPLING, fill=CART)
    for wheel in (x - 0.36, x + 0.36):
        draw_wheel(draw, _pixel(wheel, -0.28), 8, RAIL)


def _draw_pole(draw: ImageDraw.ImageDraw, x: float, theta: float) -> None:
    hinge = _pixel(x, 0.0)
    tip = _pixel(x + POLE_LENGTH * np.sin(theta), POLE_LENGTH * np.cos(theta))
    draw.line([hinge, tip], fill=POLE, width=9 * OVERSAMPLING)
    draw.circle(tip, 9 * OVERSAMPLING, fill=POLE)
    draw.circle(hinge, 6 * OVERSAMPLING, fill=HINGE)

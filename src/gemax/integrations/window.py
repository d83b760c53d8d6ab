"""A window for people to watch a world in. It needs pygame-ce and a screen, and says so where they are missing."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from gymnasium.error import UnsupportedMode
from jaxtyping import UInt8

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
"""One of them is set where a Unix process can open a window."""


def missing_for_a_window() -> str | None:
    """What this machine would need to open a window, or None if it has it all."""
    if find_spec("pygame") is None:
        return "pygame; run `pip install pygame-ce`"
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, DISPLAY_VARIABLES))
    return None if has_screen else "a screen; set DISPLAY, or work where there is a desktop"


class Window:
    """Shows pictures one after another, at a pace that a person can follow."""

    def __init__(self, title: str, pictures_per_second: int):
        missing = missing_for_a_window()
        if missing is not None:
            raise _unsupported(missing)
        # pygame is optional, slow to import, and greets on the terminal.
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._pygame = import_module("pygame")
        self._pace = pictures_per_second
        self._clock = self._pygame.time.Clock()
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise _unsupported(f"a screen that answers ({error})") from error
        # Where no screen answers, SDL draws into memory, unseen. Some want that, and say so.
        if self._pygame.display.get_driver() == "offscreen" != os.environ.get("SDL_VIDEODRIVER"):
            self.close()
            raise _unsupported("a screen that answers; look at DISPLAY")
        self._pygame.display.set_caption(title)

    def show(self, picture: UInt8[np.ndarray, "height width 3"]) -> None:
        """Shows a picture, and waits until it is its time."""
        height, width, _ = picture.shape
        screen = self._pygame.display.get_surface()
        if screen is None or screen.get_size() != (width, height):
            screen = self._pygame.display.set_mode((width, height))
        # pygame counts columns first.
        self._pygame.surfarray.blit_array(screen, picture.swapaxes(0, 1))
        self._pygame.event.pump()
        self._clock.tick(self._pace)
        self._pygame.display.flip()

    def close(self) -> None:
        """Closes the window. To close it again does no harm."""
        self._pygame.display.quit()


def _unsupported(missing: str) -> UnsupportedMode:
    return UnsupportedMode(
        f"render_mode='human' needs {missing}. render_mode='rgb_array' works everywhere and returns pictures."
    )

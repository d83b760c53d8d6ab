"""A window for the render mode `human`. Needs pygame-ce and a display."""

import os
import sys
from importlib import import_module

import numpy as np
from gymnasium.error import UnsupportedMode
from jaxtyping import UInt8

from gemax.extras import EXTRAS, is_installed

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
"""If one of them is set, a Unix process can open a window."""


def missing_requirement() -> str | None:
    """Returns what is missing to open a window, and how to get it. None if nothing is missing."""
    if not is_installed("window"):
        return f"pygame-ce: run `{EXTRAS['window'].install}`"
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, DISPLAY_VARIABLES))
    return None if has_display else "a display: set DISPLAY, or use a machine with a desktop"


class RenderWindow:
    """Shows images at a given frame rate."""

    def __init__(self, title: str, fps: int):
        missing = missing_requirement()
        if missing is not None:
            raise _unsupported(missing)
        # pygame is optional, slow to import, and prints a greeting.
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._pygame = import_module("pygame")
        self._fps = fps
        self._clock = self._pygame.time.Clock()
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise _unsupported(f"a display that responds ({error})") from error
        # Without a display, SDL draws into memory, which is an error unless the user chose it.
        if self._pygame.display.get_driver() == "offscreen" != os.environ.get("SDL_VIDEODRIVER"):
            self.close()
            raise _unsupported("a display that responds: check DISPLAY")
        self._pygame.display.set_caption(title)

    def show(self, image: UInt8[np.ndarray, "height width 3"]) -> None:
        """Waits for the next frame, then shows the image."""
        size = image.shape[1::-1]
        screen = self._pygame.display.get_surface()
        if screen is None or screen.get_size() != size:
            screen = self._pygame.display.set_mode(size)
        # The first axis of pygame's images is the column.
        self._pygame.surfarray.blit_array(screen, image.swapaxes(0, 1))
        self._pygame.event.pump()
        self._clock.tick(self._fps)
        self._pygame.display.flip()

    def close(self) -> None:
        """Closes the window. May be called again."""
        self._pygame.display.quit()


def _unsupported(missing: str) -> UnsupportedMode:
    return UnsupportedMode(
        f"render_mode='human' needs {missing}. render_mode='rgb_array' works everywhere and returns images."
    )

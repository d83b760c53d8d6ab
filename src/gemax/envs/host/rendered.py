"""Opens one Gymnasium environment whose `render` returns an image, to film episodes."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from gemax.envs.host.checks import CheckedEnv
from gemax.envs.host.faults import close_in_time, time_limit, timeout_fault
from gemax.envs.host.make import call_maker

MODE = "rgb_array"
"""The render mode that returns images."""


class RenderedEnv(CheckedEnv):
    """A checked environment whose images are checked too. Each of its calls has a time limit."""

    def __init__(self, env: gymnasium.Env, timeout_seconds: float) -> None:
        super().__init__(env, index=0)
        self._timeout = timeout_seconds

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with time_limit(self._timeout, lambda: timeout_fault(self.location(), self._timeout)):
            return super()._call(call, *args, **kwargs)

    def render(self) -> Any:
        """Returns an image of the current state, [height, width, 3]."""
        image = self._call(self.env.render)
        if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3:
            found = f"the shape {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise self._fault(f"render() must return an image of shape (height, width, 3); got {found}")
        return np.asarray(image, np.uint8)


def open_rendered(name: str, make: Callable[..., Any], timeout_seconds: float) -> RenderedEnv:
    """Makes one environment with the render mode rgb_array.

    `make` is called with `render_mode="rgb_array"` if it has such an argument, and without arguments otherwise.

    Raises:
        ValueError: The environment cannot be rendered as images.
    """
    make_rendered = partial(make, render_mode=MODE) if accepts_render_mode(make) else make
    env = call_maker(name, make_rendered, timeout_seconds)
    if isinstance(env, VectorEnv) or env.render_mode != MODE:
        close_in_time(env, name)
        found = "vector environments" if isinstance(env, VectorEnv) else f"render_mode {env.render_mode!r}"
        raise ValueError(
            f"{name} must be rendered with render_mode 'rgb_array' to be filmed; it has {found}. Give the function "
            "that makes it an argument render_mode, or pass another one as make_env."
        )
    assert isinstance(env, gymnasium.Env)
    return RenderedEnv(env, timeout_seconds)


def accepts_render_mode(make: Callable[..., Any]) -> bool:
    """Returns whether a function can be called with the keyword argument `render_mode`."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # some classes in compiled code have no signature
        return False
    return any(
        parameter.kind is parameter.VAR_KEYWORD or parameter.name == "render_mode" for parameter in parameters
    )

"""Gymnasium environments by what a user types: `gym:ID` or `gym:package:ID`."""

import difflib
import importlib
import importlib.util
from functools import partial

import gymnasium
from gymnasium.error import Error

PREFIX = "gym:"

PACKAGES = {
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "ALE/": ("ale_py", "ale-py"),
    "PointMaze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "AntMaze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "Fetch": ("gymnasium_robotics", "gymnasium-robotics"),
}
"""Where well-known ids come from: the module that registers them, and what to install for it."""


def maker_of(name: str) -> partial[gymnasium.Env]:
    """What makes the environment of a name, also in another process.

    Raises:
        ValueError: There is none of that name, or its package is not installed.
    """
    environment = name.removeprefix(PREFIX)
    if ":" not in environment:
        environment = _with_package(environment)
    make = partial(gymnasium.make, environment, disable_env_checker=True)
    module, _, identifier = environment.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gymnasium.spec(identifier)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{name} needs the package {error.name}: install it, or correct its name."
        ) from error
    except Error as error:
        nearest = difflib.get_close_matches(identifier, gymnasium.registry, n=3)
        hint = f" Did you mean {' or '.join(PREFIX + name for name in nearest)}?" if nearest else ""
        raise ValueError(f"Gymnasium knows no environment {identifier!r}.{hint}") from error
    return make


def _with_package(identifier: str) -> str:
    for prefix, (module, package) in PACKAGES.items():
        if identifier.startswith(prefix):
            if importlib.util.find_spec(module) is None:
                raise ValueError(
                    f"{identifier} comes with {package}, which is not installed: pip install {package}"
                )
            return f"{module}:{identifier}"
    return identifier

"""Makes Gymnasium environments from an id (`gym:ID` or `gym:module:ID`) or from a function.

Worker processes import this module, so it does not import JAX.
"""

import difflib
import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import gymnasium
from gymnasium.error import DependencyNotInstalled, Error
from gymnasium.vector import AutoresetMode, VectorEnv

from gemax.envs.host.checks import CheckedEnv
from gemax.envs.host.faults import describe_exception, time_limit, timeout_fault
from gemax.envs.host.minigrid_step import speed_up
from gemax.envs.imports import import_factory, import_from_here
from gemax.envs.registry import GYM_PREFIX, is_factory
from gemax.errors import EnvFault
from gemax.extras import MissingPackageError

MakeEnv: TypeAlias = Callable[[], gymnasium.Env | VectorEnv]
"""Returns a new environment, or a vector environment."""

PACKAGES = {
    "gemax/": ("gemax.integrations.registration", "gemax"),
    "MiniGrid-": ("minigrid", "'gemax[minigrid]'"),
    "BabyAI-": ("minigrid", "'gemax[minigrid]'"),
    "ALE/": ("ale_py", "ale-py"),
    "PointMaze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "AntMaze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "Fetch": ("gymnasium_robotics", "gymnasium-robotics"),
}
"""By prefix of well-known ids: the module that registers them, and what to install with pip."""


def gym_maker(env_id: str) -> Callable[..., Any]:
    """Returns a function that makes the environment with this id. It can be pickled for other processes.

    The id is `gym:ID`, `gym:module:ID`, or `gym:module:function` for a function or class in a module.

    Raises:
        ValueError: The id is not registered, or its package is not installed.
    """
    full_id = env_id.removeprefix(GYM_PREFIX)
    if is_factory(env_id):
        return import_factory(full_id)
    if ":" not in full_id:
        full_id = _with_module(full_id)
    module, _, gym_id = full_id.rpartition(":")
    try:
        if module:
            import_from_here(module)
        gymnasium.spec(gym_id)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{env_id} needs the package {error.name}: install it, or correct its name."
        ) from error
    except Error as error:
        nearest = difflib.get_close_matches(gym_id, gymnasium.registry, n=3)
        hint = f" Did you mean {' or '.join(GYM_PREFIX + known for known in nearest)}?" if nearest else ""
        raise ValueError(f"Gymnasium knows no environment {gym_id!r}.{hint}") from error
    return partial(gymnasium.make, full_id, disable_env_checker=True)


def _with_module(gym_id: str) -> str:
    """Returns `module:ID` for well-known ids, and other ids unchanged."""
    for prefix, (module, package) in PACKAGES.items():
        if gym_id.startswith(prefix):
            if importlib.util.find_spec(module) is None:
                raise MissingPackageError(
                    f"{gym_id} needs {module}, which is not installed: pip install {package}"
                )
            return f"{module}:{gym_id}"
    return gym_id


def call_maker(name: str, make: MakeEnv, timeout_seconds: float = 0.0) -> gymnasium.Env | VectorEnv:
    """Calls a function that makes an environment, and returns the environment.

    Raises:
        ValueError: A package is missing, or the result is not a Gymnasium environment.
        EnvFault: The function raised an exception, or took longer than the time limit, if there is one.
    """
    try:
        with time_limit(
            timeout_seconds, lambda: timeout_fault(f"the constructor of {name}", timeout_seconds)
        ):
            env = make()
    except EnvFault:
        raise
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        raise ValueError(f"{name} needs a package that is not installed: {error}") from error
    except (Exception, SystemExit) as error:
        raise EnvFault(f"{name} could not be made: it {describe_exception(error)}.") from error
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise ValueError(f"{name} must make a gymnasium environment; got {type(env).__name__}.")
    if not isinstance(env, VectorEnv):
        speed_up(env)
    return env


def make_compiled_vector(make: MakeEnv, num_envs: int) -> VectorEnv | None:
    """Makes copies of a gemax environment that are stepped in one compiled call. Returns None for all others.

    They give the same episodes as single copies with the same seeds. Vector environments of other packages may not.
    """
    if not isinstance(make, partial) or make.func is not gymnasium.make:
        return None
    env_id = make.args[0]
    spec = gymnasium.spec(env_id.rpartition(":")[2])
    if spec.namespace != "gemax" or spec.vector_entry_point is None:
        return None
    # The caller resets them, so that no terminal observation is lost and episodes can be truncated.
    return gymnasium.make_vec(
        env_id, num_envs, vectorization_mode="vector_entry_point", autoreset_mode=AutoresetMode.DISABLED
    )


def make_checked_env(name: str, make: MakeEnv, timeout_seconds: float, index: int) -> CheckedEnv:
    """Makes a single environment that is checked in every step."""
    env = call_maker(f"environment {index} of {name}", make, timeout_seconds)
    if isinstance(env, VectorEnv):
        raise ValueError(
            f"{name} must always make the same kind of environment; it made a single and then a vector environment."
        )
    return CheckedEnv(env, index)

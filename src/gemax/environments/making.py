"""Making environments, here and in worker processes: it knows neither jax nor networks."""

from collections.abc import Callable
from typing import TypeAlias

import gymnasium
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import VectorEnv

from gemax.environments.checking import Guard
from gemax.environments.faults import EnvironmentFault, in_words

Make: TypeAlias = Callable[[], gymnasium.Env | VectorEnv]
"""Makes a new environment, or a vector environment of as many as a run asks for."""


def guarded(name: str, make: Make, index: int) -> Guard:
    """One environment, looked at in every step."""
    env = made(f"environment {index} of {name}", make)
    if isinstance(env, VectorEnv):
        raise ValueError(
            f"{name} must make single environments or vector environments, not now one, now the other."
        )
    return Guard(env, index)


def made(name: str, make: Make) -> gymnasium.Env | VectorEnv:
    """A new environment, or words for why there is none."""
    try:
        env = make()
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        raise ValueError(f"{name} needs a package that is not installed: {error}") from error
    except Exception as error:
        raise EnvironmentFault(f"{name} could not be made: it {in_words(error)}.") from error
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise ValueError(f"{name} must make a gymnasium environment; got {type(env).__name__}.")
    return env

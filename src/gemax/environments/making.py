"""Making environments, here and in worker processes: it knows neither jax nor networks."""

import multiprocessing
import signal
from collections.abc import Callable
from typing import TypeAlias

import gymnasium
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import VectorEnv

from gemax.environments.checking import Guard
from gemax.environments.faults import EnvironmentFault

Make: TypeAlias = Callable[[], gymnasium.Env | VectorEnv]
"""Makes a new environment, or a vector environment of as many as a run asks for."""


WORKER = "Worker<AsyncVectorEnv>"
"""What Gymnasium calls its processes."""


def guarded(name: str, make: Make, index: int) -> Guard:
    """One environment, looked at in every step."""
    if multiprocessing.current_process().name.startswith(WORKER):
        # Ctrl-C reaches every process of a terminal. The run stops in its own time, and closes its workers then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    env = made(name, make)
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
        raise EnvironmentFault(f"{name} could not be made: {type(error).__name__}: {error}") from error
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise ValueError(f"{name} must make a gymnasium environment; got {type(env).__name__}.")
    return env

"""Compiles gemax environments by name and settings. All Gymnasium environments of a process share the result."""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from gemax.envs.base import JaxEnv, State
from gemax.envs.gridworld import custom_map
from gemax.envs.maps import read_map
from gemax.envs.registry import ENVS, factory_of
from gemax.integrations.registration import gymnasium_id
from gemax.settings import did_you_mean
from gemax.types import Timestep, tree_where

MAX_COMPILED_ENVS = 64
"""Number of compiled environments that a process keeps. Limits the memory of programs that try many maps."""

FACTORIES: dict[str, Callable[..., JaxEnv]] = {env_id: factory_of(row) for env_id, row in ENVS.items()} | {
    "map": custom_map
}
"""The function that makes each environment. Its arguments are the settings that `gymnasium.make` accepts."""

SETTING_TYPES: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (int, "an integer"),
    float: (Real, "a number"),
}
"""For each annotation in a factory: the type to check, and its description in error messages."""


class EpisodeState(NamedTuple):
    """The current episode of one environment. With a leading axis, those of several environments."""

    key: UInt32[Array, "2"]
    """Raw data of the random key of the next step."""
    state: State
    timestep: Timestep
    info: dict[str, Int[Array, ""]]
    """`cell` and `state` index, in finite environments."""


class CompiledEnv(NamedTuple):
    """An environment and its compiled functions. The `_all` functions are for several environments."""

    env_id: str
    settings: tuple[tuple[str, Any], ...]
    env: JaxEnv
    reset: Callable[[np.ndarray], EpisodeState]
    """`reset(key)`: starts an episode. A key is raw key data: two 32-bit words."""
    step: Callable[[Array, State, np.int32], EpisodeState]
    """`step(key, state, action)`."""
    reset_all: Callable[[np.ndarray], EpisodeState]
    step_all: Callable[[Array, State, np.ndarray], EpisodeState]
    reset_where: Callable[[np.ndarray, np.ndarray, EpisodeState], EpisodeState]
    """`reset_where(mask, keys, current)`: starts an episode where the mask is true."""

    def __reduce__(self):
        # Compiled functions cannot be pickled, so unpickling compiles them again, or finds them in the cache.
        return _compile, (self.env_id, self.settings)


def compiled_env(env_id: str, settings: Mapping[str, Any]) -> CompiledEnv:
    """Returns an environment that is compiled once per process, at its first use.

    Raises:
        ValueError: The environment or a setting is unknown, or a setting is missing or has the wrong type.
    """
    if env_id not in FACTORIES:
        raise ValueError(
            f"env_id must be one of {', '.join(FACTORIES)}; got {env_id!r}.{did_you_mean(env_id, FACTORIES)}"
        )
    _check_settings(env_id, settings)
    if env_id == "map":
        # Read outside of the cache, because the file may have changed.
        settings = {**settings, "map": read_map(settings["map"])}
    return _compile(env_id, tuple(sorted(settings.items())))


@lru_cache(maxsize=MAX_COMPILED_ENVS)
def _compile(env_id: str, settings: tuple[tuple[str, Any], ...]) -> CompiledEnv:
    env = FACTORIES[env_id](**dict(settings))

    def episode_state(key: UInt32[Array, "2"], state: State, timestep: Timestep) -> EpisodeState:
        info = {}
        if env.finite is not None:
            info = {"cell": env.finite.cell_index(state), "state": env.finite.state_index(state)}
        # The next key is the key plus one, because splitting keys would triple the time of a step.
        return EpisodeState(key + jnp.array([0, 1], jnp.uint32), state, timestep, info)

    def reset(key: UInt32[Array, "2"]) -> EpisodeState:
        return episode_state(key, *env.reset(_wrap_key(key)))

    def step(key: UInt32[Array, "2"], state: State, action: Int[Array, ""]) -> EpisodeState:
        return episode_state(key, *env.step(_wrap_key(key), state, action))

    def reset_where(mask: Bool[Array, ""], key: UInt32[Array, "2"], current: EpisodeState) -> EpisodeState:
        return tree_where(mask, reset(key), current)

    return CompiledEnv(
        env_id=env_id,
        settings=settings,
        env=env,
        reset=jax.jit(reset),
        step=jax.jit(step),
        reset_all=jax.jit(jax.vmap(reset)),
        step_all=jax.jit(jax.vmap(step)),
        reset_where=jax.jit(jax.vmap(reset_where)),
    )


def _wrap_key(words: UInt32[Array, "2"]) -> PRNGKeyArray:
    # Names the generator, because JAX has a setting that changes the default.
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _check_settings(env_id: str, settings: Mapping[str, Any]) -> None:
    parameters = inspect.signature(FACTORIES[env_id]).parameters
    for name, value in settings.items():
        if name not in parameters:
            raise ValueError(
                f"{gymnasium_id(env_id)} has no setting {name!r}; it has "
                f"{', '.join(parameters) or 'none'}.{did_you_mean(name, parameters)}"
            )
        expected, description = SETTING_TYPES.get(parameters[name].annotation, (object, ""))
        if not isinstance(value, expected):
            raise ValueError(f"{name} must be {description}; got {value!r}.")
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in settings:
            raise ValueError(f"{gymnasium_id(env_id)} needs the setting {name!r}.")

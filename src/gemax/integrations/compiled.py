"""A world and its settings become compiled functions, shared by all environments of a process."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from gemax.integrations.registration import environment_id
from gemax.types import Timestep
from gemax.worlds.base import State, World
from gemax.worlds.gridworld import gridworld
from gemax.worlds.maps import GridMap, read_map
from gemax.worlds.pixels import ObservationMode
from gemax.worlds.registry import WORLDS

MOST_WORLDS = 64
"""How many compiled worlds a process keeps. One that tries map after map must not fill the memory with them."""


def own_map(
    map: GridMap,  # noqa: A002 (the name that a user types)
    horizon: int,
    observation: ObservationMode = "pixels",
    noise: bool = False,
    reward_free: bool = False,
) -> World:
    """The world of a user's own map."""
    return gridworld("map", map, horizon, observation=observation, noise=noise, reward_free=reward_free)


FACTORIES: dict[str, Callable[..., World]] = WORLDS | {"map": own_map}
"""What makes each registered world. The arguments of these functions are the settings that `make` takes."""

KINDS: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (int, "a whole number"),
    float: (Real, "a number"),
}
"""What a setting must be, where its factory would take anything: the text `no` is true."""


class Moment(NamedTuple):
    """Where an episode stands: all that the next step needs, and all that the last one told."""

    key: UInt32[Array, "2"]
    """Of the next step, in two words."""
    state: State
    timestep: Timestep
    info: dict[str, Int[Array, ""]]
    """In finite worlds, the numbers of the agent's square and of the state."""


class CompiledWorld(NamedTuple):
    """A world and its compiled functions, for all environments of the process that have its name and settings."""

    name: str
    settings: tuple[tuple[str, Any], ...]
    world: World
    begin: Callable[[np.ndarray], Moment]
    """Starts an episode from the two words of its key."""
    proceed: Callable[[Array, State, np.int32], Moment]
    """Takes an action."""
    begin_all: Callable[[np.ndarray], Moment]
    """Starts an episode in every environment."""
    proceed_all: Callable[[Array, State, np.ndarray], Moment]
    """Takes an action in every environment."""
    restart: Callable[[Moment, np.ndarray, np.ndarray], Moment]
    """Starts an episode where the mask says so, and leaves the others where they are."""

    def __reduce__(self):
        # Compiled functions cannot be pickled. Whoever unpickles or copies an environment looks them up again.
        return _compile, (self.name, self.settings)


def compiled_world(name: str, settings: Mapping[str, Any]) -> CompiledWorld:
    """The compiled functions of a world. They are compiled once a process, at their first use."""
    if name not in FACTORIES:
        raise ValueError(
            f"world must be one of {', '.join(FACTORIES)}; got {name!r}.{nearest(name, FACTORIES)}"
        )
    _check_settings(name, settings)
    if name == "map":
        # Read here and not behind the cache: the file may have changed.
        settings = {**settings, "map": read_map(settings["map"])}
    return _compile(name, tuple(sorted(settings.items())))


@lru_cache(maxsize=MOST_WORLDS)
def _compile(name: str, settings: tuple[tuple[str, Any], ...]) -> CompiledWorld:
    world = FACTORIES[name](**dict(settings))

    def moment(key: UInt32[Array, "2"], state: State, timestep: Timestep) -> Moment:
        facts = world.finite
        indices = {} if facts is None else {"square": facts.square_index, "state": facts.state_index}
        return Moment(key, state, timestep, {name: index(state) for name, index in indices.items()})

    def begin(key: UInt32[Array, "2"]) -> Moment:
        return moment(_following(key), *world.reset(_as_key(key)))

    def proceed(key: UInt32[Array, "2"], state: State, action: Int[Array, ""]) -> Moment:
        return moment(_following(key), *world.step(_as_key(key), state, action))

    def restart(now: Moment, is_over: Bool[Array, ""], key: UInt32[Array, "2"]) -> Moment:
        return jax.tree.map(lambda new, old: jnp.where(is_over, new, old), begin(key), now)

    return CompiledWorld(
        name=name,
        settings=settings,
        world=world,
        begin=jax.jit(begin),
        proceed=jax.jit(proceed),
        begin_all=jax.jit(jax.vmap(begin)),
        proceed_all=jax.jit(jax.vmap(proceed)),
        restart=jax.jit(jax.vmap(restart)),
    )


def _as_key(words: UInt32[Array, "2"]) -> PRNGKeyArray:
    # The kind of generator is named, so that no setting of jax changes what a seed means.
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _following(words: UInt32[Array, "2"]) -> UInt32[Array, "2"]:
    # Keys count up, as seeds do from run to run. To split them would triple the time of a step.
    return words + jnp.array([0, 1], jnp.uint32)


def _check_settings(name: str, settings: Mapping[str, Any]) -> None:
    parameters = inspect.signature(FACTORIES[name]).parameters
    for setting, value in settings.items():
        if setting not in parameters:
            raise ValueError(
                f"{environment_id(name)} has no setting {setting!r}; it has "
                f"{', '.join(parameters) or 'none'}.{nearest(setting, parameters)}"
            )
        kind, words = KINDS.get(parameters[setting].annotation, (object, ""))
        if not isinstance(value, kind):
            raise ValueError(f"{setting} must be {words}; got {value!r}.")
    for setting, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and setting not in settings:
            raise ValueError(f"{environment_id(name)} needs the setting {setting!r}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """A question about what was meant, for the end of an error message."""
    matches = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {matches[0]}?" if matches else ""

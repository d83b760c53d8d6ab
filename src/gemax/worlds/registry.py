"""The worlds by name."""

import difflib
from collections.abc import Callable
from pathlib import Path

from gemax.worlds.base import World
from gemax.worlds.cartpole_swingup import cartpole_swingup
from gemax.worlds.gridworld import gridworld
from gemax.worlds.maps import SIXTEEN_LEAVES, TWO_KEYS, TWO_ROOMS, parse_map, read_map
from gemax.worlds.mountain_car import mountain_car
from gemax.worlds.pixels import ObservationMode


def two_rooms(observation: ObservationMode = "pixels", reward_free: bool = False) -> World:
    """2-Rooms: two rooms, one bottleneck, the reward at the far end of the second."""
    return gridworld("two-rooms", parse_map(TWO_ROOMS), 30, observation=observation, reward_free=reward_free)


def two_rooms_noisy(observation: ObservationMode = "pixels", reward_free: bool = False) -> World:
    """2-Rooms with a square of 65,536 random colours in view: entropy that is worth nothing."""
    return gridworld(
        "two-rooms-noisy",
        parse_map(TWO_ROOMS),
        30,
        observation=observation,
        reward_free=reward_free,
        noise=True,
    )


def sixteen_leaves(observation: ObservationMode = "pixels", reward_free: bool = False) -> World:
    """16-Leaves: a tree of corridors, just enough time for one leaf, the reward in any."""
    return gridworld(
        "sixteen-leaves", parse_map(SIXTEEN_LEAVES), 18, observation=observation, reward_free=reward_free
    )


def two_keys(observation: ObservationMode = "pixels", reward_free: bool = False) -> World:
    """2-Keys: 2-Rooms with a door in the bottleneck, and two keys that open it."""
    return gridworld("two-keys", parse_map(TWO_KEYS), 30, observation=observation, reward_free=reward_free)


GRIDWORLDS: dict[str, Callable[..., World]] = {
    "two-rooms": two_rooms,
    "two-rooms-noisy": two_rooms_noisy,
    "sixteen-leaves": sixteen_leaves,
    "two-keys": two_keys,
}
CONTINUOUS: dict[str, Callable[..., World]] = {
    "mountain-car": mountain_car,
    "cartpole-swingup": cartpole_swingup,
}
WORLDS: dict[str, Callable[..., World]] = GRIDWORLDS | CONTINUOUS
"""A factory for each world, by the name that a user types."""


def make_world(name: str, *, observation: ObservationMode = "pixels", reward_free: bool = False) -> World:
    """The world of that name. Vectors are what they are: `observation` is for gridworlds."""
    if name in GRIDWORLDS:
        return GRIDWORLDS[name](observation=observation, reward_free=reward_free)
    if name in CONTINUOUS:
        return CONTINUOUS[name](reward_free=reward_free)
    nearest = difflib.get_close_matches(name, WORLDS, n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    raise ValueError(f"world must be one of {', '.join(WORLDS)}; got {name!r}.{hint}")


def world_of_map(source: str | Path, horizon: int, *, observation: ObservationMode = "pixels") -> World:
    """The world of a user's own map: a file, or ASCII art of several lines."""
    name = Path(source).stem if isinstance(source, Path) or "\n" not in source else "map"
    return gridworld(name, read_map(source), horizon, observation=observation)

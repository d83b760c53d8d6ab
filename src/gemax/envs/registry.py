"""The registered environments: one row per environment, with its title, factory, presets and training budget.

Rows contain the import path of the factory, so that `gemax --help` does not import JAX.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gemax.envs.config import ObservationMode
from gemax.envs.imports import is_qualname
from gemax.settings import did_you_mean, import_function

if TYPE_CHECKING:
    from gemax.envs.base import JaxEnv

GYM_PREFIX = "gym:"
"""The id of a Gymnasium environment is `gym:ID`, or `gym:module:function` for a function that makes one."""
JAX_PREFIX = "jax:"
"""The id of a custom `JaxEnv` is `jax:module:function`."""
CUSTOM = "custom"
"""After a prefix: an environment that a user passes from Python, and that cannot be imported."""

# Settings of 2-Rooms. 2-Rooms with noise and 2-Keys use them too, because the paper's table does not list these two.
PAPER_TWO_ROOMS = {
    "entropy_cost": 1e-3, "intrinsic_shift": 0.005, "intrinsic_scale": 0.005, "unroll_length": 20, "unroll_period": 10,
}  # fmt: skip
# The scales of E3B and RE3 were not searched. Their rewards then have about the standard deviation of GEM's reward.
# Environments without a scale for them use GEM's scale.
LATER_SCALES = {"e3b": 0.005, "re3": 0.01}
# RND's scales were found while its error was divided by its own standard deviation. That of its return is 45 to 105
# times as large in 2-Rooms and MountainCar, and 24 to 84 times with a decay of 0.95 in these and 16-Leaves (one seed,
# up to 200 updates). The scales are multiplied by 50, the ratio in the first updates, so that rewards begin with the
# same size.
LAPTOP_SCALES = {"rnd": 0.5, "ngu": 0.009, "ngu-rnd": 0.003, **LATER_SCALES}
# Environments of users have scales of their own, which no search of the reproduction changes.
CUSTOM_SCALES = {"rnd": 0.5, "ngu": 0.009, "ngu-rnd": 0.003, **LATER_SCALES}
PAPER_SCALES = {"rnd": 0.001, "ngu": 0.0003, "ngu-rnd": 0.0003, **LATER_SCALES}


class EnvRow(NamedTuple):
    """One environment, or one kind of environment (custom maps, Gymnasium)."""

    env_id: str
    title: str
    """Name in plots and tables."""
    factory: str
    """`module:function` in `gemax.envs` that makes the environment. Empty for a kind of environment."""
    laptop: Mapping[str, Any]
    """Settings of the `laptop` preset. Other fields keep their defaults."""
    paper: Mapping[str, Any] = PAPER_TWO_ROOMS
    """Settings of the `paper` preset, `tab:envhyper`."""
    laptop_scales: Mapping[str, float] = LAPTOP_SCALES
    """`intrinsic_scale` of each baseline in the `laptop` preset, from `gemax reproduce tuning`."""
    paper_scales: Mapping[str, float] = PAPER_SCALES
    """`intrinsic_scale` of each baseline in the `paper` preset. The oracle has GEM's scale and shift."""
    is_gridworld: bool = True
    """Whether the environment is made from a map and has the setting `observation`."""
    is_compiled: bool = True
    """Whether the environment is a `JaxEnv`, so that several seeds can be trained in one compiled program."""
    figure_updates: int = 0
    """Number of updates of each run in the figures of `gemax reproduce`, the same for all methods."""


ROWS = (
    EnvRow("two-rooms", "2-Rooms", "gridworld:two_rooms", {"updates": 500}, figure_updates=500),
    EnvRow(
        "two-rooms-noisy",
        "2-Rooms with noise",
        "gridworld:two_rooms_noisy",
        {"updates": 800},
        figure_updates=500,
    ),
    EnvRow(
        "sixteen-leaves",
        "16-Leaves",
        "gridworld:sixteen_leaves",
        laptop={
            "updates": 1800,
            "num_envs": 128,
            "unroll_length": 18,
            "unroll_period": 18,
            "intrinsic_scale": 0.02,
            "intrinsic_shift": 0.02,
            "entropy_cost": 4e-3,
            "vtrace_lambda": 0.97,
        },
        paper={**PAPER_TWO_ROOMS, "unroll_length": 14, "unroll_period": 7},
        laptop_scales={"rnd": 0.5, "ngu": 0.0009, "ngu-rnd": 0.0009},
        figure_updates=1800,
    ),
    EnvRow("two-keys", "2-Keys", "gridworld:two_keys", {"updates": 800}, figure_updates=800),
    EnvRow(
        "mountain-car",
        "MountainCar",
        "mountain_car:mountain_car",
        laptop={
            "updates": 2500,
            "unroll_length": 20,
            "unroll_period": 20,
            "intrinsic_scale": 0.25,
            "intrinsic_shift": 0.7,
            "entropy_cost": 1e-2,
            "discount": 0.99,
        },
        paper={**PAPER_TWO_ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.7, "intrinsic_scale": 0.25},
        laptop_scales={"rnd": 50.0, "ngu": 0.15, "ngu-rnd": 0.07},
        paper_scales={"rnd": 0.1, "ngu": 0.05, "ngu-rnd": 0.07},
        is_gridworld=False,
        figure_updates=1000,
    ),
    EnvRow(
        "cartpole-swingup",
        "CartpoleSwingup",
        "cartpole_swingup:cartpole_swingup",
        laptop={
            "updates": 6000,
            "unroll_length": 20,
            "unroll_period": 20,
            # A step takes only 0.01 seconds. With C = 1 all states count as distinct, and the agent stays still.
            "adjacency_scale": 10.0,
            "intrinsic_scale": 0.15,
            "intrinsic_shift": 0.15,
            "entropy_cost": 2e-2,
            "discount": 0.99,
        },
        paper={**PAPER_TWO_ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.15, "intrinsic_scale": 0.15},
        laptop_scales={"rnd": 3.0, "ngu": 0.02, "ngu-rnd": 0.01},
        paper_scales={"rnd": 0.02, "ngu": 0.02, "ngu-rnd": 0.01},
        is_gridworld=False,
        figure_updates=4500,
    ),
)
ENVS = {row.env_id: row for row in ROWS}

CUSTOM_MAP = ENVS["two-rooms"]._replace(
    env_id="map", title="custom map", laptop={}, laptop_scales=CUSTOM_SCALES, factory=""
)
"""Row of all custom maps."""

GYMNASIUM = CUSTOM_MAP._replace(
    env_id=GYM_PREFIX,
    title="Gymnasium",
    laptop={
        "updates": 500,
        "num_envs": 32,
        "unroll_length": 32,
        "unroll_period": 32,
        # Steps on the host are slow, and updates run at the same time. So every step is used four times, as in PPO.
        "update_epochs": 4,
        "policy_clip": 0.2,
        "discount": 0.99,
        "intrinsic_shift": 0.0,
        # A rollout has as many states as a small map, so that its density alone would be mostly noise.
        "negative_memory_size": 64,
        # A policy that earns a high return explores less and changes less, so that it keeps what it has found.
        "intrinsic_half_life": 50,
        "learning_rate_half_life": 50,
        "horizon": 0,
        "return_scale": 4.0,
    },
    paper={**PAPER_TWO_ROOMS, "intrinsic_shift": 0.0, "return_scale": 1.0},
    is_gridworld=False,
    is_compiled=False,
)
"""Row of all Gymnasium environments."""


CUSTOM_JAX = CUSTOM_MAP._replace(
    env_id=JAX_PREFIX,
    title="custom JAX environment",
    # Rewards of any size, as in Gymnasium environments. Steps are cheap, so there are more of them.
    laptop={
        name: GYMNASIUM.laptop[name]
        for name in ("discount", "intrinsic_shift", "intrinsic_half_life", "return_scale")
    },
    paper=GYMNASIUM.paper,
    is_gridworld=False,
)
"""Row of all `JaxEnv`s that users pass."""


def find_env(env_id: str) -> EnvRow:
    """Returns the row of an environment. Unknown ids are names of custom maps."""
    if env_id.startswith(JAX_PREFIX):
        return CUSTOM_JAX
    return GYMNASIUM if env_id.startswith(GYM_PREFIX) else ENVS.get(env_id, CUSTOM_MAP)


def module_of(env_id: str) -> str | None:
    """Returns the module that an id names to be imported, as in `gym:MODULE:ID`, or None."""
    return _without_prefix(env_id).rpartition(":")[0] or None


def is_factory(env_id: str) -> bool:
    """Returns whether an id names a function, as in `gym:MODULE:FUNCTION`. Registered ids are no Python names."""
    module, _, name = _without_prefix(env_id).rpartition(":")
    return bool(module) and is_qualname(name)


def short_name(env_id: str) -> str:
    """Returns an id without its prefix and, if it names a function, without its module."""
    name = _without_prefix(env_id)
    return name.rpartition(":")[2] if is_factory(env_id) else name


def _without_prefix(env_id: str) -> str:
    return env_id.removeprefix(GYM_PREFIX).removeprefix(JAX_PREFIX)


def make_env(env_id: str, *, observation: ObservationMode = "pixels", reward_free: bool = False) -> "JaxEnv":
    """Makes a gemax environment.

    Args:
        env_id: A name that `gemax envs` lists.
        observation: `pixels` or `cells`. It only applies to gridworlds.
        reward_free: Removes the reward.

    Raises:
        ValueError: `env_id` is not registered.
    """
    row = ENVS.get(env_id)
    if row is None:
        raise ValueError(
            f"environment must be one of {', '.join(ENVS)}; got {env_id!r}.{_suggestion(env_id)}"
        )
    settings: dict[str, Any] = {"observation": observation} if row.is_gridworld else {}
    return factory_of(row)(**settings, reward_free=reward_free)


def _suggestion(env_id: str) -> str:
    """Returns the end of an error message about an unknown environment."""
    if env_id.endswith(".txt"):
        return f" Did you mean --map {env_id}?"
    # Ids of Gymnasium end with a version, and functions are named after their module.
    is_gymnasium = re.search(r"-v\d+$", env_id) or ":" in env_id
    if is_gymnasium:
        return f" Did you mean {GYM_PREFIX}{env_id}?"
    return did_you_mean(env_id, ENVS) or f" Environments of Gymnasium are {GYM_PREFIX}ID."


def factory_of(row: EnvRow) -> Callable[..., "JaxEnv"]:
    """Imports the function that makes an environment."""
    return import_function("gemax.envs", row.factory)

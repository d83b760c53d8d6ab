"""Registers the gemax environments with Gymnasium, without importing JAX or an environment.

Gymnasium 1.0 has no plugin entry points, so something must import this module. `import gymnasium, gemax`,
`import gemax.integrations.gymnasium` and ids such as `gym:gemax/TwoRooms-v0` do.
"""

import gymnasium

from gemax.envs.registry import ENVS

EXPLORE = "gemax.experiments.explore"
DEEP_SEA_SIZES = range(10, 51, 2)
"""The sizes of bsuite's experiment."""


def gymnasium_id(env_id: str) -> str:
    """Returns the Gymnasium id of an environment: `gemax/TwoRooms-v0` for `two-rooms`."""
    return f"gemax/{''.join(word.capitalize() for word in env_id.split('-'))}-v0"


def register_envs() -> None:
    """Registers every environment, and `gemax/Map-v0` for custom maps. Skips ids that are registered already."""
    if gymnasium_id("map") in gymnasium.registry:
        return
    for env_id in (*ENVS, "map"):
        gymnasium.register(
            id=gymnasium_id(env_id),
            entry_point="gemax.integrations.gymnasium:GemaxEnv",
            vector_entry_point="gemax.integrations.gymnasium:GemaxVectorEnv",
            # No `max_episode_steps`: the environments truncate their episodes themselves. Gymnasium's wrapper would
            # also set `truncated` for an episode that terminates on its last step.
            kwargs={"env_id": env_id},
        )
    _register_explore_envs()


def _register_explore_envs() -> None:
    """Registers the environments of `gemax bench explore`. `max_episode_steps` tells the agent their horizon."""
    gymnasium.register("gemax/KeyAndDoor-v0", f"{EXPLORE}.key_and_door:KeyAndDoor", max_episode_steps=120)
    gymnasium.register("gemax/PointMass-v0", f"{EXPLORE}.point_mass:PointMass", max_episode_steps=200)
    for env_id in ("two-rooms", "sixteen-leaves"):
        # One pixel per cell instead of the paper's 8 × 8, which are slow to learn from on a CPU.
        gymnasium.register(
            gymnasium_id(f"{env_id}-cells"),
            "gemax.integrations.gymnasium:GemaxEnv",
            vector_entry_point="gemax.integrations.gymnasium:GemaxVectorEnv",
            kwargs={"env_id": env_id, "observation": "cells"},
        )
    gymnasium.register("gemax/DeepSea-v0", f"{EXPLORE}.deep_sea:DeepSea")
    for size in DEEP_SEA_SIZES:
        gymnasium.register(
            f"gemax/DeepSea-N{size}-v0",
            f"{EXPLORE}.deep_sea:DeepSea",
            max_episode_steps=size,
            kwargs={"size": size},
        )
    # A size that publications use, but MiniGrid does not register.
    gymnasium.register(
        "gemax/MultiRoom-N12-S10-v0",
        "minigrid.envs:MultiRoomEnv",
        kwargs={"minNumRooms": 12, "maxNumRooms": 12, "maxRoomSize": 10},
    )


register_envs()

"""Registers the gemax environments with Gymnasium, without importing JAX or an environment.

Gymnasium 1.0 has no plugin entry points, so something must call `register_envs`. Importing
`gemax.integrations.gymnasium` does.
"""

import gymnasium

from gemax.envs.registry import ENVS


def gymnasium_id(env_id: str) -> str:
    """Returns the Gymnasium id of an environment: `gemax/TwoRooms-v0` for `two-rooms`."""
    return f"gemax/{''.join(word.capitalize() for word in env_id.split('-'))}-v0"


def register_envs() -> None:
    """Registers every environment, and `gemax/Map-v0` for custom maps. Skips ids that are registered already."""
    for env_id in (*ENVS, "map"):
        if gymnasium_id(env_id) in gymnasium.registry:
            continue
        gymnasium.register(
            id=gymnasium_id(env_id),
            entry_point="gemax.integrations.gymnasium:GemaxEnv",
            vector_entry_point="gemax.integrations.gymnasium:GemaxVectorEnv",
            # No `max_episode_steps`: the environments truncate their episodes themselves. Gymnasium's wrapper would
            # also set `truncated` for an episode that terminates on its last step.
            kwargs={"env_id": env_id},
        )

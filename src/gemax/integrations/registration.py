"""Makes the worlds known to Gymnasium by their ids, without loading any of them.

Gymnasium 1.0 dropped the plugin entry points of earlier releases, so somebody has to call `register_worlds`:
`import gemax.integrations.gymnasium` does. Neither jax nor a world is imported here; that waits for the first
`gymnasium.make`.
"""

import gymnasium

NAMES = (
    "two-rooms",
    "two-rooms-noisy",
    "sixteen-leaves",
    "two-keys",
    "mountain-car",
    "cartpole-swingup",
    "map",
)
"""The worlds of `gemax.worlds.registry`, and `map`: a user's own. Written out, as asking the registry takes jax."""


def environment_id(name: str) -> str:
    """What Gymnasium calls a world: `two-rooms` is `gemax/TwoRooms-v0`."""
    return f"gemax/{''.join(word.capitalize() for word in name.split('-'))}-v0"


def register_worlds() -> None:
    """Registers every world. To call it again does no harm."""
    for name in NAMES:
        if environment_id(name) in gymnasium.registry:
            continue
        gymnasium.register(
            id=environment_id(name),
            entry_point="gemax.integrations.gymnasium:WorldEnv",
            vector_entry_point="gemax.integrations.gymnasium:WorldVectorEnv",
            # No `max_episode_steps`: a world truncates its episodes itself, and Gymnasium's wrapper would call an
            # episode truncated that reached its end on the last step.
            kwargs={"world": name},
        )

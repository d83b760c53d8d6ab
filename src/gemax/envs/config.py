"""The environment section of a configuration."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gemax.settings import NonNegative, NonNegativeInt, PositiveInt

ObservationMode: TypeAlias = Literal["cells", "pixels"]
"""How gridworlds are observed: one pixel per cell, or 8 × 8 pixels per cell as in the paper."""


@dataclass(frozen=True)
class EnvConfig:
    """The environment, and how many copies of it are stepped in parallel."""

    env_id: str = "two-rooms"
    """A gemax environment, `gym:ID` for a Gymnasium environment, or, with map_text, a name for the custom map."""
    num_envs: PositiveInt = 64
    """Number of environments stepped in parallel."""
    reward_free: bool = False
    """Hide the extrinsic reward. In gridworlds the reward cell becomes plain floor."""
    observation: ObservationMode = "cells"
    """Observations of gridworlds: `cells` has one pixel per cell, `pixels` has 8 × 8, as in the paper."""
    horizon: NonNegativeInt = 40
    """Episode length of a custom map.
    For Gymnasium environments without max_episode_steps: the expected episode length, or 0 to measure it.
    It scales the policy's time input and limits the episode memories, and truncates no episode but the first ones."""
    map_text: str = ""
    """The custom map as ASCII art. `env_id` is then its name."""
    vectorization_mode: Literal["sync", "async"] = "sync"
    """Step `gym:` environments in this process (`sync`) or in worker processes (`async`).
    `async` is faster for slow environments."""
    num_workers: NonNegativeInt = 0
    """Number of worker processes for `async`. 0 starts four per core."""
    env_timeout: NonNegative = 60.0
    """Seconds that one step of all `gym:` environments, or making one, may take before it counts as a fault.
    0 disables the limit."""
    on_env_fault: Literal["stop", "restart"] = "stop"
    """What to do if a `gym:` environment fails: stop the run, or restart the environment and drop its episode."""
    max_env_restarts: PositiveInt = 10
    """With `restart`: the run stops at the next fault after this many restarts within `env_restart_steps` steps."""
    env_restart_steps: PositiveInt = 1000
    """Number of steps of each environment within which `max_env_restarts` counts."""

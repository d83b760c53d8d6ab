"""The environment section of a configuration."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gemax.settings import Count, NonNegative, NonNegativeInt

ObservationMode: TypeAlias = Literal["cells", "pixels"]
"""How gridworlds are observed: one pixel per cell, or 8 × 8 pixels per cell as in the paper."""


@dataclass(frozen=True)
class EnvConfig:
    """The environment, and how many copies of it are stepped in parallel."""

    env_id: str = "two-rooms"
    """A gemax environment, `gym:ID` for a Gymnasium environment, or the name of a map."""
    num_envs: Count = 64
    """Number of environments stepped in parallel."""
    reward_free: bool = False
    """Hide the extrinsic reward. In gridworlds the reward cell becomes plain floor."""
    observation: ObservationMode = "cells"
    """Observations of gridworlds: `cells` has one pixel per cell, `pixels` has 8 × 8, as in the paper."""
    horizon: NonNegativeInt = 40
    """Episode length of a custom map, or of a Gymnasium environment that does not state it. 0 measures it."""
    map_text: str = ""
    """The custom map as ASCII art. `env_id` is then its name."""
    env_workers: Literal["sync", "async"] = "sync"
    """Step `gym:` environments in this process (`sync`), or in worker processes (`async`), for slow environments."""
    env_processes: NonNegativeInt = 0
    """Number of worker processes for `async`. 0 starts four per core."""
    env_timeout: NonNegative = 60.0
    """Seconds that one step of all `gym:` environments may take before the run stops. 0 disables the limit."""

"""How long the runs of the figures are in the `laptop` preset: as long for all methods, enough for the slow ones."""

from typing import Any

from gemax.training.config import Config, Preset
from gemax.training.presets import configure

UPDATES = {
    "two-rooms": 500,
    "two-rooms-noisy": 500,
    "sixteen-leaves": 1800,
    "two-keys": 800,
    "mountain-car": 1000,
    "cartpole-swingup": 4500,
}


def configured(world: str, preset: Preset, **changes: Any) -> Config:
    """The configuration of a run in a figure. The `paper` preset is as long as the paper's."""
    updates = {"updates": UPDATES[world]} if preset == "laptop" else {}
    return configure(world, preset, **(updates | changes))

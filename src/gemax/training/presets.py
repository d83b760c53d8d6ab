"""Presets: values that go together. Where a preset says nothing of a field, its default in `Config` holds."""

import dataclasses
import difflib
from typing import Any

from gemax.training.config import Config, Preset, is_environment

LAPTOP: dict[str, dict[str, Any]] = {
    "two-rooms": {"updates": 500},
    "two-rooms-noisy": {"updates": 800},
    "sixteen-leaves": {
        "updates": 1800,
        "num_worlds": 128,
        "trace_length": 18,
        "trace_period": 18,
        "intrinsic_scale": 0.02,
        "intrinsic_shift": 0.02,
        "entropy_cost": 4e-3,
        "trace_decay": 0.97,
    },
    "two-keys": {"updates": 800},
    "mountain-car": {
        "updates": 2500,
        "trace_length": 20,
        "trace_period": 20,
        "intrinsic_scale": 0.25,
        "intrinsic_shift": 0.7,
        "entropy_cost": 1e-2,
        "discount": 0.99,
    },
    "cartpole-swingup": {
        "updates": 6000,
        "trace_length": 20,
        "trace_period": 20,
        # Steps of a hundredth of a second: with C = 1 all states look distinct, and the agent lies still.
        "adjacency_scale": 10.0,
        "intrinsic_scale": 0.15,
        "intrinsic_shift": 0.15,
        "entropy_cost": 2e-2,
        "discount": 0.99,
    },
}
"""What the `laptop` preset has for each world."""

ENVIRONMENT: dict[str, Any] = {
    "updates": 2000,
    "num_worlds": 32,
    "trace_length": 32,
    # Steps on the host are dear, and updates go on beside them: every step is learned from four times.
    "trace_period": 8,
    "discount": 0.99,
    "intrinsic_shift": 0.0,
    "horizon": 1000,
}
"""What the `laptop` preset has for `gym:` environments, of which nothing is known."""

PAPER_COMMON: dict[str, Any] = {
    "observation": "pixels",
    "updates": 100_000,
    "num_worlds": 256,
    "torso_size": 256,
    "lstm_size": 256,
    "head_size": 256,
    "embedding_size": 256,
    "learning_rate": 1e-4,
    "reward_learning_rate": 1e-4,
    "adam_beta1": 0.0,
    "adam_beta2": 0.95,
    "similarity_scale": 1.0,
    "num_negatives": 32,
    "huber_exponent": 4.0,
    "regularisation": 1e-4,
    # The rest is in no table; see the notes on the paper.
    "returns": "vtrace",
    "trace_decay": 1.0,
    "advantage": "td",
    "discount": 1.0,
    "huber_offset": 1.0,
    "adjacency_scale": 1.0,
    "hide_time": False,
    "updates_per_call": 2,
}
"""`tab:commonhyper`, and the decisions that it leaves to a reader."""

_PAPER_ROOMS = {
    "entropy_cost": 1e-3,
    "intrinsic_shift": 0.005,
    "intrinsic_scale": 0.005,
    "trace_length": 20,
    "trace_period": 10,
}

PAPER: dict[str, dict[str, Any]] = {
    "two-rooms": _PAPER_ROOMS,
    "two-rooms-noisy": _PAPER_ROOMS,
    "sixteen-leaves": {**_PAPER_ROOMS, "trace_length": 14, "trace_period": 7},
    "two-keys": _PAPER_ROOMS,
    "mountain-car": {
        "entropy_cost": 1e-2,
        "intrinsic_shift": 0.7,
        "intrinsic_scale": 0.25,
        "trace_length": 20,
        "trace_period": 10,
    },
    "cartpole-swingup": {
        "entropy_cost": 1e-2,
        "intrinsic_shift": 0.15,
        "intrinsic_scale": 0.15,
        "trace_length": 20,
        "trace_period": 10,
    },
}
"""`tab:envhyper`; the table has no column for 2-Keys and for noise, which take that of 2-Rooms."""


_PAPER_ROOM_RIVALS = {"rnd": 0.001, "ngu": 0.0003, "ngu-rnd": 0.0003}
PAPER_RIVALS: dict[str, dict[str, float]] = {
    "two-rooms": _PAPER_ROOM_RIVALS,
    "two-rooms-noisy": _PAPER_ROOM_RIVALS,
    "sixteen-leaves": _PAPER_ROOM_RIVALS,
    "two-keys": _PAPER_ROOM_RIVALS,
    "mountain-car": {"rnd": 0.1, "ngu": 0.05, "ngu-rnd": 0.07},
    "cartpole-swingup": {"rnd": 0.02, "ngu": 0.02, "ngu-rnd": 0.01},
}
"""The scale of the rivals' rewards, `tab:envhyper`. The oracle takes GEM's scale and shift."""

_LAPTOP_ROOM_RIVALS = {"rnd": 0.01, "ngu": 0.009, "ngu-rnd": 0.003}
LAPTOP_RIVALS: dict[str, dict[str, float]] = {
    "two-rooms": _LAPTOP_ROOM_RIVALS,
    "two-rooms-noisy": _LAPTOP_ROOM_RIVALS,
    "sixteen-leaves": {"rnd": 0.01, "ngu": 0.0009, "ngu-rnd": 0.0009},
    "two-keys": _LAPTOP_ROOM_RIVALS,
    "mountain-car": {"rnd": 1.0, "ngu": 0.15, "ngu-rnd": 0.07},
    "cartpole-swingup": {"rnd": 0.06, "ngu": 0.02, "ngu-rnd": 0.01},
}
"""What `gemax reproduce tuning` found for this agent; noise and keys take what 2-Rooms has."""


def configure(world: str, preset: Preset = "laptop", **changes: Any) -> Config:
    """The configuration of a preset for a world, with changes. A map of one's own is taken for a kind of 2-Rooms."""
    known = [field.name for field in dataclasses.fields(Config)]
    for name in changes:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"there is no setting {name!r}.{hint}")
    values = _values(world, preset)
    rivals = PAPER_RIVALS if preset == "paper" else LAPTOP_RIVALS
    scale = rivals.get(world, rivals["two-rooms"]).get(changes.get("method", "gem"))
    if scale is not None:
        values = values | {"intrinsic_scale": scale}
    return Config(**{"world": world, "preset": preset, **values, **changes})


def _values(world: str, preset: Preset) -> dict[str, Any]:
    if preset == "paper":
        mean = {"intrinsic_shift": 0.0} if is_environment(world) else {}
        return PAPER_COMMON | PAPER.get(world, _PAPER_ROOMS) | mean
    if is_environment(world):
        return ENVIRONMENT
    # An unknown preset is refused by the configuration, with the names of those there are.
    return LAPTOP.get(world, {})

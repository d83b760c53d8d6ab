"""The configuration of a run, field by field, and the presets."""

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, Literal

Method = Literal["gem", "none"]
Preset = Literal["laptop"]


@dataclass(frozen=True)
class Config:
    """All that a run depends on: it alone repeats the run."""

    world: str = "two-rooms"
    """What to explore."""
    method: Method = "gem"
    """Where the intrinsic reward comes from."""
    preset: Preset = "laptop"
    """Where the other values come from: `laptop` learns in a minute on two cores."""
    seed: int = 0
    observation: Literal["squares"] = "squares"
    """What gridworlds show: a pixel a square."""
    reward_free: bool = False
    """Explore with no extrinsic reward at all; gridworlds then have plain floor where it lay."""
    map_text: str = ""
    """The map of a world of one's own, as ASCII art; `world` is then its name."""
    horizon: int = 40
    """The length of an episode on a map of one's own."""

    updates: int = 500
    """How many updates a run has."""
    num_worlds: int = 64
    """How many worlds run side by side; one half is contrasted with the other."""
    trace_length: int = 30
    """How many steps of each world the actor-critic learns from in an update."""
    trace_period: int = 30
    """How many of them are new; fewer than the length makes older ones off-policy."""
    updates_per_call: int = 10
    """How many updates are compiled into one call: between calls a run can be stopped, saved and watched."""

    torso_size: int = 256
    lstm_size: int = 64
    head_size: int = 64
    embedding_size: int = 32
    """The size of f(x)."""
    time_buckets: int = 16
    """Into how many soft buckets the time is cut for the policy."""

    learning_rate: float = 3e-4
    """Of policy and value."""
    reward_learning_rate: float = 1e-3
    """Of f and g: the policy chases what g has not yet learned to discount."""
    adam_beta1: float = 0.0
    adam_beta2: float = 0.95
    largest_gradient: float = 0.0
    """Gradients are cut to this norm; 0 leaves them as they are."""

    discount: float = 1.0
    """γ."""
    returns: Literal["averaged", "vtrace"] = "vtrace"
    advantage: Literal["td", "return"] = "return"
    trace_decay: float = 0.95
    """λ of V-trace."""
    entropy_cost: float = 1e-3
    """w_ent: what an even choice of actions is worth."""

    similarity: Literal["learned", "exponential", "indicator"] = "learned"
    similarity_scale: float = 1.0
    """c."""
    alpha: float = 1.0
    """Tsallis index; 1 is Shannon."""
    num_negatives: int = 0
    """n_neg; 0 takes all of the other half."""
    huber_offset: float = 1.0
    """δ of the adjacency regulariser."""
    huber_exponent: float = 4.0
    """q of the adjacency regulariser."""
    adjacency_scale: float = 1.0
    """C of the adjacency regulariser; 0 switches it off."""
    regularisation: float = 1e-4
    """w_reg."""
    intrinsic_scale: float = 0.005
    """s: the standard deviation of the intrinsic reward."""
    intrinsic_shift: float = 0.005
    """m: the mean of the intrinsic reward."""
    anneal_updates: int = 0
    """Over how many updates the intrinsic reward goes down to zero; 0 keeps it."""
    hide_time: bool = True
    """Whether time in an observation vector is kept from f and g, where it is free entropy."""

    visit_decay: float = 0.99
    """Of the moving average of visits."""
    checkpoint_every: int = 100
    """Updates between checkpoints."""
    keep_checkpoints: int = 3

    def __post_init__(self) -> None:
        """Refuses what cannot be, by name."""
        for name in (
            "updates",
            "num_worlds",
            "trace_length",
            "trace_period",
            "updates_per_call",
            "checkpoint_every",
            "keep_checkpoints",
            "horizon",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.method == "gem" and self.num_worlds < 8:
            raise ValueError(
                f"num_worlds must be at least 8 for gem, half of them for negatives; got {self.num_worlds}."
            )
        if self.trace_period > self.trace_length:
            raise ValueError(
                f"trace_period must be at most trace_length ({self.trace_length}); got {self.trace_period}."
            )
        if self.trace_period < self.trace_length and self.returns != "vtrace":
            raise ValueError(
                f"returns must be vtrace where trace_period ({self.trace_period}) is shorter than trace_length "
                f"({self.trace_length}): steps are used again under a newer policy; got {self.returns}."
            )
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")

    @property
    def frames_per_update(self) -> int:
        """New steps in an update, over all worlds."""
        return self.num_worlds * self.trace_period


CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("gem", "none"),
    "preset": ("laptop",),
    "observation": ("squares",),
    "returns": ("averaged", "vtrace"),
    "advantage": ("td", "return"),
    "similarity": ("learned", "exponential", "indicator"),
}

LAPTOP: dict[str, dict[str, Any]] = {
    "two-rooms": {"updates": 600},
    "two-rooms-noisy": {"updates": 1000},
    "sixteen-leaves": {
        "updates": 2500,
        "num_worlds": 128,
        "trace_length": 18,
        "trace_period": 18,
        "intrinsic_scale": 0.02,
        "intrinsic_shift": 0.02,
        "entropy_cost": 4e-3,
        "trace_decay": 0.97,
    },
    "two-keys": {"updates": 1200},
    "mountain-car": {
        "updates": 6000,
        "trace_length": 20,
        "trace_period": 20,
        "intrinsic_scale": 0.25,
        "intrinsic_shift": 0.7,
        "entropy_cost": 1e-2,
        "discount": 0.99,
    },
    "cartpole-swingup": {
        "updates": 8000,
        "trace_length": 20,
        "trace_period": 20,
        "intrinsic_scale": 0.3,
        "intrinsic_shift": 0.3,
        "entropy_cost": 2e-2,
        "discount": 0.99,
    },
}
"""What differs from world to world in the `laptop` preset; where nothing stands, the defaults above."""


def laptop(world: str, **changes: Any) -> Config:
    """The `laptop` preset for a world, with changes."""
    known = [field.name for field in dataclasses.fields(Config)]
    for name in changes:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"there is no setting {name!r}.{hint}")
    return Config(**{"world": world, **LAPTOP.get(world, {}), **changes})


def config_from(fields: dict[str, Any]) -> Config:
    """A configuration from what `config.json` holds; unknown and missing fields are refused by name."""
    known = {field.name for field in dataclasses.fields(Config)}
    unknown, missing = sorted(set(fields) - known), sorted(known - set(fields))
    if unknown or missing:
        raise ValueError(
            f"the configuration has unknown fields ({', '.join(unknown) or 'none'}) or lacks some "
            f"({', '.join(missing) or 'none'}): was it written by another version?"
        )
    return Config(**fields)

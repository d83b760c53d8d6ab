"""The configuration of a run, field by field. `presets` has the values that go together."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from gemax.core.checks import check_alpha, check_fraction, check_not_negative, check_positive

Method = Literal["gem", "rnd", "ngu", "ngu-rnd", "oracle", "none", "own"]
Preset = Literal["laptop", "paper"]


@dataclass(frozen=True)
class Config:
    """All that a run depends on: it alone repeats the run."""

    world: str = "two-rooms"
    """What to explore."""
    method: Method = "gem"
    """Where the intrinsic reward comes from; own is a module from Python."""
    preset: Preset = "laptop"
    """Where the other values come from: `laptop` learns in a minute on two cores, `paper` has the paper's tables."""
    seed: int = 0
    seeds: int = 1
    """How many seeds are trained together: `seed` and those after it."""
    grouped: bool = False
    """Whether this run is one seed of a group: rounding may then differ from that of a lone one."""
    observation: Literal["squares", "pixels"] = "squares"
    """What gridworlds show: a pixel a square, or the paper's 8 x 8 pixels a square, which go through convolutions."""
    reward_free: bool = False
    """Explore with no extrinsic reward at all; gridworlds then have plain floor where it lay."""
    start_from: str = ""
    """A run whose networks this one starts with; where the method stays, with what its reward has learned too."""
    start_update: int = 0
    """The update that run had reached, from its newest good checkpoint."""
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
    policy_every: int = 1
    """n of `sec:sweep2timescale`: policy and value learn in every n-th update only, the intrinsic reward in all."""
    updates_per_call: int = 10
    """How many updates are compiled into one call: between calls a run can be stopped, saved and watched."""

    torso_size: int = 256
    lstm_size: int = 64
    head_size: int = 64
    embedding_size: int = 32
    """The size of f(x)."""
    time_buckets: int = 16
    """Into how many soft buckets the time is cut for the policy."""

    learning_rate: float = 1e-3
    """Of policy and value."""
    reward_learning_rate: float = 1e-3
    """Of f and g: no smaller than the policy's, which chases what g has not yet learned to discount."""
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

    similarity: Literal["learned", "exponential", "indicator", "own"] = "learned"
    """Learned by f; or given: of observations by their distance, by being the same, or by a function from Python."""
    similarity_scale: float = 1.0
    """c."""
    alpha: float = 1.0
    """Tsallis index; 1 is Shannon."""
    num_negatives: int = 0
    """n_neg; 0 takes all of the other half."""
    per_episode: bool = False
    """Whether GEM evens out the visits of each episode, not of all together: for worlds that are new every time."""
    episode_memory: int = 128
    """How many visits of an episode `per_episode` looks back to."""
    huber_offset: float = 1.0
    """δ of the adjacency regulariser."""
    huber_exponent: float = 4.0
    """q of the adjacency regulariser."""
    adjacency_scale: float = 1.0
    """C of the adjacency regulariser; 0 switches it off."""
    regularisation: float = 1e-4
    """w_reg."""
    intrinsic_scale: float = 0.005
    """s: the standard deviation of the intrinsic reward; RND's and NGU's are multiplied with it."""
    intrinsic_shift: float = 0.005
    """m: the mean of the intrinsic reward. In our own worlds RND and NGU have none."""
    normalise: bool = True
    """Whether GEM's reward is standardised before it is scaled and shifted."""
    scale_rewards: bool = True
    """Whether rewards of `gym:` environments are scaled so that no recent episode has earned or lost more than one."""
    anneal_updates: int = 0
    """Over how many updates the intrinsic reward goes down to zero; 0 keeps it."""
    hide_time: bool = True
    """Whether time in an observation vector is kept from f and g, where it is free entropy."""

    visit_decay: float = 0.99
    """Of the moving average of visits."""
    checkpoint_every: int = 100
    """Updates between checkpoints."""
    keep_checkpoints: int = 3

    env_workers: Literal["sync", "async"] = "sync"
    """How `gym:` environments are stepped: one after the other, or by several processes, which pays for slow ones."""
    env_processes: int = 0
    """By how many processes; 0 is four a core, which suits environments that compute as well as those that wait."""
    env_timeout: float = 60.0
    """Seconds that a step of all `gym:` environments may take before the run is stopped; 0 waits for ever."""

    def __post_init__(self) -> None:
        """Refuses what cannot be, by name."""
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}.")
        for name in POSITIVE:
            check_positive(name, getattr(self, name))
        for name in NOT_NEGATIVE:
            check_not_negative(name, getattr(self, name))
        for name in FRACTIONS:
            check_fraction(name, getattr(self, name))
        check_alpha(self.alpha)
        if self.grouped and self.seeds > 1:
            raise ValueError(f"seeds must be 1 for one seed of a group; got {self.seeds}.")
        if self.per_episode and self.method != "gem":
            raise ValueError(f"per_episode is for method gem; got {self.method}.")
        if self.method == "gem" and not self.per_episode and self.num_worlds < 8:
            raise ValueError(
                f"num_worlds must be at least 8 for gem, half of them for negatives; got {self.num_worlds}."
            )
        if self.seeds > 1 and is_environment(self.world):
            raise ValueError(f"seeds must be 1 for {self.world}: only worlds of gemax are trained together.")
        if self.trace_period > self.trace_length:
            raise ValueError(
                f"trace_period must be at most trace_length ({self.trace_length}); got {self.trace_period}."
            )
        if self.trace_period < self.trace_length and self.returns != "vtrace":
            raise ValueError(
                f"returns must be vtrace where trace_period ({self.trace_period}) is shorter than trace_length "
                f"({self.trace_length}): steps are used again under a newer policy; got {self.returns}."
            )

    @property
    def frames_per_update(self) -> int:
        """New steps in an update, over all worlds."""
        return self.num_worlds * self.trace_period


COUNTS = (
    "seeds", "updates", "num_worlds", "trace_length", "trace_period", "policy_every", "updates_per_call",
    "checkpoint_every", "keep_checkpoints", "horizon", "episode_memory", "torso_size", "lstm_size", "head_size",
    "embedding_size", "time_buckets",
)  # fmt: skip
POSITIVE = ("learning_rate", "reward_learning_rate", "similarity_scale", "huber_exponent")
NOT_NEGATIVE = (
    "seed", "start_update", "largest_gradient", "entropy_cost", "num_negatives", "huber_offset", "adjacency_scale",
    "regularisation", "intrinsic_scale", "intrinsic_shift", "anneal_updates", "env_timeout", "env_processes",
)  # fmt: skip
FRACTIONS = ("discount", "trace_decay", "adam_beta1", "adam_beta2", "visit_decay")

CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("gem", "rnd", "ngu", "ngu-rnd", "oracle", "none", "own"),
    "preset": ("laptop", "paper"),
    "observation": ("squares", "pixels"),
    "returns": ("averaged", "vtrace"),
    "advantage": ("td", "return"),
    "similarity": ("learned", "exponential", "indicator", "own"),
    "env_workers": ("sync", "async"),
}

ADDED: dict[str, Any] = {
    "env_workers": "sync", "env_processes": 0, "env_timeout": 60.0, "start_from": "", "start_update": 0,
    "per_episode": False, "episode_memory": 128, "scale_rewards": False,
}  # fmt: skip
"""Fields that older runs do not have, and what was done before there were any."""


def is_environment(world: str) -> bool:
    """Whether a name stands for a Gymnasium environment, stepped on the host."""
    return world.startswith("gym:")


def config_from(fields: dict[str, Any]) -> Config:
    """A configuration from what `config.json` holds; unknown and missing fields are refused by name."""
    fields = ADDED | fields
    known = {field.name for field in dataclasses.fields(Config)}
    unknown, missing = sorted(set(fields) - known), sorted(known - set(fields))
    if unknown or missing:
        raise ValueError(
            f"the configuration has unknown fields ({', '.join(unknown) or 'none'}) or lacks some "
            f"({', '.join(missing) or 'none'}): was it written by another version?"
        )
    return Config(**fields)

"""The configuration of a run: four sections, each documented field by field. `configure` applies a preset."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gemax.agent.config import AgentConfig
from gemax.envs.config import EnvConfig
from gemax.envs.registry import find_env
from gemax.rewards.config import IntrinsicConfig
from gemax.settings import (
    CheckpointName,
    Fraction,
    NonNegativeInt,
    PositiveInt,
    Seed,
    check_fields,
    check_seed,
    check_values,
    field_names,
)

NUM_RETURNS = 1000
"""The metric `return` is the mean over this many of the last episodes."""
NUM_RECENT_RETURNS = 100
"""The metric `recent_return` is the mean over this many of the last episodes."""
Preset: TypeAlias = Literal["laptop", "paper"]


@dataclass(frozen=True)
class RunConfig:
    """Length, seeds, checkpoints and bookkeeping of a run."""

    preset: Preset = "laptop"
    """Defaults of all other fields: `laptop` learns in minutes on two cores, `paper` has the paper's settings."""
    seed: Seed = 0
    """Random seed, or the first one of several."""
    seeds: PositiveInt = 1
    """Number of seeds to train, starting from `seed`. `gym:` environments have a process for each."""
    updates: PositiveInt = 500
    """Number of updates."""
    stop_at_return: float | None = None
    """Stop earlier, once the mean return of the last 100 episodes is at least this. With several seeds, every seed must
    reach it."""
    updates_per_call: PositiveInt = 10
    """Updates per call of the compiled training function. Metrics, checkpoints and Ctrl-C are handled between calls."""
    checkpoint_every: PositiveInt = 100
    """Updates between checkpoints."""
    keep_checkpoints: PositiveInt = 3
    """Number of newest checkpoints to keep."""
    visitation_decay: Fraction = 0.99
    """Decay per update of the moving average of cell visits."""
    start_from: str = ""
    """Run directory to copy the networks from, and the intrinsic reward if the method is the same."""
    start_checkpoint: CheckpointName = "newest"
    """Checkpoint of `start_from` to copy: newest, best or the number of an update."""
    start_update: NonNegativeInt = 0
    """Update of the checkpoint that `start_from` was read from."""
    grouped: bool = False
    """Whether this run is one seed of several that were trained together."""


@dataclass(frozen=True)
class Config:
    """All settings of a run. Repeating a run needs nothing else, except custom parts.

    Field names are unique over all sections, so that flags and keyword arguments need no section.
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    intrinsic: IntrinsicConfig = field(default_factory=IntrinsicConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Checks every field, then the fields that depend on each other."""
        env, agent, intrinsic, run = self.env, self.agent, self.intrinsic, self.run
        for section in (env, agent, intrinsic, run):
            check_fields(section)
        check_seed("the last seed", self.all_seeds[-1])
        if run.grouped and run.seeds > 1:
            raise ValueError(f"seeds must be 1 for one seed of a group; got {run.seeds}.")
        if run.start_checkpoint != "newest" and not run.start_from:
            raise ValueError(
                f"start_checkpoint is for start_from, which is empty; got {run.start_checkpoint}."
            )
        if intrinsic.method == "gem" and intrinsic.episodic_weight != 1 and env.num_envs < 8:
            raise ValueError(
                f"num_envs must be at least 8 for gem: negatives come from other environments; got {env.num_envs}."
            )
        if env.num_envs % agent.num_minibatches:
            raise ValueError(
                f"num_minibatches must divide num_envs ({env.num_envs}); got {agent.num_minibatches}."
            )
        if agent.unroll_period > agent.unroll_length:
            raise ValueError(
                f"unroll_period must be at most unroll_length ({agent.unroll_length}); got {agent.unroll_period}."
            )

    @property
    def is_compiled(self) -> bool:
        """Whether the environment runs inside of the compiled training loop. Others are stepped in Python."""
        return find_env(self.env.env_id).is_compiled

    @property
    def frames_per_update(self) -> int:
        """New steps per update, over all environments."""
        return self.env.num_envs * self.agent.unroll_period

    @property
    def all_seeds(self) -> range:
        """The random seeds of the run."""
        return range(self.run.seed, self.run.seed + self.run.seeds)

    @property
    def flat(self) -> dict[str, Any]:
        """All fields by name, without their sections."""
        return {name: value for section in SECTIONS for name, value in vars(getattr(self, section)).items()}

    def replace(self, **settings: Any) -> "Config":
        """Returns a configuration with some fields changed. Fields are named without their section."""
        changes: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        for name, value in settings.items():
            changes[SECTION_OF[name]][name] = value
        return Config(
            **{name: dataclasses.replace(getattr(self, name), **new) for name, new in changes.items()}
        )

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Returns the content of `config.json`."""
        return dataclasses.asdict(self)


SECTIONS = {"env": EnvConfig, "agent": AgentConfig, "intrinsic": IntrinsicConfig, "run": RunConfig}
SECTION_OF = {name: section for section, fields in SECTIONS.items() for name in field_names(fields)}
"""The section of every field."""


SAFE_FIELDS = (
    "updates", "stop_at_return", "checkpoint_every", "keep_checkpoints", "learning_rate", "reward_learning_rate",
    "entropy_cost", "intrinsic_scale", "intrinsic_shift", "vectorization_mode", "num_workers", "env_timeout",
)  # fmt: skip
"""Fields that can be changed when a run is resumed, because its state and its metrics keep their meaning."""


UNTRACED_FIELDS = (
    "preset", "seed", "updates", "stop_at_return", "updates_per_call", "checkpoint_every", "keep_checkpoints",
    "start_from", "start_checkpoint", "start_update", "grouped",
)  # fmt: skip
"""Fields that no compiled program reads. The seed and the number of updates per call are given to them."""


def traced_settings(config: Config) -> dict[str, Any]:
    """Returns the fields that compiled programs depend on."""
    return {name: value for name, value in config.flat.items() if name not in UNTRACED_FIELDS}


def check_changeable(name: str) -> None:
    """Raises ValueError if a field cannot be changed in a run that exists."""
    if name not in SAFE_FIELDS:
        raise ValueError(
            f"{name} cannot be changed in a run that exists. Train a new run that starts from it (--from RUN), or "
            f"change one of these: {', '.join(SAFE_FIELDS)}."
        )


def safe_changes(stored: Config, config: Config) -> dict[str, Any]:
    """Returns the fields that differ from a stored configuration, among those that can be changed."""
    old, new = stored.flat, config.flat
    return {name: new[name] for name in SAFE_FIELDS if new[name] != old[name]}


def config_from_json(content: dict[str, Any]) -> Config:
    """Reads the content of `config.json`.

    Raises:
        ValueError: Fields are unknown or missing, or a value is not allowed.
    """
    found = {
        (section, name)
        for section, fields in content.items()
        for name in (fields if isinstance(fields, dict) else [])
    }
    known = {(section, name) for name, section in SECTION_OF.items()}
    unknown, missing = (
        sorted(".".join(field) for field in names) for names in (found - known, known - found)
    )
    if unknown or missing or content.keys() != SECTIONS.keys():
        raise ValueError(
            f"the configuration has unknown fields ({', '.join(unknown) or 'none'}) or lacks some "
            f"({', '.join(missing) or 'none'}). Was it written by another version?"
        )
    for section, fields in SECTIONS.items():
        check_values(fields, content[section])
    return Config(**{section: fields(**content[section]) for section, fields in SECTIONS.items()})

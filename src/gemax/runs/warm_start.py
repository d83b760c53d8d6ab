"""The first state of a run: random, or warm-started from another run.

A warm start copies the networks, the moments of observations and, if the method is the same, the intrinsic reward.
Everything else is new. Optimiser states are not copied, because their gradients had another reward.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gemax.errors import CheckpointError
from gemax.runs.best_checkpoint import why_there_is_no_best
from gemax.runs.checkpoints import LoadedCheckpoint, NoBestError, load_arrays
from gemax.runs.run_directory import RunDirectory
from gemax.runs.seed_directories import seed_folders
from gemax.training.config import Config, config_from_json
from gemax.training.learn import Trainer
from gemax.training.loop import initial_states
from gemax.training.state import TrainState

AGENT_SIZES = ("observation", "torso_size", "lstm_size", "head_size", "time_buckets")
"""Settings that decide the shapes of policy and value."""
METHODS_WITH_EMBEDDING = ("gem", "ngu", "ngu-rnd", "e3b", "re3")
REWARD_SETTINGS = ("method", "similarity", "episodic_weight")
"""The state of an intrinsic reward is copied only if these settings are equal."""
_NEW_REWARD_FIELDS = re.compile(r"\.(opt_state|memory|visits|reward_moments|intrinsic_return)\b")
"""Fields of an intrinsic reward that are not copied: past episodes, visits, sums of errors, moments of rewards."""
_OBSERVATION_MEAN, _LSTM_INPUT = ".observation_moments.mean", ".parameters['lstm']['input']"


def first_state(trainer: Trainer, log: Callable[[str], None]) -> tuple[Trainer, TrainState]:
    """Returns the state before the first update, and the trainer with the source of a warm start in its configuration.

    With a warm start, all seeds start from the same networks.

    Raises:
        ValueError: The source is not a run, holds several seeds, or has networks of other shapes.
        CheckpointError: The source does not have the checkpoint.
    """
    config = trainer.config
    if not config.run.start_from:
        return trainer, initial_states(trainer)
    path = Path(config.run.start_from)
    source = _source_config(path)
    loaded = _source_checkpoint(RunDirectory(path), source, config.run.start_checkpoint)
    for message in loaded.messages:
        log(message)
    # Checked before compiling, which is slow.
    _check_shapes(path, source, loaded.tree, trainer)
    state = _copy_learned(path, source, loaded.tree, trainer, initial_states(trainer))
    config = config.replace(start_from=str(path.resolve()), start_update=loaded.update)
    return trainer._replace(config=config), state


def _source_config(path: Path) -> Config:
    config = config_from_json(RunDirectory(path).read_config())
    if config.run.seeds > 1:
        raise ValueError(
            f"{path} holds several seeds. Start from one of its folders: {seed_folders(config)}."
        )
    return config


def _source_checkpoint(run: RunDirectory, source: Config, checkpoint: str) -> LoadedCheckpoint:
    choice: Any = int(checkpoint) if checkpoint.isdecimal() else checkpoint
    try:
        return load_arrays(run.checkpoints, choice)
    except NoBestError as error:
        raise CheckpointError(why_there_is_no_best(run, source)) from error


def _copy_learned(
    path: Path, source: Config, learned: dict[str, Any], trainer: Trainer, fresh: TrainState
) -> TrainState:
    """Returns the fresh state with the leaves that a warm start copies."""
    config = trainer.config
    copies_reward = all(source.flat[name] == config.flat[name] for name in REWARD_SETTINGS)
    # The moments of a finite environment are computed from all its observations.
    copies_observation_moments = trainer.finite is None

    def choose(keys: Any, leaf: jax.Array) -> jax.Array:
        name = jax.tree_util.keystr(keys)
        if not is_copied(name, copies_reward, copies_observation_moments):
            return leaf
        shape = leaf.shape if config.run.seeds == 1 else leaf.shape[1:]
        if name not in learned or learned[name].shape != shape:
            found = f"the shape {learned[name].shape}" if name in learned else "nothing of that name"
            raise ValueError(f"{name} must have the shape {shape} to be copied from {path}; it has {found}.")
        return leaf.at[...].set(learned[name])

    state = jax.tree_util.tree_map_with_path(choose, fresh)
    if not source.env.reward_free or source.run.start_from:
        return state
    # The source never had a reward, so its weights of the reward input are untrained.
    return state._replace(parameters=trainer.network.ignore_reward(state.parameters))


def is_copied(name: str, copies_reward: bool, copies_observation_moments: bool) -> bool:
    """Returns whether a leaf of the state is copied from the source.

    The value head is always copied. With another reward its values are wrong, but so are those of a new head.
    """
    if name.startswith(".parameters"):
        return True
    if name.startswith(".reward"):
        return copies_reward and not _NEW_REWARD_FIELDS.search(name)
    return copies_observation_moments and name.startswith(".observation_moments")


def _check_shapes(path: Path, source: Config, learned: dict[str, Any], trainer: Trainer) -> None:
    """Refuses a source with other network shapes. Errors name the setting that differs if possible."""
    config, method = trainer.config, trainer.config.intrinsic.method
    embeds = method == source.intrinsic.method and method in METHODS_WITH_EMBEDDING
    for name in (*AGENT_SIZES, "embedding_size") if embeds else AGENT_SIZES:
        expected, got = source.flat[name], config.flat[name]
        if got != expected:
            raise ValueError(f"{name} must be {expected}, as in {path}; got {got}.")
    shape, expected = np.shape(trainer.observation_moments.mean), np.shape(learned[_OBSERVATION_MEAN])
    if shape != expected:
        raise ValueError(
            f"observations must have the shape {expected}, as in {path}; those of {config.env.env_id} have {shape}."
        )
    # The input kernel has one row per action, and rows for torso, reward and time, which are equal in number.
    others = config.agent.torso_size + 1 + config.agent.time_buckets
    actions, expected = trainer.spec.actions.num_inputs, learned[_LSTM_INPUT].shape[0] - others
    if actions != expected:
        raise ValueError(f"actions must be {expected}, as in {path}; {config.env.env_id} has {actions}.")

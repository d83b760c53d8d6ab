"""The first state of a run: from nothing, or from what another run has learned.

Networks are taken over, and what goes with them: the centring of observations, and the intrinsic reward where the
method stays. All else starts anew, optimisers too: their moments are of gradients under another reward.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gemax.runs.checkpoints import load_leaves
from gemax.runs.directory import CONFIG, RunDirectory
from gemax.runs.seeds import begin_seeds, seeds_of
from gemax.training.config import Config, config_from
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

SIZES = ("observation", "torso_size", "lstm_size", "head_size", "time_buckets")
"""Settings that decide the shape of policy and value."""
WITH_EMBEDDING = ("gem", "ngu", "ngu-rnd")
OF_THE_REWARD = ("method", "similarity", "per_episode")
"""Settings that decide what an intrinsic reward means: only where all stay is it taken over."""
_NEW = re.compile(r"\.(optimiser|memory|recent|visits|paid)\b")
"""Fields of an intrinsic reward that start anew: episodes that it remembers are over, places may be others, and what it
has paid was scaled as that run said."""
_CENTRING, _INPUT = ".centring.mean", ".parameters['lstm']['input']"


def begin_run(trainer: Trainer) -> tuple[Trainer, TrainState, list[str]]:
    """The state before the first update, stacked for several seeds; the trainer, whose configuration says where that
    comes from; and what a user should know.

    All seeds of a group start with the same networks.

    Raises:
        ValueError: The other run is none, holds several seeds, or has networks of other shapes.
    """
    config = trainer.config
    if not config.start_from:
        return trainer, begin_seeds(trainer), []
    path = Path(config.start_from)
    source = _config_of(path)
    learned = load_leaves(RunDirectory(path).checkpoints)
    # Before anything is compiled, which takes a while.
    _refuse_other_shapes(path, source, learned.arrays, trainer)
    state = _inherited(path, source, learned.arrays, trainer, begin_seeds(trainer))
    config = dataclasses.replace(config, start_from=str(path.resolve()), start_update=learned.update)
    return trainer._replace(config=config), state, learned.messages


def _config_of(path: Path) -> Config:
    if not (path / CONFIG).is_file():
        raise ValueError(f"{path} holds no run to start from: {CONFIG} is missing.")
    config = config_from(RunDirectory(path).read_config())
    if config.seeds > 1:
        folders = ", ".join(f"seed-{seed}" for seed in seeds_of(config))
        raise ValueError(f"{path} holds several seeds. Start from one of those below it: {folders}.")
    return config


def _inherited(
    path: Path, source: Config, learned: dict[str, Any], trainer: Trainer, fresh: TrainState
) -> TrainState:
    """The fresh state with the leaves that are taken over in it."""
    keeps_reward = all(getattr(source, name) == getattr(trainer.config, name) for name in OF_THE_REWARD)
    # The images of a map are all known, and centred by themselves: what was new in them would be far off otherwise.
    keeps_centring = trainer.world.finite is None

    def choose(keys: Any, leaf: jax.Array) -> jax.Array:
        name = jax.tree_util.keystr(keys)
        if not is_taken(name, keeps_reward, keeps_centring):
            return leaf
        shape = leaf.shape if trainer.config.seeds == 1 else leaf.shape[1:]
        if name not in learned or learned[name].shape != shape:
            there = f"the shape {learned[name].shape}" if name in learned else "nothing of that name"
            raise ValueError(f"{name} must have the shape {shape} to be taken from {path}; it has {there}.")
        return leaf.at[...].set(learned[name])

    state = jax.tree_util.tree_map_with_path(choose, fresh)
    if not source.reward_free or source.start_from:
        return state
    # Where no reward was ever seen, the weights of that input are still what chance made them.
    return state._replace(parameters=trainer.network.ignore_reward(state.parameters))


def is_taken(name: str, keeps_reward: bool, keeps_centring: bool) -> bool:
    """Whether a leaf comes from the other run.

    Values are taken over even where their reward is dropped: a new head would be wrong as well, and by chance.
    """
    if name.startswith(".parameters"):
        return True
    if name.startswith(".reward"):
        return keeps_reward and not _NEW.search(name)
    return keeps_centring and name.startswith(".centring")


def _refuse_other_shapes(path: Path, source: Config, learned: dict[str, Any], trainer: Trainer) -> None:
    """Says what differs in the words of a user, as far as there are any."""
    config = trainer.config
    embeds = config.method == source.method and config.method in WITH_EMBEDDING
    sizes = (*SIZES, "embedding_size") if embeds else SIZES
    for name in sizes:
        if getattr(config, name) != getattr(source, name):
            raise ValueError(
                f"{name} must be {getattr(source, name)}, as in {path}; got {getattr(config, name)}."
            )
    seen, expected = np.shape(trainer.centring.mean), np.shape(learned[_CENTRING])
    if seen != expected:
        raise ValueError(
            f"observations must have the shape {expected}, as in {path}; those of {config.world} have {seen}."
        )
    # One row an action, beside those of torso, reward and time, which agree.
    others = config.torso_size + 1 + config.time_buckets
    actions, expected = trainer.spec.num_inputs, learned[_INPUT].shape[0] - others
    if actions != expected:
        raise ValueError(f"actions must be {expected}, as in {path}; {config.world} has {actions}.")

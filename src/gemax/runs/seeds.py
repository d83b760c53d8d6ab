"""A run has one seed, or several that are trained together. What differs between the two is here."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np

from gemax.environments.base import Environment
from gemax.runs.directory import (
    CONFIG,
    RunDirectory,
    check_writable,
    free_path,
    open_below,
    refuse_earlier_run,
)
from gemax.training.config import Config, is_environment
from gemax.training.learn import Trainer, initial_state
from gemax.training.loop import begin, begin_together, state_of_seed, train, train_together
from gemax.training.outside import train_outside
from gemax.training.state import TrainState


def seeds_of(config: Config) -> range:
    """The seeds of a run."""
    return range(config.seed, config.seed + config.seeds)


def begin_seeds(trainer: Trainer) -> TrainState:
    """The state before the first update; that of several seeds is stacked."""
    return begin(trainer) if trainer.config.seeds == 1 else begin_together(trainer)


def shapes(trainer: Trainer) -> TrainState:
    """What a state of this run looks like, without computing one."""
    first, key = partial(initial_state, trainer), jax.random.key(0)
    if trainer.config.seeds == 1:
        return jax.eval_shape(first, key)
    return jax.eval_shape(jax.vmap(first), jax.random.split(key, trainer.config.seeds))


def train_seeds(
    trainer: Trainer, state: TrainState
) -> Iterator[tuple[TrainState, list[dict[str, float] | None]]]:
    """Trains to the end, and yields the state and the metrics of each seed after every compiled call."""
    world = trainer.world
    if isinstance(world, Environment):
        with contextlib.closing(world.open(trainer.config.num_worlds)) as episodes:
            for state, metrics in train_outside(trainer, state, world, episodes):  # noqa: B020 the state goes on
                yield state, [metrics]
        return
    if trainer.config.seeds > 1:
        yield from train_together(trainer, state)
        return
    for state, metrics in train(trainer, state):  # noqa: B020 the state goes on
        yield state, [metrics]


def update_reached(state: TrainState) -> int:
    """By the seed that is farthest: one that is frozen stands still."""
    return int(np.max(state.update))


def states_of_seeds(config: Config, state: TrainState) -> dict[int, TrainState]:
    """The state of each seed."""
    if config.seeds == 1:
        return {config.seed: state}
    return {seed: state_of_seed(state, index) for index, seed in enumerate(seeds_of(config))}


# Directories


def run_name(config: Config) -> str:
    """What a run is called where nobody gives it a name."""
    last = "" if config.seeds == 1 else f"-to-{seeds_of(config)[-1]}"
    world = config.world
    if is_environment(world):
        # Ids have signs that folders must not have.
        world = re.sub(r"[^\w.-]+", "-", world.removeprefix("gym:"))
    return f"{world}-{config.method}-{config.seed}{last}"


def place_for(config: Config, out: Path | None) -> Path:
    """Where a new run goes. A place that is taken is refused, before anything is opened or compiled."""
    path = free_path(Path("runs"), run_name(config)) if out is None else out
    refuse_taken(path, config)
    return path


def refuse_taken(path: Path, config: Config) -> None:
    """Refuses a place that cannot be written to, or where the run or one of its seeds would meet an earlier one."""
    check_writable(path)
    refuse_earlier_run(path)
    if config.seeds > 1:
        for seed in seeds_of(config):
            refuse_earlier_run(path / _name(seed))


def refuse_seed_of_group(path: Path) -> None:
    """Refuses to go on with one seed of a group: only the group has the state of all of them."""
    if (path / CONFIG).is_file() and RunDirectory(path).read_config().get("grouped"):
        raise ValueError(
            f"{path} was trained together with other seeds. Resume them all: `gemax resume {path.parent}`."
        )


def open_seeds(run: RunDirectory, config: Config) -> dict[int, RunDirectory]:
    """The directory of each seed: the run's own, or one below it, made if it is not there yet."""
    if config.seeds == 1:
        return {config.seed: run}
    return {
        seed: open_below(
            run,
            _name(seed),
            dataclasses.asdict(dataclasses.replace(config, seed=seed, seeds=1, grouped=True)),
        )
        for seed in seeds_of(config)
    }


def _name(seed: int) -> str:
    return f"seed-{seed}"

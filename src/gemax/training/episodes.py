"""Whole episodes of a frozen policy, step by step, as the world showed and paid them."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.environments.base import HostArray
from gemax.training.collect import Eyes, collect, start
from gemax.training.evaluate import WORLDS_SIDE_BY_SIDE, of_first_episode
from gemax.training.learn import Trainer
from gemax.training.state import TrainState
from gemax.worlds.base import World


class Episode(NamedTuple):
    """What happened from a start to an end."""

    observations: Shaped[np.ndarray, "steps_and_one *shape"]
    """From the first to the terminal one."""
    action: Int[np.ndarray, " steps"]
    reward: Float[np.ndarray, " steps"]
    terminated: Bool[np.ndarray, " steps"]
    truncated: Bool[np.ndarray, " steps"]


class _Played(NamedTuple):
    """One episode in every world, [time, worlds]; what comes after its end belongs to another one."""

    seen: HostArray
    arrived: HostArray
    action: HostArray
    reward: HostArray
    terminated: HostArray
    truncated: HostArray
    length: HostArray


def play(trainer: Trainer, state: TrainState, num_episodes: int, key: PRNGKeyArray) -> Iterator[Episode]:
    """Plays in a world of ours, in compiled batches, every episode as long as it lasts."""
    world = trainer.world
    assert isinstance(world, World), "environments are stepped on the host"
    num_worlds = min(num_episodes, WORLDS_SIDE_BY_SIDE)
    batch = jax.jit(partial(_batch, trainer, world, num_worlds))
    num_batches = -(-num_episodes // num_worlds)
    for number, batch_key in enumerate(jax.random.split(key, num_batches)):
        played = _Played(*(np.asarray(part) for part in batch(state, batch_key)))
        for index in range(min(num_worlds, num_episodes - number * num_worlds)):
            yield _episode(world, trainer.eyes, played, index)


def _batch(trainer: Trainer, world: World, num_worlds: int, state: TrainState, key: PRNGKeyArray) -> _Played:
    start_key, steps_key = jax.random.split(key)
    position = start(world, trainer.eyes, trainer.network, num_worlds, start_key)
    _, steps = collect(
        world,
        trainer.eyes,
        state.centring,
        trainer.network,
        state.parameters,
        position,
        world.horizon,
        steps_key,
    )
    return _Played(
        seen=steps.seen,
        arrived=steps.arrived,
        action=steps.action,
        reward=steps.reward,
        terminated=steps.terminated,
        truncated=steps.truncated,
        length=of_first_episode(steps).sum(axis=0),
    )


def _episode(world: World, eyes: Eyes, played: _Played, index: int) -> Episode:
    length = int(played.length[index])
    seen = np.concatenate([played.seen[:length, index], played.arrived[length - 1 : length, index]])
    return Episode(
        observations_shown(world, eyes, seen),
        played.action[:length, index].astype(np.int64),
        played.reward[:length, index].astype(np.float64),
        played.terminated[:length, index],
        played.truncated[:length, index],
    )


def observations_shown(
    world: World, eyes: Eyes, seen: Shaped[np.ndarray, "steps *shape"]
) -> Shaped[np.ndarray, "steps *shown"]:
    """Observations as the world gave them, from what was kept of them: the way back of `look`."""
    if world.finite is None:
        return seen.astype(world.observation.dtype)
    images = seen if eyes.table is None else np.asarray(world.finite.observation_table)[seen]
    factor = world.finite.pixels_per_square
    return images.astype(world.observation.dtype).repeat(factor, axis=1).repeat(factor, axis=2)

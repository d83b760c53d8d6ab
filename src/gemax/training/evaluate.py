"""What a frozen policy does: fresh episodes, drawn or greedy."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.training.collect import Steps, collect, start
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

WORLDS_SIDE_BY_SIDE = 256


class Evaluation(NamedTuple):
    """What was earned and visited, by a policy that no longer learns."""

    returns: Float[np.ndarray, " episodes"]
    lengths: np.ndarray
    visits: Float[np.ndarray, "episodes squares"]
    """How often each square was visited."""


def evaluate(
    trainer: Trainer, state: TrainState, num_episodes: int, key: PRNGKeyArray, *, greedy: bool = False
) -> Evaluation:
    """Plays whole episodes from fresh starts, every one of them as long as it lasts."""
    num_worlds = min(num_episodes, WORLDS_SIDE_BY_SIDE)
    play = jax.jit(partial(_episodes, trainer, num_worlds, greedy))
    batches = [
        jax.tree.map(np.asarray, play(state, batch_key))
        for batch_key in jax.random.split(key, -(-num_episodes // num_worlds))
    ]
    return Evaluation(*(np.concatenate(parts)[:num_episodes] for parts in zip(*batches, strict=True)))


def _episodes(
    trainer: Trainer, num_worlds: int, greedy: bool, state: TrainState, key: PRNGKeyArray
) -> tuple[Array, Array, Array]:
    start_key, steps_key = jax.random.split(key)
    position = start(trainer.world, trainer.eyes, trainer.network, num_worlds, start_key)
    _, steps = collect(
        trainer.world,
        trainer.eyes,
        state.centring,
        trainer.network,
        state.parameters,
        position,
        trainer.world.horizon,
        steps_key,
        greedy=greedy,
    )
    counts = of_first_episode(steps)
    num_squares = state.tally.visits.shape[0]
    worlds = jnp.broadcast_to(jnp.arange(num_worlds)[None], steps.square.shape)
    visits = jnp.zeros((num_worlds, num_squares)).at[worlds, steps.square].add(counts.astype(float))
    return jnp.sum(steps.reward * counts, axis=0), jnp.sum(counts, axis=0), visits


def of_first_episode(steps: Steps) -> Bool[Array, "time worlds"]:
    """Which steps belong to the episode that each world started with."""
    ends = (steps.terminated | steps.truncated).astype(int)
    ends_before = jnp.cumsum(ends, axis=0) - ends
    return ends_before == 0

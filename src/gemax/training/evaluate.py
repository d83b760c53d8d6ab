"""What a frozen policy does: fresh episodes, drawn or greedy."""

import contextlib
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.environments.base import Environment
from gemax.training.collect import Steps, collect, start
from gemax.training.learn import Trainer
from gemax.training.outside import Outside
from gemax.training.state import TrainState
from gemax.worlds.base import World

WORLDS_SIDE_BY_SIDE = 256
LONGEST = 10_000
"""Steps after which an episode of an environment is cut, unless it may take longer: it may have no other end."""


class Evaluation(NamedTuple):
    """What was earned and visited, by a policy that no longer learns."""

    returns: Float[np.ndarray, " episodes"]
    lengths: np.ndarray
    visits: Float[np.ndarray, "episodes squares"]
    """How often each square was visited, where there are any."""
    cut: int = 0
    """How many of the episodes were not over after the longest time that they were given."""


def evaluate(
    trainer: Trainer,
    state: TrainState,
    num_episodes: int,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
    longest: int | None = None,
) -> Evaluation:
    """Plays whole episodes from fresh starts, every one of them as long as it lasts; see `longest_of`."""
    limit = longest_of(trainer.world, longest)
    if isinstance(trainer.world, Environment):
        return _evaluate_outside(trainer, state, trainer.world, num_episodes, key, greedy, limit)
    num_worlds = min(num_episodes, WORLDS_SIDE_BY_SIDE)
    play = jax.jit(partial(_episodes, trainer, num_worlds, greedy))
    batches = [
        jax.tree.map(np.asarray, play(state, batch_key))
        for batch_key in jax.random.split(key, -(-num_episodes // num_worlds))
    ]
    returns, lengths, visits = (np.concatenate(parts)[:num_episodes] for parts in zip(*batches, strict=True))
    return Evaluation(returns, lengths, visits)


def longest_of(world: World | Environment, longest: int | None) -> int:
    """How many steps an episode may have; for environments that is given, or at least what they ask for.

    Raises:
        ValueError: It is no number of steps, or the world ends its episodes by itself.
    """
    if isinstance(world, World):
        if longest is not None:
            raise ValueError(
                f"longest is for environments of others: episodes of {world.name} end by themselves, after "
                f"{world.horizon} steps at the latest."
            )
        return world.horizon
    if longest is not None and longest < 1:
        raise ValueError(f"longest must be at least 1; got {longest}.")
    return max(LONGEST, world.horizon + 1) if longest is None else longest


def _episodes(
    trainer: Trainer, num_worlds: int, greedy: bool, state: TrainState, key: PRNGKeyArray
) -> tuple[Array, Array, Array]:
    assert isinstance(trainer.world, World)
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


STEPS_AT_A_TIME = 16


def _evaluate_outside(
    trainer: Trainer,
    state: TrainState,
    environment: Environment,
    num_episodes: int,
    key: PRNGKeyArray,
    greedy: bool,
    longest: int,
) -> Evaluation:
    """The same number of episodes from each environment: where short ones are bad ones, none may be favoured."""
    num_worlds = trainer.config.num_worlds
    each = -(-num_episodes // num_worlds)
    played: list[list[tuple[float, int, bool]]] = [[] for _ in range(num_worlds)]
    lengths, seed_key, acting_key = np.zeros(num_worlds, int), *jax.random.split(key)
    with contextlib.closing(environment.open(num_worlds, longest)) as episodes:
        seed = int(jax.random.randint(seed_key, (), 0, 2**31 - 1))
        agent = Outside(trainer, environment, episodes, seed)
        mind, call = agent.mind(state), 0
        while min(map(len, played)) < each:
            steps = agent.collect(mind, STEPS_AT_A_TIME, jax.random.fold_in(acting_key, call), greedy=greedy)
            call += 1
            is_valid = np.asarray(steps.is_valid)
            ends = (steps.terminated | steps.truncated) & is_valid
            for time in range(STEPS_AT_A_TIME):
                lengths += is_valid[time]
                for index in np.flatnonzero(ends[time]):
                    is_cut = steps.truncated[time, index] and lengths[index] >= longest
                    played[index].append(
                        (float(steps.episode_return[time, index]), int(lengths[index]), bool(is_cut))
                    )
                    lengths[index] = 0
    kept = [episode for one in played for episode in one[:each]][:num_episodes]
    returns, counts, are_cut = zip(*kept, strict=True)
    return Evaluation(np.asarray(returns), np.asarray(counts), np.zeros((num_episodes, 0)), sum(are_cut))


def of_first_episode(steps: Steps) -> Bool[Array, "time worlds"]:
    """Which steps belong to the episode that each world started with."""
    ends = (steps.terminated | steps.truncated).astype(int)
    ends_before = jnp.cumsum(ends, axis=0) - ends
    return ends_before == 0

"""Embeddings of both ends of every step, for what is learned from pairs in time: adjacency, and the action in between.

Within an episode a step starts where the one before it led to. So only the starts of episodes have to be embedded
beside what was arrived in: the same numbers for little more than half of the work.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.types import Rollout, spread


def embeddings_before(
    embed: Callable[[Float[Array, "rows *shape"]], Float[Array, "rows D"]],
    arrived: Float[Array, "rows D"],
    rollout: Rollout,
    shortest_episode: int = 1,
) -> Float[Array, "time worlds D"]:
    """f(x_t) of every step, given f of the rows that were arrived in.

    No episode may have fewer actions than `shortest_episode`; where one has, what comes out is not a number.
    """
    num_steps, num_worlds = rollout.reward.shape
    if rollout.seen.row is not None:
        # A table's rows are the same before and after a step.
        return spread(rollout.seen, arrived, num_worlds)
    slots = most_starts(num_steps, shortest_episode)
    if 2 * slots > num_steps:
        return spread(rollout.seen, embed(rollout.seen.rows), num_worlds)
    is_start = rollout.is_first.at[0].set(True)
    # Every world has a slot for each of its starts: to gather and select is fast, to scatter is not.
    slot = jnp.where(is_start, jnp.cumsum(is_start, axis=0) - 1, -1)
    taken = slot[None] == jnp.arange(slots)[:, None, None]
    seen = rollout.seen.rows.reshape(num_steps, num_worlds, *rollout.seen.rows.shape[1:])
    rows = seen[jnp.argmax(taken, axis=1), jnp.arange(num_worlds)[None]]
    starts = embed(rows.reshape(slots * num_worlds, *seen.shape[2:])).reshape(slots, num_worlds, -1)
    # Before the first step comes anything: it is a start.
    before = jnp.concatenate([arrived[:num_worlds], arrived[:-num_worlds]]).reshape(num_steps, num_worlds, -1)
    for number in range(slots):
        before = jnp.where(taken[number, ..., None], starts[number][None], before)
    return jnp.where(jnp.any(slot >= slots), jnp.nan, before)


def most_starts(num_steps: int, shortest_episode: int) -> int:
    """How many steps of a rollout in one world may have to be embedded: its first one, and those after a reset."""
    if num_steps < 2:
        return num_steps
    # A reset may come right after the first step, and then again after every shortest episode.
    return 2 + (num_steps - 2) // shortest_episode

"""Embeddings of the observations before each step, for losses over consecutive states.

Within an episode, the observation of a step is the next observation of the previous step. So only the first
observations of episodes have to be embedded in addition to the next observations, which takes about half of the time.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.few import apply_to_few
from gemax.types import Transition, gather, valid_steps


def embeddings_before(
    embed: Callable[[Float[Array, "rows *shape"]], Float[Array, "rows D"]],
    next_embeddings: Float[Array, "rows D"],
    transitions: Transition,
    min_episode_steps: int = 1,
) -> Float[Array, "time envs D"]:
    """Returns the embedding of each step's observation, given the embeddings of the next observations.

    The result can be NaN if episodes are shorter than `min_episode_steps`, because there are then more starts than
    expected.
    """
    num_steps, num_envs = transitions.reward.shape
    if transitions.observation.row_index is not None:
        # Observations and next observations are rows of the same table.
        return gather(transitions.observation, next_embeddings, num_envs)
    rows = transitions.observation.rows
    by_time = rows.reshape(num_steps, num_envs, *rows.shape[1:])
    if num_steps == 1:
        return _embed_steps(embed, by_time)
    # A step of padding repeats an earlier one, so it does not follow the step before it.
    is_start = (transitions.is_first | ~valid_steps(transitions)).at[0].set(True)
    # Shifted by one step. The first step is always a start, so it is overwritten below.
    before = jnp.concatenate([next_embeddings[:num_envs], next_embeddings[:-num_envs]])
    before = before.reshape(num_steps, num_envs, -1)
    slots = max_starts(num_steps, min_episode_steps)
    if 2 * slots > num_steps:
        starts = apply_to_few(partial(_embed_steps, embed), is_start, by_time)
        return jnp.where(is_start[..., None], starts, before)
    # The i-th start of each environment has slot i, other steps have -1. Gather and select are faster than scatter.
    slot = jnp.where(is_start, jnp.cumsum(is_start, axis=0) - 1, -1)
    in_slot = slot[None] == jnp.arange(slots)[:, None, None]
    first_rows = by_time[jnp.argmax(in_slot, axis=1), jnp.arange(num_envs)[None]]
    starts = _embed_steps(embed, first_rows)
    for index in range(slots):
        before = jnp.where(in_slot[index, ..., None], starts[index][None], before)
    return jnp.where(jnp.any(slot >= slots), jnp.nan, before)


def _embed_steps(
    embed: Callable[[Float[Array, "rows *shape"]], Float[Array, "rows D"]],
    steps: Float[Array, "time envs *shape"],
) -> Float[Array, "time envs D"]:
    return embed(steps.reshape(-1, *steps.shape[2:])).reshape(*steps.shape[:2], -1)


def max_starts(num_steps: int, min_episode_steps: int) -> int:
    """Returns the maximum number of starts per environment: its first step, and each step after a reset."""
    if num_steps < 2:
        return num_steps
    # The first reset may come right after the first step, the others after each shortest episode.
    return 2 + (num_steps - 2) // min_episode_steps

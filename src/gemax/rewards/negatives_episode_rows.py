"""Negatives from the same episode, in environments with a table of all observations.

The same as `negatives_episode`, but the memory holds rows of the table instead of observations. The table is embedded
anyway, so that the memory needs no embeddings of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.episode_memory import remembered_entries
from gemax.rewards.negatives import Apply, Comparison, Negatives, Outputs
from gemax.rewards.negatives_episode import by_step, episode_batch
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, tree_where


class RowMemory(NamedTuple):
    """The last visits of each environment, oldest first."""

    row: Int[Array, "envs capacity"]
    """Row of each visit in the observation table."""
    length: Int[Array, " envs"]
    """Number of entries, counted from the newest, that belong to the current episode."""


def own_episode_rows(
    config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None, *, capacity: int = 128
) -> Negatives:
    """Returns negatives from the last `capacity` visits of the episode. All of them are used; none are sampled."""
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 visit of an episode; got {capacity}.")
    similarity = pair_similarity(config, custom_similarity)

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> RowMemory:
        return RowMemory(jnp.zeros((num_envs, capacity), jnp.int32), jnp.zeros(num_envs, jnp.int32))

    def extend(memory: RowMemory, transitions: Transition):
        """Appends the rollout. Returns the rows of all entries, the mask of negatives and the memory."""
        new_rows = transitions.next_observation.row_index
        if new_rows is None:
            raise ValueError("own_episode_rows needs an observation table. Use own_episode without one.")
        entries = jnp.concatenate([memory.row, new_rows.T.astype(memory.row.dtype)], axis=1)
        is_negative = remembered_entries(transitions.is_first, memory.length, capacity)
        length = jnp.sum(is_negative[:, -1], axis=-1, dtype=memory.length.dtype)
        return entries, is_negative, RowMemory(entries[:, -capacity:], length)

    def compare(memory: RowMemory, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        num_steps = transitions.reward.shape[0]
        entries, is_negative, memory = extend(memory, transitions)
        matrix = entry_similarity(outputs.embedding, entries, num_steps)
        return Comparison((episode_batch(matrix, outputs.log_g[entries], is_negative, config.alpha),), memory)

    def entry_similarity(
        table: Float[Array, "rows D"], entries: Int[Array, "envs entries"], num_steps: int
    ) -> Float[Array, "envs time entries"]:
        """Returns the similarity of the last `num_steps` entries of each environment to all of its entries."""
        steps, num_rows = entries[:, -num_steps:], table.shape[0]
        if num_rows**2 <= steps.size * entries.shape[1]:
            # The table has fewer pairs of rows than there are pairs of entries.
            pairs = similarity(table, table).reshape(-1)
            return pairs[steps[:, :, None] * num_rows + entries[:, None, :]]
        return jax.vmap(lambda points: similarity(points[-num_steps:], points))(table[entries])

    def remember(
        memory: RowMemory, outputs: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]
    ):
        return tree_where(is_valid, extend(memory, transitions)[2], memory)

    return Negatives(init, compare, by_step, remember=remember, has_memory=True)

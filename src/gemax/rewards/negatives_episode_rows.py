"""Negatives from the same episode, in environments with a table of all observations.

The same as `negatives_episode`, but the memory holds rows of the table instead of observations. The table is embedded
anyway, so that the memory needs no embeddings of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.episode_memory import (
    join_pieces,
    pieces_of_entries,
    remembered_entries_of_pieces,
    remembered_lengths,
)
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
        """Appends the rollout. Returns the rows of all entries, the lengths of the memory and the memory."""
        new_rows = transitions.next_observation.row_index
        if new_rows is None:
            raise ValueError("own_episode_rows needs an observation table. Use own_episode without one.")
        entries = jnp.concatenate([memory.row, new_rows.T.astype(memory.row.dtype)], axis=1)
        lengths = remembered_lengths(transitions.is_first, memory.length, capacity)
        return entries, lengths, RowMemory(entries[:, -capacity:], lengths[-1])

    def compare(memory: RowMemory, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        num_steps, num_envs = transitions.reward.shape
        entries, lengths, memory = extend(memory, transitions)
        pieces = pieces_of_entries(entries, num_steps, capacity)
        is_negative = remembered_entries_of_pieces(transitions.is_first, lengths, capacity)
        matrix = entry_similarity(outputs.embedding, pieces)
        batch = episode_batch(matrix, outputs.log_g[pieces], is_negative, config.alpha)
        batch = jax.tree.map(lambda leaf: join_pieces(leaf, num_steps, num_envs), batch)
        return Comparison((batch,), memory)

    def entry_similarity(
        table: Float[Array, "rows D"], entries: Int[Array, "envs entries"]
    ) -> Float[Array, "envs time entries"]:
        """Returns the similarity of the entries of the steps to all entries of the same environment."""
        steps, num_rows = entries[:, capacity:], table.shape[0]
        if num_rows**2 <= steps.size * entries.shape[1]:
            # The table has fewer pairs of rows than there are pairs of entries.
            pairs = similarity(table, table).reshape(-1)
            return pairs[steps[:, :, None] * num_rows + entries[:, None, :]]
        return jax.vmap(lambda points: similarity(points[capacity:], points))(table[entries])

    def remember(
        memory: RowMemory, outputs: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]
    ):
        return tree_where(is_valid, extend(memory, transitions)[2], memory)

    return Negatives(init, compare, by_step, remember=remember, has_memory=True)

"""Negatives from the same episode: each state is compared with its own episode so far.

`alg:taco` spreads the visits of all episodes together. In procedurally generated environments, the observations of two
episodes are never similar, so all states look distinct, whatever the policy does. Here p is the distribution of an
episode's visits so far. The objective is the mean of ln g(x) - p_k(x) g(x) + 1 over the newest visits x at all times of
all episodes. The bound of `thm:taco.kernel` holds for every g, so it also holds for one g that all episodes share.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import sampled_contrast
from gemax.core.few import apply_to_few
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.episode_memory import (
    join_pieces,
    pieces_of_entries,
    remembered_entries_of_pieces,
    remembered_lengths,
)
from gemax.rewards.negatives import (
    MAX_MEMORY_SIZE,
    Apply,
    Batch,
    Comparison,
    Negatives,
    Outputs,
    apply_to_memory,
    negative_power,
)
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, gather, tree_where


class EpisodeMemory(NamedTuple):
    """The last visits of each environment, oldest first."""

    rows: Float[Array, "envs capacity *shape"]
    outputs: Outputs
    """Outputs of f and g for the rows, stored so that the reward of a single step need not recompute them."""
    length: Int[Array, " envs"]
    """Number of entries, counted from the newest, that belong to the current episode."""


def own_episode(
    config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None, *, capacity: int = 128
) -> Negatives:
    """Returns negatives from the last `capacity` visits of the episode. All of them are used; none are sampled.

    If observations are so large that the memory would exceed `MAX_MEMORY_SIZE`, it holds fewer visits.
    """
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 visit of an episode; got {capacity}.")
    # Embeddings are close to the origin, so that distances by product are precise; observations may not be.
    similarity = pair_similarity(config, custom_similarity, by_product=config.similarity == "learned")

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> EpisodeMemory:
        max_capacity = MAX_MEMORY_SIZE // (num_envs * math.prod(rows.shape[1:]))
        if max_capacity < 1:
            raise ValueError(
                f"num_envs must be smaller for observations of the shape {rows.shape[1:]}, or episodic_weight 0: the "
                f"memory of episodes cannot hold one observation of each environment; got {num_envs}."
            )
        empty = jnp.zeros((num_envs, min(capacity, max_capacity), *rows.shape[1:]))
        return EpisodeMemory(empty, apply_to_memory(apply, empty), jnp.zeros(num_envs, jnp.int32))

    def extend(memory: EpisodeMemory, outputs: Outputs, transitions: Transition):
        """Appends the rollout. Returns the outputs of all entries, the lengths of the memory and the memory."""
        observations, num_envs = transitions.next_observation, transitions.reward.shape[1]

        def append(old: Array, rows: Array) -> Array:
            new = gather(observations, rows.reshape(rows.shape[0], -1), num_envs).swapaxes(0, 1)
            return jnp.concatenate([old, new.reshape(*new.shape[:2], *old.shape[2:])], axis=1)

        capacity = memory.rows.shape[1]
        rows = append(memory.rows, observations.rows)
        entries = jax.tree.map(append, memory.outputs, outputs)
        lengths = remembered_lengths(transitions.is_first, memory.length, capacity)
        kept_rows, kept_outputs = jax.tree.map(lambda leaf: leaf[:, -capacity:], (rows, entries))
        return entries, lengths, EpisodeMemory(kept_rows, kept_outputs, lengths[-1])

    def compare(memory: EpisodeMemory, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        (num_steps, num_envs), capacity = transitions.reward.shape, memory.rows.shape[1]
        entries, lengths, memory = extend(memory, outputs, transitions)
        pieces = jax.tree.map(lambda leaf: pieces_of_entries(leaf, num_steps, capacity), entries)
        is_negative = remembered_entries_of_pieces(transitions.is_first, lengths, capacity)
        # A non-finite observation must not affect the distances of the others.
        is_finite = jnp.isfinite(pieces.log_g)[..., None]
        embedding = jnp.where(is_finite, pieces.embedding, 0.0)
        matrix = jax.vmap(lambda points: similarity(points[capacity:], points))(embedding)
        batch = episode_batch(matrix, pieces.log_g, is_negative, config.alpha)
        batch = jax.tree.map(lambda leaf: join_pieces(leaf, num_steps, num_envs), batch)
        return Comparison((batch,), memory)

    def refresh(memory: EpisodeMemory, apply: Apply) -> EpisodeMemory:
        capacity = memory.rows.shape[1]
        is_remembered = jnp.arange(capacity)[None] >= capacity - memory.length[:, None]
        outputs = apply_to_few(partial(apply_to_memory, apply), is_remembered, memory.rows)
        return memory._replace(outputs=outputs)

    def remember(
        memory: EpisodeMemory, outputs: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]
    ):
        return tree_where(is_valid, extend(memory, outputs, transitions)[2], memory)

    return Negatives(init, compare, by_step, refresh, remember, has_memory=True)


def episode_batch(
    similarity: Float[Array, "envs time entries"],
    log_g: Float[Array, "envs entries"],
    is_negative: Bool[Array, "envs time entries"],
    alpha: float,
) -> Batch:
    """Returns the steps, in order of environment and time, and the expectations over the entries before each step.

    The last entries of each environment are its steps.
    """
    num_steps = similarity.shape[1]
    power = jnp.broadcast_to(negative_power(log_g, alpha)[:, None], is_negative.shape)
    # A non-finite observation must not affect the rewards of the others.
    is_negative = is_negative & jnp.isfinite(log_g)[:, None]
    parts = (leaf.reshape(-1, leaf.shape[-1]) for leaf in (similarity, power, is_negative))
    return Batch(log_g[:, -num_steps:].reshape(-1), sampled_contrast(*parts))


def by_step(
    values: list[Array], comparison: Comparison, transitions: Transition
) -> Float[Array, "time envs"]:
    """Returns the values of an `episode_batch` by time and environment."""
    return values[0].reshape(transitions.reward.shape[::-1]).T

"""Negatives from recent episodes, for few environments or for one.

`alg:taco` needs independent pairs of states. A rollout of few environments, or a single step, does not provide them.
Therefore a memory keeps the most recent observations and their episodes, including the current rollout. The negatives
of x are the observations of all other episodes. They come from slightly older policies, which hardly matters as long as
the policy changes slowly.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import mean, sampled_contrast
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.negatives import Apply, Batch, Comparison, Negatives, Outputs, negative_power
from gemax.rewards.overlap import mean_step, overlap
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, gather, gather_flat

NO_EPISODE = -1
"""Episode index of empty entries."""


class RecentMemory(NamedTuple):
    """The last observations, in a ring buffer."""

    rows: Float[Array, "capacity *shape"]
    outputs: Outputs
    """Outputs of f and g for the rows, stored so that the reward of a single step need not recompute them."""
    episode: Int[Array, " capacity"]
    """Episode index of each entry."""
    position: Int[Array, ""]
    """Index of the next entry to be written."""
    current_episode: Int[Array, " envs"]


def recent_episodes(
    config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None, *, capacity: int = 1024
) -> Negatives:
    """Returns negatives from the last `capacity` observations. All of them are used; none are sampled."""
    if capacity < 2:
        raise ValueError(f"capacity must be at least 2 recent observations; got {capacity}.")
    similarity = pair_similarity(config, custom_similarity)

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> RecentMemory:
        empty = jnp.zeros((capacity, *rows.shape[1:]))
        episode = jnp.full(capacity, NO_EPISODE)
        return RecentMemory(empty, apply(empty), episode, jnp.zeros((), int), jnp.arange(num_envs))

    def extend(memory: RecentMemory, steps: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]):
        """Adds the valid steps. Returns the memory and the episode index of each step."""
        current, episode = episode_indices(memory.current_episode, transitions.is_first, is_valid)
        valid = jnp.broadcast_to(is_valid[None], episode.shape).reshape(-1)
        end = memory.position + jnp.cumsum(valid)
        # If the rollout is longer than the memory, its last steps are kept.
        kept = slice(max(0, episode.size - capacity), None)
        index = jnp.where(valid, (end - 1) % capacity, capacity)[kept]

        def write(old: Array, new: Array) -> Array:
            return old.at[index].set(new[kept], mode="drop")

        observations = transitions.next_observation
        extended = RecentMemory(
            rows=write(memory.rows, gather_flat(observations, observations.rows)),
            outputs=jax.tree.map(write, memory.outputs, steps),
            episode=write(memory.episode, episode.reshape(-1)),
            position=end[-1] % capacity,
            current_episode=current,
        )
        return extended, episode.reshape(-1)

    def compare(memory: RecentMemory, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        num_steps, num_envs = transitions.reward.shape
        steps = outputs_by_step(outputs, transitions)
        memory, episode = extend(memory, steps, transitions, jnp.ones(num_envs, bool))
        is_negative = (memory.episode[None] != episode[:, None]) & (memory.episode[None] != NO_EPISODE)
        # A non-finite observation must not affect the rewards of the others.
        is_negative &= jnp.isfinite(memory.outputs.log_g)[None]
        has_negatives = jnp.any(is_negative, axis=1)
        matrix = similarity(steps.embedding, memory.outputs.embedding)
        power = negative_power(memory.outputs.log_g, config.alpha)
        power = jnp.broadcast_to(power[None], is_negative.shape)
        batch = Batch(steps.log_g, sampled_contrast(matrix, power, is_negative), has_negatives)
        nearest = mean(jnp.max(jnp.where(is_negative, matrix, 0.0), axis=1), has_negatives)
        episodes_overlap = overlap(nearest, mean_step(similarity, steps.embedding, transitions.is_first))
        has_negatives = has_negatives.reshape(num_steps, num_envs)
        return Comparison((batch,), memory, has_negatives, episodes_overlap)

    def by_step(values: list[Array], comparison: Comparison, transitions: Transition) -> Array:
        return values[0].reshape(transitions.reward.shape)

    def refresh(memory: RecentMemory, apply: Apply) -> RecentMemory:
        return memory._replace(outputs=apply(memory.rows))

    def remember(
        memory: RecentMemory, outputs: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]
    ):
        return extend(memory, outputs_by_step(outputs, transitions), transitions, is_valid)[0]

    return Negatives(init, compare, by_step, refresh, remember, has_memory=True)


def outputs_by_step(outputs: Outputs, transitions: Transition) -> Outputs:
    """Returns the outputs for the next observation of each step, in order of time and environment."""
    num_envs = transitions.reward.shape[1]
    embedding = gather(transitions.next_observation, outputs.embedding, num_envs)
    log_g = gather(transitions.next_observation, outputs.log_g[:, None], num_envs)
    return Outputs(embedding.reshape(-1, embedding.shape[-1]), log_g.reshape(-1))


def episode_indices(
    current: Int[Array, " envs"], is_first: Bool[Array, "time envs"], is_valid: Bool[Array, " envs"]
) -> tuple[Int[Array, " envs"], Int[Array, "time envs"]]:
    """Returns the episode index of each environment after the rollout, and the episode index of each step.

    A new episode adds the number of environments to the index, so that indices are unique across environments.
    """
    started = jnp.cumsum(is_first & is_valid[None], axis=0)
    episode = current[None] + started * current.shape[0]
    return jnp.where(is_valid, episode[-1], current), episode

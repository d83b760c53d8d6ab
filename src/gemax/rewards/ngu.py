"""NGU, never give up (Badia et al. 2020): the reward is high for states far from all earlier states of the episode.

Section 2 and Algorithm 1 of Badia et al., for each environment separately. At time t + 1 the memory holds
f(x_0) … f(x_t), including the first state of the episode. x_{t+1} is compared with the memory and added to it at the
next step. A terminal state has a reward but is never added. Embeddings in the memory are not recomputed when f changes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.episode_memory import remembered_entries
from gemax.rewards.inverse_dynamics import StepEmbeddings, inverse_dynamics
from gemax.settings import (
    Fraction,
    NonNegative,
    Positive,
    PositiveInt,
    check_count,
    check_fields,
    check_nonnegative,
)
from gemax.types import Transition, Tree, tree_where

UNROLLED_DIMENSIONS = 32
"""Embedding dimensions per iteration of the scan. Larger values read and write the distances less often."""


@dataclass(frozen=True)
class NguSettings:
    """Settings of NGU. The defaults are those of its paper."""

    num_neighbours: PositiveInt = 10
    """k: number of nearest neighbours in the memory."""
    kernel_epsilon: Positive = 1e-3
    """ε of the kernel ε / (d²/d_m² + ε)."""
    cluster_distance: NonNegative = 0.008
    """ξ: neighbours with d²/d_m² below this count as identical."""
    pseudo_count: Positive = 0.001
    """c: added to the similarity, so that the reward is at most 1 / c."""
    max_similarity: Positive = 8.0
    """s_max: states with a larger similarity have no reward. The default is not reached with fewer than 64
    neighbours."""
    distance_decay: Fraction = 0.999
    """Decay per step of the running average d_m². 1 averages over all steps so far."""
    hidden_size: PositiveInt = 256
    """Hidden units of the action predictor."""


class EpisodicMemory(NamedTuple):
    """Embeddings of the episode of each environment."""

    embedding: Float[Array, "D envs capacity"]
    """Oldest entry first. Entries are the last axis, which makes the distances to all of them fast."""
    length: Int[Array, " envs"]
    """Number of entries, counted from the newest, that belong to the current episode."""
    distance_sum: Float[Array, " envs"]
    """Sum of decay^age · d² over the squared distances to neighbours, across episodes."""
    distance_count: Float[Array, " envs"]
    """Sum of decay^age over the same neighbours."""


class NguState(NamedTuple):
    """Everything that changes in NGU."""

    parameters: Parameters
    """Parameters of the embedding f and the action predictor h."""
    opt_state: Tree
    memory: EpisodicMemory


class EpisodicNovelty(NamedTuple):
    """Comparison of each next state with the memory."""

    reward: Float[Array, "time envs"]
    similarity: Float[Array, "time envs"]
    """s: similarity to the memory."""
    mean_squared_distance: Float[Array, "time envs"]
    """d_m²: running average of the squared distances to neighbours."""


def ngu(
    network: Network,
    num_actions: int,
    horizon: int,
    optimiser: optax.GradientTransformation,
    scale: float,
    settings: NguSettings,
    ignored_feature: int | None = None,
    min_episode_steps: int = 1,
) -> IntrinsicReward:
    """Returns NGU's episodic reward times the scale, with this network as f.

    The memory holds the last `horizon` states of an episode. f does not see the entry `ignored_feature` of observation
    vectors. Every episode must have at least `min_episode_steps` actions, otherwise the rewards are NaN. Larger values
    save embeddings.
    """
    check_count("horizon", horizon)
    check_nonnegative("scale", scale)
    check_fields(settings)
    dynamics = inverse_dynamics(
        network,
        num_actions,
        optimiser,
        hidden_size=settings.hidden_size,
        ignored_feature=ignored_feature,
        min_episode_steps=min_episode_steps,
    )

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> NguState:
        parameters = dynamics.init(key, rows)
        size = dynamics.embed(parameters, rows[:1]).shape[-1]
        return NguState(parameters, optimiser.init(parameters), empty_memory(horizon, num_envs, size))

    def novelty(state: NguState, embeddings: StepEmbeddings, transitions: Transition):
        return episodic_novelty(state.memory, *embeddings, transitions.is_first, settings)

    def reward(state: NguState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        result, _ = novelty(state, dynamics.embed_steps(state.parameters, transitions), transitions)
        return scale * result.reward

    def step(state: NguState, transitions: Transition, key: PRNGKeyArray):
        learned = dynamics.learn(state.parameters, state.opt_state, transitions)
        result, memory = novelty(state, learned.embeddings, transitions)
        metrics = learned.metrics | {
            "episodic_reward": jnp.mean(result.reward),
            "memory_similarity": jnp.mean(result.similarity),
            "neighbour_distance": jnp.sqrt(jnp.mean(result.mean_squared_distance)),
        }
        return scale * result.reward, NguState(learned.parameters, learned.opt_state, memory), metrics

    def embed(state: NguState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return dynamics.embed(state.parameters, rows)

    def remember(state: NguState, transitions: Transition, is_valid: Bool[Array, " envs"]) -> NguState:
        _, memory = novelty(state, dynamics.embed_steps(state.parameters, transitions), transitions)
        # The embeddings have the environments as their second axis, all other fields as their first.
        embedding = jnp.where(is_valid[None, :, None], memory.embedding, state.memory.embedding)
        rest = tree_where(is_valid, memory[1:], state.memory[1:])
        return state._replace(memory=EpisodicMemory(embedding, *rest))

    return IntrinsicReward(init, reward, step, embed, remember)


def empty_memory(capacity: int, num_envs: int, size: int) -> EpisodicMemory:
    """Returns the memory before the first episode."""
    zeros = jnp.zeros(num_envs)
    return EpisodicMemory(jnp.zeros((size, num_envs, capacity)), jnp.zeros(num_envs, jnp.int32), zeros, zeros)


def episodic_novelty(
    memory: EpisodicMemory,
    embedding_t: Float[Array, "time envs D"],
    embedding_tp1: Float[Array, "time envs D"],
    is_first: Bool[Array, "time envs"],
    settings: NguSettings,
) -> tuple[EpisodicNovelty, EpisodicMemory]:
    """Applies Algorithm 1 to all steps of a rollout. Returns the novelty of each step and the memory after the rollout.

    Only the running average is sequential. Which entries each step is compared with depends only on `is_first`,
    `length` and the capacity, so all distances are computed at once.
    """
    capacity = memory.embedding.shape[-1]
    entries = jnp.concatenate([memory.embedding, embedding_t.transpose(2, 1, 0)], axis=-1)
    remembered = remembered_entries(is_first, memory.length, capacity)
    squared, exists = nearest_squared_distances(embedding_tp1, entries, remembered, settings.num_neighbours)
    sums, counts = running_sums(memory, squared, exists, settings.distance_decay)
    mean_squared_distance = sums / jnp.maximum(counts, jnp.finfo(counts.dtype).tiny)
    novelty = novelty_from_distances(squared, exists, mean_squared_distance, settings)
    # The memory continues with the entries that the last step remembers.
    length = jnp.sum(remembered[:, -1], axis=-1, dtype=memory.length.dtype)
    return novelty, EpisodicMemory(entries[..., -capacity:], length, sums[-1], counts[-1])


def nearest_squared_distances(
    embedding_tp1: Float[Array, "time envs D"],
    entries: Float[Array, "D envs entries"],
    remembered: Bool[Array, "envs time entries"],
    num_neighbours: int,
) -> tuple[Float[Array, "time envs k"], Bool[Array, "time envs k"]]:
    """Returns the squared distances to the nearest remembered entries, 0 for missing ones, and whether each exists."""
    squared = squared_distances(embedding_tp1.transpose(2, 1, 0), entries)
    # Non-finite distances are left out, since the running average would never recover from them.
    squared = jnp.where(remembered & jnp.isfinite(squared), squared, jnp.inf)
    squared = -jax.lax.top_k(-squared, min(num_neighbours, squared.shape[-1]))[0].swapaxes(0, 1)
    exists = jnp.isfinite(squared)
    return jnp.where(exists, squared, 0.0), exists


def squared_distances(
    points: Float[Array, "D envs points"], entries: Float[Array, "D envs entries"]
) -> Float[Array, "envs points entries"]:
    """Returns the squared distances of all points to all entries of the same environment, by subtraction.

    A matrix product is not faster, and it is inaccurate for neighbours, which are close by definition.
    """

    def add(total: Array, coordinates: tuple[Array, Array]) -> tuple[Array, None]:
        point, entry = coordinates
        return total + (point[:, :, None] - entry[:, None, :]) ** 2, None

    shape = (points.shape[1], points.shape[2], entries.shape[2])
    unroll = min(UNROLLED_DIMENSIONS, points.shape[0])
    return jax.lax.scan(add, jnp.zeros(shape, points.dtype), (points, entries), unroll=unroll)[0]


def running_sums(
    memory: EpisodicMemory,
    squared: Float[Array, "time envs k"],
    exists: Bool[Array, "time envs k"],
    decay: float,
) -> tuple[Float[Array, "time envs"], Float[Array, "time envs"]]:
    """Returns `distance_sum` and `distance_count` after each step, including the distances of that step."""

    def add(before: tuple[Array, Array], new: tuple[Array, Array]):
        after = decay * before[0] + new[0], decay * before[1] + new[1]
        return after, after

    new = jnp.sum(squared, axis=-1), jnp.sum(exists, axis=-1, dtype=squared.dtype)
    return jax.lax.scan(add, (memory.distance_sum, memory.distance_count), new)[1]


def novelty_from_distances(
    squared: Float[Array, "time envs k"],
    exists: Bool[Array, "time envs k"],
    mean_squared_distance: Float[Array, "time envs"],
    settings: NguSettings,
) -> EpisodicNovelty:
    """Returns the reward `1 / s`, 0 where s exceeds s_max, with s = √(Σ K) + c and K = ε / (max(d²/d_m² - ξ, 0) + ε).

    With fewer than k neighbours the sum has fewer terms, so the first steps of an episode have higher rewards.
    """
    # If d_m² is zero, all distances are zero and the divisor does not matter.
    scale = jnp.maximum(mean_squared_distance, jnp.finfo(mean_squared_distance.dtype).tiny)[..., None]
    clustered = jnp.maximum(squared / scale - settings.cluster_distance, 0.0)
    kernel = jnp.where(exists, settings.kernel_epsilon / (clustered + settings.kernel_epsilon), 0.0)
    similarity = jnp.sqrt(jnp.sum(kernel, axis=-1)) + settings.pseudo_count
    # There is at least one neighbour, the observation before the step, unless it was not finite.
    is_novel = (similarity <= settings.max_similarity) & exists[..., 0]
    return EpisodicNovelty(jnp.where(is_novel, 1.0 / similarity, 0.0), similarity, mean_squared_distance)

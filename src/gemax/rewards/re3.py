"""RE3, random encoders for efficient exploration (Seo et al. 2021): the reward is high far from other states.

`r = s · ln(1 + d / σ)`. y = f(x) is a network with random weights that never change, d is the mean distance of y to its
k nearest neighbours, and σ is the running standard deviation of d. The mean of r is an estimate of the entropy of the
visited states. Nothing is learned.

The neighbours are the other next observations of the rollout. A single step, or a rollout of few environments, does not
provide them. With a memory, the neighbours are therefore searched among the most recent states before each step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import mean
from gemax.core.moments import Moments, init_moments, std
from gemax.core.similarity import MAX_ROWS_BY_SUBTRACTION, midpoint, squared_distances_by_product
from gemax.core.similarity_products import MAX_MATRIX_ENTRIES
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward, hide_feature
from gemax.rewards.running_std import divide_by_running_std
from gemax.settings import Fraction, PositiveInt, check_fields, check_nonnegative
from gemax.types import Observations, Transition, gather, gather_flat, valid_steps


@dataclass(frozen=True)
class Re3Settings:
    """Settings of RE3. k is that of its paper."""

    num_neighbours: PositiveInt = 3
    """k: number of nearest neighbours."""
    memory_size: PositiveInt = 1024
    """Number of recent states that a step is compared with, if there is a memory."""
    distance_decay: Fraction = 0.99
    """Decay per rollout of the running moments of the distance."""


class EncodingMemory(NamedTuple):
    """The encodings of the most recent states of all environments."""

    encoding: Float[Array, "capacity D"]
    """Oldest entry first. Empty entries come before all others."""
    length: Int[Array, ""]
    """Number of entries that are not empty."""


class Re3State(NamedTuple):
    """The constant encoder, and everything that changes in RE3."""

    encoder: Parameters
    normaliser: Moments
    """Running moments of the distance to the neighbours."""
    memory: EncodingMemory
    """Stays empty, with a capacity of 0, if the neighbours come from the rollout."""


class Neighbourhood(NamedTuple):
    """The comparison of each step with its neighbours."""

    distance: Float[Array, "time envs"]
    """Mean distance to the nearest neighbours. 0 if there are none."""
    has_neighbours: Bool[Array, "time envs"]
    memory: EncodingMemory
    """The memory, with the rollout added."""


def re3(
    network: Network,
    scale: float,
    settings: Re3Settings,
    ignored_feature: int | None = None,
    *,
    has_memory: bool = False,
) -> IntrinsicReward:
    """Returns RE3 with this network, at its initial parameters, as the encoder.

    With `has_memory`, neighbours come from the last states before each step instead of the rollout. The encoder does
    not see the entry `ignored_feature` of observation vectors.
    """
    check_nonnegative("scale", scale)
    check_fields(settings)
    find = neighbours_in_memory if has_memory else neighbours_in_rollout

    def encode(encoder: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return network.apply(encoder, hide_feature(rows, ignored_feature))

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> Re3State:
        encoder = network.init(key, hide_feature(rows[:1], ignored_feature))
        size = encode(encoder, rows[:1]).shape[-1]
        capacity = settings.memory_size if has_memory else 0
        return Re3State(encoder, init_moments(), empty_memory(capacity, size))

    def neighbourhood(state: Re3State, transitions: Transition) -> Neighbourhood:
        encoding = encode(state.encoder, transitions.next_observation.rows)
        encoded = transitions.next_observation._replace(rows=encoding)
        return find(state.memory, encoded, valid_steps(transitions), settings.num_neighbours)

    def scaled_reward(state: Re3State, found: Neighbourhood) -> tuple[Float[Array, "time envs"], Moments]:
        """Returns the reward and the updated moments. Steps without neighbours have no reward."""
        distance, normaliser = divide_by_running_std(
            state.normaliser, found.distance, found.has_neighbours, decay=settings.distance_decay
        )
        return scale * jnp.log1p(distance), normaliser

    def reward(state: Re3State, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        return scaled_reward(state, neighbourhood(state, transitions))[0]

    def step(state: Re3State, transitions: Transition, key: PRNGKeyArray):
        found = neighbourhood(state, transitions)
        scaled, normaliser = scaled_reward(state, found)
        counted = found.has_neighbours.reshape(-1)
        metrics = {
            "neighbour_distance": mean(found.distance.reshape(-1), counted),
            "neighbour_distance_std": std(normaliser),
            "zero_distance_share": mean((found.distance == 0).astype(float).reshape(-1), counted),
        }
        return scaled, Re3State(state.encoder, normaliser, found.memory), metrics

    def embed(state: Re3State, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return encode(state.encoder, rows)

    def remember(state: Re3State, transitions: Transition, is_valid: Bool[Array, " envs"]) -> Re3State:
        encoding = encode(state.encoder, transitions.next_observation.rows)
        encoding = gather_flat(transitions.next_observation, encoding)
        is_added = (valid_steps(transitions) & is_valid[None]).reshape(-1)
        return state._replace(
            memory=last_entries(*append_entries(state.memory, encoding, is_added), state.memory)
        )

    return IntrinsicReward(init, reward, step, embed, remember if has_memory else None)


def neighbours_in_rollout(
    memory: EncodingMemory, encoded: Observations, is_valid: Bool[Array, "time envs"], num_neighbours: int
) -> Neighbourhood:
    """Returns the neighbours among all other valid steps of the rollout. The memory is not used.

    The rows of a table are compared once, and count as often as they are visited.
    """
    num_rows, (num_steps, num_envs) = encoded.rows.shape[0], is_valid.shape
    if encoded.row_index is not None and num_rows > num_steps * num_envs:
        # The steps are fewer than the rows of the table, so that comparing the steps is faster.
        encoded = Observations(gather_flat(encoded, encoded.rows), None)
    visits = is_valid.reshape(-1).astype(float)
    if encoded.row_index is not None:
        visits = jnp.zeros(num_rows).at[encoded.row_index.reshape(-1)].add(visits)
    index = jnp.arange(visits.shape[0])

    def neighbour_counts(row: Int[Array, ""]) -> Float[Array, " rows"]:
        return visits - (index == row)

    distance, exists = mean_nearest_distance(
        encoded.rows, index, encoded.rows, neighbour_counts, num_neighbours
    )
    by_row = jnp.stack([distance, exists.astype(float)], axis=-1)
    distance, exists = jnp.moveaxis(gather(encoded, by_row, num_envs), -1, 0)
    has_neighbours = (exists > 0) & is_valid
    return Neighbourhood(jnp.where(has_neighbours, distance, 0.0), has_neighbours, memory)


def neighbours_in_memory(
    memory: EncodingMemory, encoded: Observations, is_valid: Bool[Array, "time envs"], num_neighbours: int
) -> Neighbourhood:
    """Returns the neighbours among the last valid steps before each step, in the memory and in the rollout."""
    capacity, num_envs = memory.encoding.shape[0], is_valid.shape[1]
    points = gather_flat(encoded, encoded.rows)
    entries, is_entry = append_entries(memory, points, is_valid.reshape(-1))
    number = jnp.cumsum(is_entry)
    # Number of entries before each step. Steps at the same time do not see each other.
    before = memory.length + jnp.cumsum(jnp.sum(is_valid, axis=1)) - jnp.sum(is_valid, axis=1)

    def neighbour_counts(num_before: Int[Array, ""]) -> Float[Array, " entries"]:
        return (is_entry & (number <= num_before) & (number > num_before - capacity)).astype(float)

    distance, exists = mean_nearest_distance(
        points, jnp.repeat(before, num_envs), entries, neighbour_counts, num_neighbours
    )
    has_neighbours = exists.reshape(is_valid.shape) & is_valid
    distance = jnp.where(has_neighbours, distance.reshape(is_valid.shape), 0.0)
    return Neighbourhood(distance, has_neighbours, last_entries(entries, is_entry, memory))


def empty_memory(capacity: int, size: int) -> EncodingMemory:
    """Returns a memory without entries."""
    return EncodingMemory(jnp.zeros((capacity, size)), jnp.zeros((), int))


def append_entries(
    memory: EncodingMemory, encoding: Float[Array, "steps D"], is_added: Bool[Array, " steps"]
) -> tuple[Float[Array, "entries D"], Bool[Array, " entries"]]:
    """Returns the entries of the memory followed by new ones, and which of them count."""
    capacity = memory.encoding.shape[0]
    is_filled = jnp.arange(capacity) >= capacity - memory.length
    # A non-finite encoding would stay in the memory.
    is_added &= jnp.isfinite(encoding).all(axis=-1)
    return jnp.concatenate([memory.encoding, encoding]), jnp.concatenate([is_filled, is_added])


def last_entries(
    entries: Float[Array, "entries D"], is_entry: Bool[Array, " entries"], memory: EncodingMemory
) -> EncodingMemory:
    """Returns a memory of the last entries that count, with the capacity of the given one."""
    capacity = memory.encoding.shape[0]
    # A stable sort moves entries that do not count to the front and keeps the order of the others.
    kept = jnp.argsort(is_entry, stable=True)[entries.shape[0] - capacity :]
    length = jnp.minimum(jnp.sum(is_entry), capacity).astype(memory.length.dtype)
    return EncodingMemory(jnp.where(is_entry[kept][:, None], entries[kept], 0.0), length)


def mean_nearest_distance(
    points: Float[Array, "N D"],
    positions: Int[Array, " N"],
    entries: Float[Array, "M D"],
    neighbour_counts: Callable[[Int[Array, ""]], Float[Array, " M"]],
    num_neighbours: int,
) -> tuple[Float[Array, " N"], Bool[Array, " N"]]:
    """Returns the mean distance of each point to its nearest neighbours, and whether it has any.

    `neighbour_counts(position)` returns how often each entry counts as a neighbour of a point. The position is the
    point's own row in a rollout, or the number of entries before it in a memory. If there are fewer than
    `num_neighbours`, the mean is over those that exist. Entries that are not finite are left out.

    The points are compared in blocks, which bounds the memory. The neighbours are found by a matrix product, and their
    distances are then computed by subtraction, because the product is inaccurate for near neighbours.
    """
    num_candidates = min(num_neighbours, entries.shape[0])
    is_finite = jnp.isfinite(entries).all(axis=-1)
    entries = jnp.where(is_finite[:, None], entries, 0.0)
    centre = midpoint(entries, entries)

    def squared_distances(points: Float[Array, "block D"]) -> Float[Array, "block M"]:
        if entries.shape[0] <= MAX_ROWS_BY_SUBTRACTION:
            return jnp.sum((points[:, None] - entries[None]) ** 2, axis=-1)
        return squared_distances_by_product(points - centre, entries - centre)

    def nearest(
        points: Float[Array, "block D"], positions: Int[Array, " block"]
    ) -> tuple[Float[Array, " block"], Bool[Array, " block"]]:
        squared, available = squared_distances(points), jax.vmap(neighbour_counts)(positions)
        is_candidate = is_finite[None] & (available > 0) & jnp.isfinite(squared)
        negated, index = jax.lax.top_k(jnp.where(is_candidate, -squared, -jnp.inf), num_candidates)
        distance = jnp.sqrt(jnp.sum((points[:, None] - entries[index]) ** 2, axis=-1))
        available = jnp.where(negated > -jnp.inf, jnp.take_along_axis(available, index, axis=1), 0.0)
        # Copies of the nearest entry count first, up to `num_neighbours` in total.
        counted = jnp.clip(num_neighbours - (jnp.cumsum(available, axis=1) - available), 0.0, available)
        total = jnp.sum(jnp.where(counted > 0, counted * distance, 0.0), axis=1)
        return total / jnp.maximum(jnp.sum(counted, axis=1), 1.0), jnp.sum(counted, axis=1) > 0

    num_points, max_block = points.shape[0], max(1, MAX_MATRIX_ENTRIES // max(1, entries.shape[0]))
    if num_points <= max_block:
        return nearest(points, positions)
    # A block is one matrix product, which `vmap` over its points would not be.
    num_blocks = -(-num_points // max_block)
    block_size = -(-num_points // num_blocks)
    num_padded = num_blocks * block_size - num_points
    blocks = (
        jnp.pad(points, ((0, num_padded), (0, 0))).reshape(num_blocks, block_size, -1),
        jnp.pad(positions, (0, num_padded)).reshape(num_blocks, block_size),
    )
    distance, exists = jax.lax.map(lambda block: nearest(*block), blocks)
    return distance.reshape(-1)[:num_points], exists.reshape(-1)[:num_points]

"""Negatives from this rollout and from earlier ones. An extension of `negatives_other_envs`.

A rollout of Gymnasium environments is short, and its states are correlated. The density that g learns from it is then
mostly noise. A memory of the last observations of each environment adds negatives without more environments. They come
from older policies. To have more of them, the negatives of x are the states of all other environments, not of
one half.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import Contrast
from gemax.core.similarity_products import Groups, exponential_product, without_groups
from gemax.rewards.config import IntrinsicConfig
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
from gemax.rewards.negatives_other_envs import EXPONENTIAL, overlap_of_steps
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, gather_flat, tree_where

GOLDEN_RATIO = 2_654_435_769
"""The golden ratio as a fraction of 2³². Its multiples modulo 2³² are spread evenly, also those of every n-th step."""


MIN_OVERLAP = 0.9
"""Episodes with less overlap have layouts of their own, so that states of much older episodes say little."""


class EarlierSteps(NamedTuple):
    """Earlier observations of each environment, oldest first."""

    rows: Float[Array, "capacity envs *shape"]
    outputs: Outputs
    """Outputs of f and g for the rows, stored so that the reward of a single step need not recompute them."""
    length: Int[Array, " envs"]
    """Number of entries of each environment, counted from the newest."""
    time: Int[Array, " envs"]
    """Number of steps of each environment up to now, remembered or not."""
    period: Int[Array, " envs"]
    """One of this many steps is remembered."""


def earlier_steps(
    config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None, *, capacity: int
) -> Negatives:
    """Returns negatives from the rollout, and from `capacity` steps before it, of all other environments.

    All of them are used; none are sampled. One of `negative_memory_period` steps is remembered, and every step from the
    first rollout on whose episodes have layouts of their own. If observations are so large that the memory would exceed
    `MAX_MEMORY_SIZE`, it holds fewer steps.
    """
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 step before the rollout; got {capacity}.")
    similarity = pair_similarity(config, custom_similarity)

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> EarlierSteps:
        if num_envs < 2:
            raise ValueError(f"num_envs must be at least 2, one for x and others for x'; got {num_envs}.")
        max_capacity = MAX_MEMORY_SIZE // (num_envs * math.prod(rows.shape[1:]))
        if max_capacity < 1:
            raise ValueError(
                f"num_envs must be smaller for observations of the shape {rows.shape[1:]}, or negative_memory_size 0: "
                f"the memory cannot hold one observation of each environment; got {num_envs}."
            )
        empty = jnp.zeros((min(capacity, max_capacity), num_envs, *rows.shape[1:]))
        zeros = jnp.zeros(num_envs, jnp.int32)
        period = jnp.full_like(zeros, config.negative_memory_period)
        return EarlierSteps(empty, apply_to_memory(apply, empty), zeros, zeros, period)

    def appended(memory: EarlierSteps, outputs: Outputs, transitions: Transition) -> EarlierSteps:
        """Returns the steps of the memory, followed by those of the rollout."""
        observations, (num_steps, num_envs) = transitions.next_observation, transitions.reward.shape

        def append(old: Array, rows: Array) -> Array:
            new = gather_flat(observations, rows)
            return jnp.concatenate([old, new.reshape(num_steps, num_envs, *old.shape[2:])])

        return EarlierSteps(
            append(memory.rows, observations.rows),
            jax.tree.map(append, memory.outputs, outputs),
            memory.length + num_steps,
            memory.time + num_steps,
            memory.period,
        )

    def remembered(steps: EarlierSteps, num_steps: int) -> EarlierSteps:
        """Returns the entries that the memory keeps, after a rollout of `num_steps` has been appended."""
        capacity = steps.rows.shape[0] - num_steps
        time = steps.time[None] - num_steps + jnp.arange(num_steps)[:, None]
        is_new = is_remembered(time, steps.period[None])
        is_kept = jnp.concatenate([jnp.ones((capacity, time.shape[1]), bool), is_new])
        # Stable: what is kept comes last, in order of time.
        order = jnp.argsort(is_kept, axis=0, stable=True)[-capacity:]

        def take(values: Array) -> Array:
            return jnp.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 2)), axis=0)

        rows, outputs = jax.tree.map(take, steps[:2])
        length = jnp.minimum(steps.length - num_steps + jnp.sum(is_new, axis=0), capacity)
        length = length.astype(steps.length.dtype)
        return steps._replace(rows=rows, outputs=outputs, length=length)

    def with_period(steps: EarlierSteps, overlap: Float[Array, ""]) -> EarlierSteps:
        """Returns the steps with a period of 1 if the episodes of this rollout have layouts of their own.

        This is not taken back: the episodes of a policy that has learned to solve all layouts overlap again.
        """
        return steps._replace(period=jnp.where(overlap < MIN_OVERLAP, 1, steps.period))

    def compare(memory: EarlierSteps, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        num_steps, num_envs = transitions.reward.shape
        steps = appended(memory, outputs, transitions)
        is_filled = jnp.arange(len(steps.rows))[:, None] >= len(steps.rows) - steps.length[None]
        # A non-finite observation must not affect the rewards of the others.
        weight = (is_filled & jnp.isfinite(steps.outputs.log_g)).astype(float)
        power = jnp.where(weight > 0, negative_power(steps.outputs.log_g, config.alpha), 0.0)
        embedding = jnp.where(weight[..., None] > 0, steps.outputs.embedding, 0.0)
        new = Outputs(*(_flat(leaf[-num_steps:]) for leaf in (embedding, steps.outputs.log_g)))
        env = jnp.arange(num_envs)
        own_env = Groups(jnp.tile(env, num_steps), jnp.tile(env, len(weight)))
        columns = _flat(jnp.stack([weight, weight * power], axis=-1))
        sums = product(new.embedding, _flat(embedding), columns, own_env)
        counts = jnp.maximum(jnp.sum(weight) - jnp.sum(weight, axis=0), 1.0)
        contrast = Contrast(*(sums / jnp.tile(counts, num_steps)[:, None]).T)
        overlap = overlap_of_steps(similarity, new, transitions)
        memory = remembered(with_period(steps, overlap), num_steps)
        return Comparison((Batch(new.log_g, contrast),), memory, overlap=overlap)

    def product(points: Array, others: Array, columns: Array, own_env: Groups) -> Array:
        """Returns the sums of k(x, x') times the columns, over the negatives of other environments."""
        if config.similarity in EXPONENTIAL:
            scale = config.similarity_scale
            return exponential_product(points, others, columns, scale=scale, groups=own_env)
        return without_groups(similarity(points, others), own_env) @ columns

    def by_step(values: list[Array], comparison: Comparison, transitions: Transition) -> Array:
        return values[0].reshape(transitions.reward.shape)

    def refresh(memory: EarlierSteps, apply: Apply) -> EarlierSteps:
        return memory._replace(outputs=apply_to_memory(apply, memory.rows))

    def remember(
        memory: EarlierSteps, outputs: Outputs, transitions: Transition, is_valid: Bool[Array, " envs"]
    ) -> EarlierSteps:
        extended = remembered(appended(memory, outputs, transitions), len(transitions.reward))
        by_env = [_envs_first(steps) for steps in (extended, memory)]
        return _envs_first(tree_where(is_valid, *by_env))

    return Negatives(init, compare, by_step, refresh, remember, has_memory=True)


def is_remembered(time: Int[Array, "*steps"], period: Int[Array, "..."] | int) -> Bool[Array, "*steps"]:
    """Returns which steps are remembered: one of `period`, spread so that no length of episodes is favoured."""
    bound = jnp.uint32(2**32 - 1) // jnp.asarray(period, jnp.uint32)
    return time.astype(jnp.uint32) * jnp.uint32(GOLDEN_RATIO) <= bound


def _flat(values: Float[Array, "time envs *F"]) -> Float[Array, "steps *F"]:
    return values.reshape(-1, *values.shape[2:])


def _envs_first(steps: EarlierSteps) -> EarlierSteps:
    """Swaps the axes of time and environments."""
    rows, outputs = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), steps[:2])
    return steps._replace(rows=rows, outputs=outputs)

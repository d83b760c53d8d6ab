"""How much different episodes have in common, measured by the similarity k itself.

If all episodes have the same layout, the states of other episodes come as close to a state as its own neighbours in
time. If every episode has a new layout, they stay further away.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gemax.rewards.similarity import PairSimilarity

MAX_STATES, MAX_OTHERS = 256, 1024
"""The nearest state of another episode is searched for this many states, among this many others."""
MIN_SIMILARITY, MAX_SIMILARITY = 1e-6, 1.0 - 1e-6
"""Bounds that keep the logarithms finite and different from zero."""


def overlap(nearest: Float[Array, ""], step: Float[Array, ""]) -> Float[Array, ""]:
    """Returns the overlap of episodes, from 0 (nothing in common) to 1 (the same states).

    `min(1, ln E[k(x_t, x_{t+1})] / ln E[max_x' k(x, x')])` with x' from other episodes. For k = exp(-d) this is about
    the length of a step divided by the distance to the nearest state of another episode.

    Args:
        nearest: Mean similarity of a state to the nearest state of another episode.
        step: Mean similarity of consecutive states.
    """
    nearest, step = (jnp.clip(value, MIN_SIMILARITY, MAX_SIMILARITY) for value in (nearest, step))
    return jax.lax.stop_gradient(jnp.minimum(jnp.log(step) / jnp.log(nearest), 1.0))


def mean_nearest(
    similarity: PairSimilarity, embeddings: Float[Array, "steps D"], num_envs: int
) -> Float[Array, ""]:
    """Returns the mean similarity of a state to the nearest state of other environments, over samples of the states.

    `embeddings` has the states after each step, in order of time and environment.
    """
    states, others = (_sample(len(embeddings), size) for size in (MAX_STATES, MAX_OTHERS))
    matrix = similarity(embeddings[states], embeddings[others])
    is_other_env = (states % num_envs)[:, None] != (others % num_envs)[None]
    return jnp.mean(jnp.max(jnp.where(is_other_env, matrix, 0.0), axis=1))


def mean_step(
    similarity: PairSimilarity, embeddings: Float[Array, "steps D"], is_first: Bool[Array, "time envs"]
) -> Float[Array, ""]:
    """Returns the mean similarity of consecutive states of an episode. NaN if there are none.

    `embeddings` has the states after each step, in order of time and environment.
    """
    by_time = embeddings.reshape(*is_first.shape, -1)
    before, after = (part.reshape(-1, 1, by_time.shape[-1]) for part in (by_time[:-1], by_time[1:]))
    is_step = ~is_first[1:].reshape(-1)
    steps = jax.vmap(similarity)(before, after).reshape(-1)
    return jnp.sum(jnp.where(is_step, steps, 0.0)) / jnp.sum(is_step)


def _sample(num_steps: int, size: int) -> Int[Array, " n"]:
    """Returns the indices of at most `size` steps at even distances."""
    return jnp.linspace(0, num_steps - 1, min(size, num_steps)).astype(int)

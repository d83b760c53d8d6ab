"""Which visits of its own episode a step can remember."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def remembered_at(
    is_first: Bool[Array, "time worlds"], length: Int[Array, " worlds"], capacity: int
) -> Bool[Array, "worlds time entries"]:
    """Which entries of the memory, followed by the rollout's own, each step can remember.

    Those of its own episode, up to its own, and no more than there is room for. Of the memory's entries, the last
    `length` belong to the episode that a world is in.
    """
    num_steps = is_first.shape[0]
    time = jnp.arange(num_steps)
    start = jax.lax.cummax(jnp.where(is_first, time[:, None], -length[None]), axis=0).T
    entry, now = jnp.arange(-capacity, num_steps)[None, None], time[None, :, None]
    return (entry >= start[..., None]) & (entry <= now) & (entry > now - capacity)

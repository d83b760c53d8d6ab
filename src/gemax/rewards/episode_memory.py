"""A mask of the memory entries that belong to the episode of each step."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def remembered_entries(
    is_first: Bool[Array, "time envs"], length: Int[Array, " envs"], capacity: int
) -> Bool[Array, "envs time entries"]:
    """Returns which entries each step remembers.

    The entries are the `capacity` entries of the memory, followed by one entry per step of the rollout. The last
    `length` entries of the memory belong to the current episode. A step remembers its own entry and earlier entries of
    the same episode, at most `capacity` in total.
    """
    num_steps = is_first.shape[0]
    time = jnp.arange(num_steps)
    start = jax.lax.cummax(jnp.where(is_first, time[:, None], -length[None]), axis=0).T
    entry, now = jnp.arange(-capacity, num_steps)[None, None], time[None, :, None]
    return (entry >= start[..., None]) & (entry <= now) & (entry > now - capacity)

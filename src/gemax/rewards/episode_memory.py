"""Which entries of a memory belong to the episode of each step.

The entries are the `capacity` entries of the memory, followed by one entry per step of the rollout. A step remembers at
most `capacity` of them. GEM therefore compares a long rollout in pieces, and its memory grows linearly with the length
of the rollout.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped


def remembered_entries(
    is_first: Bool[Array, "time envs"], length: Int[Array, " envs"], capacity: int
) -> Bool[Array, "envs time entries"]:
    """Returns which entries each step remembers.

    The last `length` entries of the memory belong to the current episode. A step remembers its own entry and earlier
    entries of the same episode, at most `capacity` in total.
    """
    num_steps = is_first.shape[0]
    start = _starts(is_first, length).T
    entry, now = jnp.arange(-capacity, num_steps)[None, None], jnp.arange(num_steps)[None, :, None]
    return (entry >= start[..., None]) & (entry <= now) & (entry > now - capacity)


def remembered_lengths(
    is_first: Bool[Array, "time envs"], length: Int[Array, " envs"], capacity: int
) -> Int[Array, "time+1 envs"]:
    """Returns how many entries are remembered before the first step, and after each step."""
    steps = jnp.arange(1, is_first.shape[0] + 1)[:, None]
    after = jnp.minimum(steps - _starts(is_first, length), capacity)
    return jnp.concatenate([length[None], after.astype(length.dtype)])


def _starts(is_first: Bool[Array, "time envs"], length: Int[Array, " envs"]) -> Int[Array, "time envs"]:
    """Returns at which step the episode of each step began, or its first remembered entry, a negative number."""
    time = jnp.arange(is_first.shape[0])[:, None]
    return jax.lax.cummax(jnp.where(is_first, time, -length[None]), axis=0)


def piece_length(num_steps: int, capacity: int) -> int:
    """Returns the number of steps of a piece of the rollout. A rollout that is not longer than the memory is one."""
    num_pieces = math.ceil(num_steps / capacity)
    return math.ceil(num_steps / num_pieces)


def pieces_of_entries(
    entries: Shaped[Array, "envs entries *F"], num_steps: int, capacity: int
) -> Shaped[Array, "envs_pieces piece_entries *F"]:
    """Returns the entries of each piece of the rollout: its steps, after the `capacity` entries before them."""
    length = piece_length(num_steps, capacity)
    starts = jnp.arange(0, num_steps, length)
    # The last piece may be shorter. Its missing steps have any entry, since `join_pieces` drops them.
    index = jnp.minimum(starts[:, None] + jnp.arange(capacity + length)[None], entries.shape[1] - 1)
    pieces = entries[:, index]
    return pieces.reshape(-1, *pieces.shape[2:])


def remembered_entries_of_pieces(
    is_first: Bool[Array, "time envs"], lengths: Int[Array, "time+1 envs"], capacity: int
) -> Bool[Array, "envs_pieces piece piece_entries"]:
    """Returns `remembered_entries` of each piece of the rollout."""
    num_steps, num_envs = is_first.shape
    length = piece_length(num_steps, capacity)
    missing = -num_steps % length
    filled = jnp.concatenate([is_first, jnp.zeros((missing, num_envs), bool)])
    pieces = filled.reshape(-1, length, num_envs)
    found = jax.vmap(lambda first, before: remembered_entries(first, before, capacity), out_axes=1)(
        pieces, lengths[:-1:length]
    )
    return found.reshape(-1, *found.shape[2:])


def join_pieces(
    values: Shaped[Array, " envs_pieces_steps"], num_steps: int, num_envs: int
) -> Shaped[Array, " steps"]:
    """Returns the values of the steps of all pieces in order of environment and time."""
    return values.reshape(num_envs, -1)[:, :num_steps].reshape(-1)

"""Computes a function for few of many steps."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from gemax.types import Tree


def apply_to_few(function: Callable[[Tree], Tree], is_chosen: Bool[Array, "time envs"], steps: Tree) -> Tree:
    """Applies a function of steps [time, envs, ...] where `is_chosen`. The other results are arbitrary.

    If at most an eighth of the steps is chosen, only an eighth is computed. Under `vmap`, both are.
    """
    max_chosen = -(-is_chosen.size // 8)

    def apply_to_chosen(steps: Tree) -> Tree:
        # The indices are padded with one beyond the last step, where results are dropped.
        index = jnp.flatnonzero(is_chosen, size=max_chosen, fill_value=is_chosen.size)
        chosen = jax.tree.map(
            lambda leaf: leaf.reshape(1, -1, *leaf.shape[2:]).at[:, index].get(mode="clip"), steps
        )

        def scatter(values: Array) -> Array:
            results = jnp.zeros((is_chosen.size, *values.shape[2:]), values.dtype)
            results = results.at[index].set(values[0], mode="drop")
            return results.reshape(*is_chosen.shape, *values.shape[2:])

        return jax.tree.map(scatter, function(chosen))

    return jax.lax.cond(jnp.sum(is_chosen) <= max_chosen, apply_to_chosen, function, steps)

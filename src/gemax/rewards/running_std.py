"""Rewards in units of their running standard deviation."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.core.moments import Moments, std, update_moments
from gemax.types import tree_where

MIN_RELATIVE_STD = 0.01
"""Values are divided by at least this share of their mean, so that equal values give 100 instead of infinity."""


def divide_by_running_std(
    moments: Moments, values: Float[Array, "time envs"], mask: Bool[Array, "time envs"], *, decay: float
) -> tuple[Float[Array, "time envs"], Moments]:
    """Returns the values divided by their running standard deviation, and the updated moments.

    The mask selects the values that the moments count. The deviation excludes this rollout, so that a step has the
    same reward alone as within its rollout. Only the first rollout, and one after rollouts of equal values, uses its
    own deviation.
    """
    updated = update_moments(moments, values, mask & jnp.isfinite(values), decay=decay)
    is_known = (moments.weight > 0) & (moments.variance > 0)
    used = tree_where(is_known, moments, updated)
    return values / jnp.maximum(std(used), MIN_RELATIVE_STD * used.mean), updated

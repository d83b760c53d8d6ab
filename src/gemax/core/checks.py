"""Checks of array arguments.

Shapes are always checked. Values are checked only for concrete arrays: inside `jit` and `grad`, traced arrays have
no values yet.
"""

import jax.core
import numpy as np
from jaxtyping import Array, Shaped


def is_concrete(array: Shaped[Array, "..."] | np.ndarray) -> bool:
    """Returns whether the array has values, that is, is not being traced by JAX."""
    return not isinstance(array, jax.core.Tracer)


def check_same_shape(**arrays: Shaped[Array, "..."] | np.ndarray | None) -> None:
    """Raises a ValueError if the shapes differ. Arguments that are None are ignored."""
    shapes = {name: array.shape for name, array in arrays.items() if array is not None}
    if len(set(shapes.values())) > 1:
        listing = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"these must have the same shape, one entry per state; got {listing}.")


def check_similarity(similarity: Shaped[Array, "..."] | np.ndarray) -> None:
    """Raises a ValueError if a similarity lies outside [0, 1]."""
    if not is_concrete(similarity) or similarity.size == 0:
        return
    # NumPy, because jax.numpy functions would be traced if another argument is being traced.
    values = np.asarray(similarity)
    low, high = float(values.min()), float(values.max())
    # The mean over many negatives may exceed 1 by a rounding error.
    if not (low >= 0 and high <= 1 + 1e-5):
        raise ValueError(
            f"similarity must lie in [0, 1]; got values from {low:.3g} to {high:.3g}. Did you pass a distance?"
        )


def check_weight(weight: Shaped[Array, "..."] | np.ndarray | None, name: str = "weight") -> None:
    """Raises a ValueError if a weight is negative or all weights are zero."""
    if weight is None or not is_concrete(weight):
        return
    values = np.asarray(weight)
    if not (values > 0).any():
        raise ValueError(f"{name} must leave at least one state; got an empty mask of shape {values.shape}.")
    if (values < 0).any():
        raise ValueError(f"{name} must not be negative; got a minimum of {float(values.min()):.3g}.")


def check_probability(probability: Shaped[Array, "..."] | np.ndarray, name: str = "probability") -> None:
    """Raises a ValueError if an entry is negative or the entries do not sum to 1."""
    if not is_concrete(probability):
        return
    values = np.asarray(probability)
    low, total = float(values.min()), float(values.sum())
    if not (low >= 0 and abs(total - 1) < 1e-3):
        raise ValueError(
            f"{name} must be zero or more and sum to 1; got a minimum of {low:.3g} "
            f"and a sum of {total:.6g}. Did you pass counts?"
        )

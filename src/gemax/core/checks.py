"""Questions asked of arguments before anything is compiled.

Shapes and Python numbers are always known. The values of an array are known only outside of `jit` and
`grad`; inside, where they are not, the questions about values are passed over.
"""

import math

import jax.core
import numpy as np
from jaxtyping import Array, Shaped


def is_known(array: Shaped[Array, "..."] | np.ndarray) -> bool:
    """Whether the array holds numbers rather than a promise of numbers made while tracing."""
    return not isinstance(array, jax.core.Tracer)


def check_alpha(alpha: float) -> None:
    """Refuses a Tsallis index for which the objective has no maximum."""
    if not alpha < 2:
        raise ValueError(f"alpha must be below 2, where 1 is Shannon; got {alpha}.")


def check_positive(name: str, value: float) -> None:
    """Refuses zero, negative and non-finite numbers."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite; got {value}.")


def check_not_negative(name: str, value: float) -> None:
    """Refuses negative and non-finite numbers."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be zero or more, and finite; got {value}.")


def check_fraction(name: str, value: float) -> None:
    """Refuses numbers outside of [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {value}.")


def check_same_shape(**arrays: Shaped[Array, "..."] | np.ndarray | None) -> None:
    """Refuses arrays whose shapes differ; those that are None are left out."""
    shapes = {name: array.shape for name, array in arrays.items() if array is not None}
    if len(set(shapes.values())) > 1:
        listing = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"these must have the same shape, one entry for each state; got {listing}.")


def check_similarity(similarity: Shaped[Array, "..."] | np.ndarray) -> None:
    """Refuses a similarity outside of [0, 1]: most often it is a distance."""
    if not is_known(similarity) or similarity.size == 0:
        return
    # In NumPy: while something else is being traced, jax would make promises of known numbers too.
    values = np.asarray(similarity)
    low, high = float(values.min()), float(values.max())
    # A mean over many negatives may round to a hair above one.
    if not (low >= 0 and high <= 1 + 1e-5):
        raise ValueError(
            f"similarity must lie in [0, 1]; got values from {low:.3g} to {high:.3g}. Did you pass a distance?"
        )


def check_weight(weight: Shaped[Array, "..."] | np.ndarray | None, name: str = "weight") -> None:
    """Refuses weights that are negative or leave no state to average over."""
    if weight is None or not is_known(weight):
        return
    values = np.asarray(weight)
    if not (values > 0).any():
        raise ValueError(f"{name} must leave at least one state; got an empty mask of shape {values.shape}.")
    if (values < 0).any():
        raise ValueError(f"{name} must not be negative; got a smallest value of {float(values.min()):.3g}.")


def check_probability(probability: Shaped[Array, "..."] | np.ndarray, name: str = "probability") -> None:
    """Refuses numbers that are negative or do not sum to one: most often they are counts."""
    if not is_known(probability):
        return
    values = np.asarray(probability)
    low, total = float(values.min()), float(values.sum())
    if not (low >= 0 and abs(total - 1) < 1e-3):
        raise ValueError(
            f"{name} must be zero or more and sum to 1; got a smallest value of {low:.3g} "
            f"and a sum of {total:.6g}. Did you pass counts?"
        )

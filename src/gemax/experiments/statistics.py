"""Summaries over seeds."""

import math

import numpy as np
from jaxtyping import Float

STUDENT_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom."""


def mean_and_interval(
    values: Float[np.ndarray, "seeds *points"],
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """The mean over seeds and the half-width of its 95 % confidence interval; NaN where one seed says nothing."""
    num_seeds = values.shape[0]
    mean = values.mean(axis=0)
    if num_seeds < 2:
        return mean, np.full_like(mean, math.nan)
    quantile = STUDENT_T_95.get(num_seeds - 1, 1.96)
    return mean, quantile * values.std(axis=0, ddof=1) / math.sqrt(num_seeds)

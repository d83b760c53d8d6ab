"""Entropies of known distributions, in nats. Tests and reports compare with them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from gemax.core.checks import check_probability
from gemax.core.similarity import similarity_profile


def visitation_entropy(visits: Real[np.ndarray, " cells"]) -> float:
    """Returns the Shannon entropy of visitation counts or frequencies, computed with NumPy."""
    probability = visits[visits > 0] / visits.sum()
    return float(-(probability * np.log(probability)).sum())


def shannon_entropy(probability: Float[Array, " N"]) -> Float[Array, ""]:
    """Returns `H(p) = -E[ln p(x)]`."""
    return tsallis_entropy(probability, alpha=1.0)


def geometric_entropy(probability: Float[Array, " N"], similarity: Float[Array, "N N"]) -> Float[Array, ""]:
    """Returns the geometry-aware entropy `H_k(p) = -E[ln p_k(x)]`, in which similar states count as one."""
    return tsallis_entropy(probability, 1.0, similarity)


def tsallis_entropy(
    probability: Float[Array, " N"], alpha: float, similarity: Float[Array, "N N"] | None = None
) -> Float[Array, ""]:
    """Returns `H_{α,k}(p) = (1 - E[p_k(x)^(α-1)]) / (α - 1)`, which is `H_k` at α = 1.

    Without a similarity, p_k = p.
    """
    check_probability(probability)
    profile = probability if similarity is None else similarity_profile(similarity, probability)
    log_profile = jnp.log(jnp.where(profile > 0, profile, 1.0))
    surprise = -log_profile if alpha == 1 else -jnp.expm1((alpha - 1.0) * log_profile) / (alpha - 1.0)
    return jnp.sum(jnp.where(probability > 0, probability * surprise, 0.0))

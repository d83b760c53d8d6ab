"""Entropies of a known distribution: the truth that tests and reports compare with."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_probability
from gemax.core.similarity import similarity_profile


def shannon_entropy(probability: Float[Array, " N"]) -> Float[Array, ""]:
    """`H(p) = -E[ln p(x)]`, in nats."""
    check_probability(probability)
    return _expected(probability, -jnp.log(_positive(probability)))


def geometric_entropy(probability: Float[Array, " N"], similarity: Float[Array, "N N"]) -> Float[Array, ""]:
    """The geometry-aware entropy `H_k(p) = -E[ln p_k(x)]`: states that are alike count as one."""
    check_probability(probability)
    profile = similarity_profile(similarity, probability)
    return _expected(probability, -jnp.log(_positive(profile)))


def tsallis_entropy(
    probability: Float[Array, " N"], alpha: float, similarity: Float[Array, "N N"] | None = None
) -> Float[Array, ""]:
    """`H_{α,k}(p) = (1 - E[p_k(x)^(α-1)]) / (α - 1)`; Shannon at α = 1, plain Tsallis without a similarity."""
    check_probability(probability)
    profile = probability if similarity is None else similarity_profile(similarity, probability)
    log_profile = jnp.log(_positive(profile))
    if alpha == 1:
        return _expected(probability, -log_profile)
    return _expected(probability, -jnp.expm1((alpha - 1.0) * log_profile) / (alpha - 1.0))


def _positive(values: Float[Array, " N"]) -> Float[Array, " N"]:
    return jnp.where(values > 0, values, 1.0)


def _expected(probability: Float[Array, " N"], values: Float[Array, " N"]) -> Float[Array, ""]:
    return jnp.sum(jnp.where(probability > 0, probability * values, 0.0))

"""The GEM objective, which g, the policy and the embedding maximise together, and the policy's reward.

All functions take ln g rather than g, and the expectations over negatives as a `Contrast`
(`gemax.core.expectation`). Objectives are to be maximised; whoever minimises negates.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_alpha, check_same_shape, check_similarity, check_weight
from gemax.core.expectation import Contrast, mean
from gemax.types import Weight

SMALLEST_G = 1e-8
"""Added to g by `alg:taco`, so that ln g is finite."""

SHANNON_BAND = 1e-6
"""Indices α this close to 1 are taken as Shannon: for g in [1e-8, 1e8] each term is within 2e-5 of its size."""

LARGEST_EXPONENT = 80.0
"""Powers of g go on linearly beyond e^80, so that float32 holds them and their gradients for every α."""


def log_g_of(output: Float[Array, " N"]) -> Float[Array, " N"]:
    """Ln g from the last layer of its network: `g = softplus(output) + 1e-8`, `alg:taco`."""
    return jnp.log(jax.nn.softplus(output) + SMALLEST_G)


def contrastive_objective(
    log_h_same: Float[Array, " N"], h_other: Float[Array, " N"], weight: Weight | None = None
) -> Float[Array, ""]:
    """The general form, before h is tied to a similarity.

    `eq:taco.discrete.gen`:  E[ln h(x, x)] - E[h(x, x')] + 1

    `h_other` is the mean of h(x, x') over the negatives of x. Largest, and equal to the Shannon entropy, at
    h(x, x') = 1(x = x') / p(x) (`thm:taco.disc.gen`).
    """
    check_same_shape(log_h_same=log_h_same, h_other=h_other, weight=weight)
    check_weight(weight)
    return mean(log_h_same - h_other, weight) + 1.0


def gem_objective(
    log_g: Float[Array, " N"],
    similarity: Float[Array, " N"],
    weight: Weight | None = None,
    *,
    alpha: float = 1.0,
) -> Float[Array, ""]:
    """Estimates the geometry-aware entropy of the visited states, from below.

    `eq:taco.kernel.obj`:  E[ln g(x)] - E[k(x, x') g(x)] + 1

    Largest, and equal to H_k, at g = 1 / p_k (`thm:taco.kernel`). With the indicator as similarity it is
    `eq:taco.discrete`. For α other than 1 it is the Tsallis generalisation of `app:proofs`, written so that it
    stays accurate near α = 1:

        1 + (2 - α) E[(g(x)^(1-α) - 1) / (1 - α)] - E[k(x, x') g(x)^(2-α)]

    `similarity` is `E[k(x, x')]` for each x: `Contrast.similarity`.
    """
    check_alpha(alpha)
    check_same_shape(log_g=log_g, similarity=similarity, weight=weight)
    check_similarity(similarity)
    check_weight(weight)
    return mean(positive_term(log_g, alpha) - similarity * g_power(log_g, alpha), weight) + 1.0


def gem_reward(log_g: Float[Array, " N"], contrast: Contrast, *, alpha: float = 1.0) -> Float[Array, " N"]:
    """What the policy is paid for arriving in x, so that its policy gradient is the objective's.

    `prop:aco.grad` and `alg:taco`:  1 + ln g(x) - E[k(x, x') (g(x) + g(x'))]

    The policy moves both samples of the pair, hence g(x'). g itself does not learn from this reward.
    """
    check_alpha(alpha)
    check_same_shape(log_g=log_g, similarity=contrast.similarity, similarity_g=contrast.similarity_g)
    check_similarity(contrast.similarity)
    paid = contrast.similarity * g_power(log_g, alpha) + contrast.similarity_g
    return 1.0 + positive_term(log_g, alpha) - paid


def positive_term(log_g: Float[Array, " N"], alpha: float = 1.0) -> Float[Array, " N"]:
    """What a state's own g earns: ln g, and `(2 - α) (g^(1-α) - 1) / (1 - α)` for Tsallis."""
    if _is_shannon(alpha):
        return log_g
    exponent = (1.0 - alpha) * log_g
    bounded = jnp.minimum(exponent, LARGEST_EXPONENT)
    beyond = jnp.exp(LARGEST_EXPONENT) * jnp.maximum(exponent - LARGEST_EXPONENT, 0.0)
    return (2.0 - alpha) / (1.0 - alpha) * (jnp.expm1(bounded) + beyond)


def g_power(log_g: Float[Array, "*shape"], alpha: float = 1.0) -> Float[Array, "*shape"]:
    """What similar states cost: g, and `g^(2-α)` for Tsallis."""
    exponent = log_g if _is_shannon(alpha) else (2.0 - alpha) * log_g
    bounded = jnp.exp(jnp.minimum(exponent, LARGEST_EXPONENT))
    return bounded * (1.0 + jnp.maximum(exponent - LARGEST_EXPONENT, 0.0))


def embedding_penalty(embedding: Float[Array, "N D"], weight: Weight | None = None) -> Float[Array, ""]:
    """REG of `alg:taco`, ‖f(x)‖²: a weak pull to the origin, against a drift of the whole embedding."""
    return mean(jnp.sum(embedding**2, axis=-1), weight)


def _is_shannon(alpha: float) -> bool:
    return abs(alpha - 1.0) <= SHANNON_BAND

"""The GEM objective, maximised jointly by g, the policy and the embedding, and the policy's intrinsic reward.

All functions take ln g instead of g, and the expectations over negatives as a `Contrast` (`gemax.core.expectation`).
Objectives are to be maximised; the caller negates them to obtain a loss.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.core.checks import check_same_shape, check_similarity
from gemax.core.expectation import Contrast, mean
from gemax.settings import check_alpha
from gemax.types import Weight

MIN_G = 1e-8
"""Added to g in `alg:taco`, so that ln g is finite."""

SHANNON_TOLERANCE = 1e-6
"""If α is this close to 1, the Shannon form is used. For g in [1e-8, 1e8] its relative error per term is below 2e-5."""

MAX_EXPONENT = 80.0
"""Powers of g are extrapolated linearly beyond e^80, so that they and their gradients are finite in float32."""


def log_g_of(output: Float[Array, " N"]) -> Float[Array, " N"]:
    """Returns ln g for outputs of its network: `g = softplus(output) + 1e-8`, `alg:taco`."""
    return jnp.log(jax.nn.softplus(output) + MIN_G)


def contrastive_objective(
    log_h_same: Float[Array, " N"], h_other: Float[Array, " N"], weight: Weight | None = None
) -> Float[Array, ""]:
    """Estimates the Shannon entropy from below for a general critic h(x, x').

    `eq:taco.discrete.gen`:  E[ln h(x, x)] - E[h(x, x')] + 1

    `h_other` is the mean of h(x, x') over the negatives of x. Largest, and equal to the Shannon entropy, at
    h(x, x') = 1(x = x') / p(x) (`thm:taco.disc.gen`).
    """
    check_same_shape(log_h_same=log_h_same, h_other=h_other, weight=weight)
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
    `eq:taco.discrete`. For α other than 1 it is the Tsallis generalisation of `app:proofs`, in a form that is
    accurate near α = 1:

        1 + (2 - α) E[(g(x)^(1-α) - 1) / (1 - α)] - E[k(x, x') g(x)^(2-α)]

    `similarity` is `E[k(x, x')]` for each x: `Contrast.similarity`.
    """
    check_alpha("alpha", alpha)
    check_same_shape(log_g=log_g, similarity=similarity, weight=weight)
    check_similarity(similarity)
    return mean(positive_term(log_g, alpha) - similarity * g_power(log_g, alpha), weight) + 1.0


def gem_reward(log_g: Float[Array, " N"], contrast: Contrast, *, alpha: float = 1.0) -> Float[Array, " N"]:
    """Returns the intrinsic reward for reaching x. Its policy gradient is the gradient of the objective.

    `prop:aco.grad` and `alg:taco`:  1 + ln g(x) - E[k(x, x') (g(x) + g(x'))]

    The term g(x') is there because both x and x' are sampled from the policy. g is not trained on this reward.
    """
    check_alpha("alpha", alpha)
    check_same_shape(log_g=log_g, similarity=contrast.similarity, similarity_g=contrast.similarity_g)
    check_similarity(contrast.similarity)
    negative_term = contrast.similarity * g_power(log_g, alpha) + contrast.similarity_g
    return 1.0 + positive_term(log_g, alpha) - negative_term


def positive_term(log_g: Float[Array, " N"], alpha: float = 1.0) -> Float[Array, " N"]:
    """Returns the objective's term without negatives: ln g, or `(2 - α) (g^(1-α) - 1) / (1 - α)` for Tsallis."""
    if _is_shannon(alpha):
        return log_g
    exponent = (1.0 - alpha) * log_g
    bounded = jnp.minimum(exponent, MAX_EXPONENT)
    beyond = jnp.exp(MAX_EXPONENT) * jnp.maximum(exponent - MAX_EXPONENT, 0.0)
    return (2.0 - alpha) / (1.0 - alpha) * (jnp.expm1(bounded) + beyond)


def g_power(log_g: Float[Array, "*shape"], alpha: float = 1.0) -> Float[Array, "*shape"]:
    """Returns the factor of the similarity in the objective: g, or `g^(2-α)` for Tsallis."""
    exponent = log_g if _is_shannon(alpha) else (2.0 - alpha) * log_g
    bounded = jnp.exp(jnp.minimum(exponent, MAX_EXPONENT))
    return bounded * (1.0 + jnp.maximum(exponent - MAX_EXPONENT, 0.0))


def embedding_penalty(embedding: Float[Array, "N D"], weight: Weight | None = None) -> Float[Array, ""]:
    """Returns REG of `alg:taco`, the mean of ‖f(x)‖². It keeps the embedding from drifting away from the origin."""
    return mean(jnp.sum(embedding**2, axis=-1), weight)


def _is_shannon(alpha: float) -> bool:
    return abs(alpha - 1.0) <= SHANNON_TOLERANCE

"""The losses of actor and critic on an unroll: `alg:policygradient`."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.agent.config import AgentConfig
from gemax.agent.distributions import CATEGORICAL, ActionDistribution
from gemax.core.returns import Estimate, averaged_returns, td_errors, vtrace
from gemax.types import Metrics, Transition, ends

RATIO_TOLERANCE = 1e-3
"""Importance weights up to 1 plus this do not count as clipped."""


def actor_critic_loss(
    outputs: Float[Array, "time envs A"],
    value_t: Float[Array, "time envs"],
    value_tp1: Float[Array, "time envs"],
    transitions: Transition,
    reward: Float[Array, "time envs"],
    bootstraps: Bool[Array, "time envs"],
    config: AgentConfig,
    distribution: ActionDistribution = CATEGORICAL,
) -> tuple[Float[Array, ""], Metrics]:
    """Returns policy loss + value loss - w_ent × entropy, averaged over the valid steps, and metrics.

    Args:
        outputs: Policy outputs, such as logits.
        value_t: Values of the observations.
        value_tp1: Values of the next observations.
        transitions: The steps, with the log-probabilities of the policy that acted.
        reward: Reward to learn from.
        bootstraps: Whether the return includes the value of the next observation.
        config: Estimator, discount and weights.
        distribution: Action distribution of the outputs.
    """
    log_prob, entropy_t = distribution.log_prob_and_entropy(outputs, transitions.action)
    ratio = jnp.exp(log_prob - transitions.log_prob)
    discount = config.discount * bootstraps
    estimate = jax.lax.stop_gradient(
        _estimate(ratio, reward, discount, value_t, value_tp1, ends(transitions), config)
    )
    assert transitions.is_valid is not None
    weight = transitions.is_valid / jnp.maximum(jnp.sum(transitions.is_valid), 1)
    advantage = estimate.advantage
    if config.normalise_advantages:
        centre = jnp.sum(weight * advantage)
        advantage = (advantage - centre) / (jnp.sqrt(jnp.sum(weight * (advantage - centre) ** 2)) + 1e-8)
    if config.policy_clip:
        advantage = jnp.where(is_ppo_clipped(ratio, advantage, config.policy_clip), 0.0, advantage)
    policy_loss = -jnp.sum(weight * log_prob * jax.lax.stop_gradient(advantage))
    value_loss = jnp.sum(weight * (value_t - estimate.target) ** 2)
    entropy = jnp.sum(weight * entropy_t)
    total = policy_loss + value_loss - config.entropy_cost * entropy
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "action_entropy": entropy}
    if config.returns == "vtrace":
        # If the policy that acted is the one that is trained, the ratios are 1, except for rounding.
        metrics["clipped_importance_weights"] = jnp.sum(weight * (ratio > 1 + RATIO_TOLERANCE))
    return total, metrics


def is_ppo_clipped(
    ratio: Float[Array, "time envs"], advantage: Float[Array, "time envs"], policy_clip: float
) -> Bool[Array, "time envs"]:
    """Returns where PPO's clipped objective has no gradient.

    `min(ratio A, clip(ratio, 1 - ε, 1 + ε) A)` is constant where the policy has moved beyond ε in the direction of the
    advantage (Schulman et al. 2017, equation 7).
    """
    return jnp.where(advantage > 0, ratio > 1 + policy_clip, ratio < 1 - policy_clip)


def _estimate(
    ratio: Float[Array, "time envs"],
    reward: Float[Array, "time envs"],
    discount: Float[Array, "time envs"],
    value_t: Float[Array, "time envs"],
    value_tp1: Float[Array, "time envs"],
    ended: Bool[Array, "time envs"],
    config: AgentConfig,
) -> Estimate:
    """Returns the value targets and advantages that the configuration selects."""
    steps = reward, discount, value_t, value_tp1
    if config.returns == "vtrace":
        estimate = vtrace(*steps, ended, ratio, vtrace_lambda=config.vtrace_lambda)
    else:
        target = averaged_returns(reward, discount, value_tp1, ended)
        estimate = Estimate(target, target - value_t)
    if config.advantage == "return":
        return estimate
    weight = jnp.minimum(ratio, 1.0) if config.returns == "vtrace" else 1.0
    return Estimate(estimate.target, weight * td_errors(*steps))

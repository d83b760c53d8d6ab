"""What the actor and the critic learn from a trace: `alg:policygradient`."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from gemax.agent.distributions import CATEGORICAL, ActionDistribution
from gemax.core.returns import Estimate, averaged_returns, td_errors, vtrace
from gemax.types import Metrics


@dataclass(frozen=True)
class LossSettings:
    """How actor and critic learn."""

    returns: Literal["averaged", "vtrace"] = "vtrace"
    """The mean of n-step returns, for steps of the policy itself; or V-trace, also for those of older policies."""
    advantage: Literal["td", "return"] = "return"
    """The TD error, as in `alg:policygradient`, or the return less the value."""
    trace_decay: float = 0.95
    """λ of V-trace."""
    discount: float = 1.0
    """γ."""
    entropy_cost: float = 1e-3
    """w_ent: what an even choice of actions is worth."""


class Trace(NamedTuple):
    """What the losses need of some steps in order."""

    action: Shaped[Array, "time worlds *parts"]
    log_probability: Float[Array, "time worlds"]
    """Under the policy that acted."""
    reward: Float[Array, "time worlds"]
    """Extrinsic and intrinsic, mixed."""
    ends: Bool[Array, "time worlds"]
    bootstraps: Bool[Array, "time worlds"]
    """Whether the value of the state arrived in counts: not after a terminal state."""
    is_valid: Bool[Array, "time worlds"]
    """Whether the step happened at all: the first window is not yet full."""


def actor_critic_loss(
    outputs: Float[Array, "time worlds A"],
    value_t: Float[Array, "time worlds"],
    value_tp1: Float[Array, "time worlds"],
    trace: Trace,
    settings: LossSettings,
    actions: ActionDistribution = CATEGORICAL,
) -> tuple[Float[Array, ""], Metrics]:
    """PLOSS + VLOSS - w_ent ENT, averaged over the steps."""
    log_probability, entropy_t = actions.judge(outputs, trace.action)
    ratio = jnp.exp(log_probability - trace.log_probability)
    estimate = jax.lax.stop_gradient(_estimate(ratio, value_t, value_tp1, trace, settings))
    share = trace.is_valid / jnp.maximum(jnp.sum(trace.is_valid), 1)
    policy_loss = -jnp.sum(share * log_probability * estimate.advantage)
    value_loss = jnp.sum(share * (value_t - estimate.target) ** 2)
    entropy = jnp.sum(share * entropy_t)
    total = policy_loss + value_loss - settings.entropy_cost * entropy
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "action_entropy": entropy}
    return total, metrics


def _estimate(
    ratio: Float[Array, "time worlds"],
    value_t: Float[Array, "time worlds"],
    value_tp1: Float[Array, "time worlds"],
    trace: Trace,
    settings: LossSettings,
) -> Estimate:
    discount = settings.discount * trace.bootstraps
    if settings.returns == "vtrace":
        estimate = vtrace(
            trace.reward, discount, value_t, value_tp1, trace.ends, ratio, trace_decay=settings.trace_decay
        )
    else:
        target = averaged_returns(trace.reward, discount, value_tp1, trace.ends)
        estimate = Estimate(target, target - value_t)
    if settings.advantage == "return":
        return estimate
    weight = jnp.minimum(ratio, 1.0) if settings.returns == "vtrace" else 1.0
    return Estimate(estimate.target, weight * td_errors(trace.reward, discount, value_t, value_tp1))

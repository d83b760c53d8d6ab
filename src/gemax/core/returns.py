"""Returns and advantages for the actor-critic. Time is the first axis; any other axes are a batch.

At time t the agent takes an action in x_t, receives `reward_t` and reaches x_{t+1}.

- `value_tp1` is the value of x_{t+1}, before any reset.
- `discount_t` is γ, or 0 if x_{t+1} is terminal.
- `done_t` is true if the episode ends at x_{t+1}, by termination or truncation. A truncated episode has a non-zero
  discount, so that the value of its last state is bootstrapped.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.core.checks import check_same_shape
from gemax.settings import check_fraction, check_nonnegative


class Estimate(NamedTuple):
    """The regression target of the critic and the advantage of the actor."""

    target: Float[Array, "time *batch"]
    advantage: Float[Array, "time *batch"]


def averaged_returns(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
    done_t: Bool[Array, "time *batch"],
) -> Float[Array, "time *batch"]:
    """Returns the mean of the 1-step, 2-step … returns up to the end of the episode or of the unroll.

    `alg:policygradient`:  RET(t) = 1 / (T - t) Σ_m (r_t + … + r_{t+m} + V(x_{t+m+1})), here with a discount.

    With L the number of remaining steps and S = L · RET, computed backwards in time:
    `S_t = L_t r_t + γ (V(x_{t+1}) + S_{t+1})`.
    """
    check_same_shape(reward_t=reward_t, discount_t=discount_t, value_tp1=value_tp1, done_t=done_t)

    def backwards(later, step):
        num_steps_tp1, sum_tp1 = later
        reward, discount, value, done = step
        num_steps = 1.0 + jnp.where(done, 0.0, num_steps_tp1)
        total = num_steps * reward + discount * (value + jnp.where(done, 0.0, sum_tp1))
        return (num_steps, total), total / num_steps

    zeros = (jnp.zeros_like(reward_t[0]), jnp.zeros_like(reward_t[0]))
    steps = (reward_t, discount_t, value_tp1, done_t)
    return jax.lax.scan(backwards, zeros, steps, reverse=True)[1]


def td_errors(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
) -> Float[Array, "time *batch"]:
    """Returns `r_t + γ V(x_{t+1}) - V(x_t)`, the advantage of `alg:policygradient`."""
    check_same_shape(reward_t=reward_t, discount_t=discount_t, value_t=value_t, value_tp1=value_tp1)
    return reward_t + discount_t * value_tp1 - value_t


def vtrace(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
    done_t: Bool[Array, "time *batch"],
    ratio_t: Float[Array, "time *batch"],
    *,
    vtrace_lambda: float = 1.0,
    max_ratio: float = 1.0,
) -> Estimate:
    """Returns off-policy corrected targets and advantages (V-trace, Espeholt et al. 2018).

    `ratio_t` is the importance ratio of the current policy to the behaviour policy. If it is 1, the target is the
    λ-return with λ = `vtrace_lambda`, and the advantage is the target minus the value.
    """
    check_same_shape(reward_t=reward_t, done_t=done_t, ratio_t=ratio_t)
    check_fraction("vtrace_lambda", vtrace_lambda)
    check_nonnegative("max_ratio", max_ratio)
    clipped_ratio = jnp.minimum(ratio_t, max_ratio)
    error = clipped_ratio * td_errors(reward_t, discount_t, value_t, value_tp1)
    decay = jnp.where(done_t, 0.0, discount_t * vtrace_lambda * jnp.minimum(ratio_t, 1.0))

    def backwards(correction_tp1, step):
        error_t, decay_t = step
        correction_t = error_t + decay_t * correction_tp1
        return correction_t, correction_t

    correction = jax.lax.scan(backwards, jnp.zeros_like(error[0]), (error, decay), reverse=True)[1]
    target = value_t + correction
    # The advantage bootstraps from the target of the next step, within the same episode and unroll.
    target_tp1 = jnp.concatenate([target[1:], value_tp1[-1:]])
    next_value = jnp.where(done_t, value_tp1, vtrace_lambda * target_tp1 + (1.0 - vtrace_lambda) * value_tp1)
    return Estimate(target, clipped_ratio * td_errors(reward_t, discount_t, value_t, next_value))

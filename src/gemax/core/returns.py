"""Returns and advantages for the actor-critic. Time is the first axis; any others are a batch.

At time t an action is taken in x_t, earns `reward_t` and arrives in x_{t+1}. `value_tp1` is the value of the
state arrived in, *before* any reset. `discount_t` is γ, and 0 where that state is terminal. `ends_t` says that
the episode ends there, terminated or cut short: nothing later belongs to it. A cut (truncated) episode has
`ends_t` with a discount that is not zero: the value of the last state stands for the rest.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.core.checks import check_fraction, check_not_negative, check_same_shape


class Estimate(NamedTuple):
    """What the critic is to learn, and what the actor is to follow."""

    target: Float[Array, "time *batch"]
    advantage: Float[Array, "time *batch"]


def averaged_returns(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
    ends_t: Bool[Array, "time *batch"],
) -> Float[Array, "time *batch"]:
    """The mean of the 1-step, 2-step … returns up to the end of the episode or of the trace.

    `alg:policygradient`:  RET(t) = 1 / (T - t) Σ_m (r_t + … + r_{t+m} + V(x_{t+m+1})), with a discount.

    With L the number of steps left and S = L · RET: `S_t = L_t r_t + γ (V(x_{t+1}) + S_{t+1})`, backwards.
    """
    check_same_shape(reward_t=reward_t, discount_t=discount_t, value_tp1=value_tp1, ends_t=ends_t)

    def backwards(later, step):
        num_steps_tp1, sum_tp1 = later
        reward, discount, value, ends = step
        num_steps = 1.0 + jnp.where(ends, 0.0, num_steps_tp1)
        total = num_steps * reward + discount * (value + jnp.where(ends, 0.0, sum_tp1))
        return (num_steps, total), total / num_steps

    nothing = (jnp.zeros_like(reward_t[0]), jnp.zeros_like(reward_t[0]))
    steps = (reward_t, discount_t, value_tp1, ends_t)
    return jax.lax.scan(backwards, nothing, steps, reverse=True)[1]


def td_errors(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
) -> Float[Array, "time *batch"]:
    """`r_t + γ V(x_{t+1}) - V(x_t)`: the advantage of `alg:policygradient`."""
    check_same_shape(reward_t=reward_t, discount_t=discount_t, value_t=value_t, value_tp1=value_tp1)
    return reward_t + discount_t * value_tp1 - value_t


def vtrace(
    reward_t: Float[Array, "time *batch"],
    discount_t: Float[Array, "time *batch"],
    value_t: Float[Array, "time *batch"],
    value_tp1: Float[Array, "time *batch"],
    ends_t: Bool[Array, "time *batch"],
    ratio_t: Float[Array, "time *batch"],
    *,
    trace_decay: float = 1.0,
    largest_ratio: float = 1.0,
) -> Estimate:
    """Off-policy corrected returns and advantages (V-trace, Espeholt et al. 2018).

    `ratio_t` is π(a_t) now over what it was when the action was taken. Where it is 1, the target is the
    λ-return with λ = `trace_decay`, and the advantage is the target less the value.
    """
    check_same_shape(
        reward_t=reward_t,
        discount_t=discount_t,
        value_t=value_t,
        value_tp1=value_tp1,
        ends_t=ends_t,
        ratio_t=ratio_t,
    )
    check_fraction("trace_decay", trace_decay)
    check_not_negative("largest_ratio", largest_ratio)
    clipped_ratio = jnp.minimum(ratio_t, largest_ratio)
    error = clipped_ratio * td_errors(reward_t, discount_t, value_t, value_tp1)
    carry_on = jnp.where(ends_t, 0.0, discount_t * trace_decay * jnp.minimum(ratio_t, 1.0))

    def backwards(correction_tp1, step):
        error_t, carry_on_t = step
        correction_t = error_t + carry_on_t * correction_tp1
        return correction_t, correction_t

    correction = jax.lax.scan(backwards, jnp.zeros_like(error[0]), (error, carry_on), reverse=True)[1]
    target = value_t + correction
    # One step ahead stands the corrected value of the next state, as far as it is of this episode and trace.
    corrected_tp1 = jnp.concatenate([target[1:], value_tp1[-1:]])
    next_tp1 = jnp.where(ends_t, value_tp1, trace_decay * corrected_tp1 + (1.0 - trace_decay) * value_tp1)
    return Estimate(target, clipped_ratio * td_errors(reward_t, discount_t, value_t, next_tp1))

"""The agent section of a configuration: network sizes, unrolls, optimiser and actor-critic losses."""

from dataclasses import dataclass
from typing import Literal

from gemax.settings import Fraction, NonNegative, NonNegativeInt, Positive, PositiveInt


@dataclass(frozen=True)
class AgentConfig:
    """The recurrent actor-critic."""

    learning_rate: Positive = 1e-3
    """Learning rate of policy and value."""
    learning_rate_half_life: NonNegativeInt = 0
    """Halve the learning rate after this many updates in which nine of ten recent episodes reach the highest return so
    far. 0 keeps it constant. Updates with a lower return count less. It never falls below a tenth."""
    unroll_length: PositiveInt = 30
    """Steps per environment that the actor-critic trains on in each update (the paper's trace length)."""
    unroll_period: PositiveInt = 30
    """New steps that each update collects per environment.
    If fewer than `unroll_length`, older steps are reused off-policy."""
    update_epochs: PositiveInt = 1
    """Passes of policy and value over each unroll."""
    num_minibatches: PositiveInt = 1
    """Parts that each pass splits the environments into. Each part is one gradient step."""
    policy_every: PositiveInt = 1
    """Train policy and value only in every n-th update. The intrinsic reward trains in every update."""

    discount: Fraction = 1.0
    """Discount factor γ."""
    returns: Literal["averaged", "vtrace"] = "vtrace"
    """Return estimate: V-trace, or the mean of n-step returns, which does not correct for steps of older policies."""
    advantage: Literal["td", "return"] = "return"
    """Advantage: the TD error, as in the paper's algorithm (`td`), or the return minus the value (`return`)."""
    vtrace_lambda: Fraction = 0.95
    """λ of V-trace."""
    entropy_cost: NonNegative = 1e-3
    """w_ent: weight of the policy's entropy in the loss."""
    policy_clip: NonNegative = 0.0
    """PPO's clip range ε: ignore steps whose action probability has already moved by more than this share in the
    direction of the advantage. 0 disables it."""
    normalise_advantages: bool = False
    """Standardise the advantages of each gradient step to mean 0 and standard deviation 1."""
    return_scale: NonNegative = 0.0
    """Scale extrinsic rewards so that the largest recent discounted return, or the largest loss within an episode, has
    this absolute value. 0 does not scale them."""

    adam_beta1: Fraction = 0.0
    """β1 of Adam, for all networks."""
    adam_beta2: Fraction = 0.95
    """β2 of Adam, for all networks."""
    max_grad_norm: NonNegative = 0.0
    """Clip gradients to this global norm. 0 disables clipping."""

    torso_size: PositiveInt = 256
    """Width of the torso of every network."""
    lstm_size: PositiveInt = 64
    """Width of the LSTM."""
    head_size: PositiveInt = 64
    """Hidden width of every head."""
    time_buckets: PositiveInt = 16
    """Size of the policy's encoding of the time step: a smoothed one-hot vector of this size."""

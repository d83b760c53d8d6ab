"""The intrinsic-reward section of the configuration."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gemax.settings import Fraction, NonNegative, NonNegativeInt, Positive, PositiveInt, TsallisIndex

Method: TypeAlias = Literal["gem", "rnd", "ngu", "ngu-rnd", "e3b", "re3", "oracle", "none", "custom"]

RndDivisor: TypeAlias = Literal["return", "error"]


@dataclass(frozen=True)
class IntrinsicConfig:
    """The intrinsic reward.

    Most fields are GEM's; other methods use the scale, and the learning rate if they have networks.
    """

    method: Method = "gem"
    """Intrinsic reward. `custom` is an `IntrinsicReward` passed from Python."""
    intrinsic_scale: NonNegative = 0.005
    """s: standard deviation of the reward of GEM and the oracle. The rewards of other methods are multiplied by it."""
    intrinsic_shift: NonNegative = 0.005
    """m: mean of the reward of GEM and the oracle."""
    reward_learning_rate: Positive = 1e-3
    """Learning rate of the intrinsic reward's networks. GEM's f and g should not learn slower than the policy."""
    anneal_updates: NonNegativeInt = 0
    """Anneal the intrinsic reward linearly to zero over this many updates. 0 disables annealing."""
    intrinsic_half_life: NonNegativeInt = 0
    """Halve the weight of the intrinsic reward after this many updates in which nine of ten recent episodes are at
    least a quarter of the way from the lowest to the highest return. 0 keeps it constant. An update below that counts
    with the square of its share. The weight never reaches zero."""
    hide_time: bool = True
    """Remove the time from observation vectors that contain it. Otherwise every step looks like a new state."""
    embedding_size: PositiveInt = 32
    """Size of the embedding f(x)."""

    similarity: Literal["learned", "exponential", "indicator", "custom"] = "learned"
    """`learned` compares embeddings, `exponential` compares observations, `indicator` is 1 for equal observations.
    `custom`: Python only."""
    similarity_scale: Positive = 1.0
    """c of k = exp(-c ‖f(x) - f(x')‖)."""
    alpha: TsallisIndex = 1.0
    """Index of the Tsallis entropy. 1 is the Shannon entropy."""
    num_negatives: NonNegativeInt = 0
    """Negatives per state, sampled from the other half of the environments. 0 uses all states of that half."""
    negative_memory_size: NonNegativeInt = 0
    """Earlier steps of each environment whose states are negatives too, at most what fits into 128 MB. They reduce the
    noise of short rollouts. 0 uses the states of the current update only, as in the paper; so does `num_negatives`."""
    negative_memory_period: PositiveInt = 16
    """One of this many steps enters the memory of earlier steps. With 16, 64 of them reach 1,024 steps back. If
    episodes have layouts of their own, every step does."""
    past_visits_decay: Fraction = 0.0
    """Decay per update of a memory of past visits for negatives, in gridworlds without noise (not in the paper).
    0 uses the states of the current update only, as in the paper."""
    episodic_weight: Literal["auto"] | Fraction = "auto"
    """Weight of the entropy within episodes, from 0 (the paper's GEM, over all episodes) to 1.
    `auto` chooses it from the similarity of different episodes."""
    episode_memory_size: PositiveInt = 128
    """Earlier states of the episode that each state is compared with, at most what fits into 128 MB."""
    huber_offset: NonNegative = 1.0
    """δ of the adjacency regulariser."""
    huber_exponent: Positive = 4.0
    """q of the adjacency regulariser."""
    adjacency_scale: NonNegative = 1.0
    """C: weight of the adjacency regulariser. 0 switches it off."""
    embedding_penalty: NonNegative = 1e-4
    """w_reg: weight of the embedding penalty ‖f(x)‖²."""
    count_decay: Fraction = 0.99
    """Decay per update of the oracle's visit counts."""
    centre_reward: bool = False
    """Subtract the running mean of the reward and add the shift, for every method, so that all have the mean reward of
    GEM. `none` then has the shift alone. Gymnasium environments always do this, except for `none`."""
    rnd_divisor: RndDivisor = "return"
    """RND divides its error by the running standard deviation of its intrinsic return, as in its paper, or of the
    error itself."""
    rnd_return_decay: Fraction = 1.0
    """Decay per update of the moments of RND's intrinsic return. 1 counts all steps equally, as in RND's paper. 0.95 is
    that of the GEM paper: rewards are then relative to recent errors."""
    normalise_reward: bool = True
    """Standardise GEM's intrinsic reward before scaling and shifting it. Without it, the shift is only used
    with `centre_reward`."""

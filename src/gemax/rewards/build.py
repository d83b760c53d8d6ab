"""Builds each method from its configuration. The rows of `registry` refer to these functions by name."""

from typing import NamedTuple

import optax

from gemax.networks import torso, torso_and_heads
from gemax.rewards.base import IntrinsicReward, no_reward
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.e3b import E3bSettings, e3b
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives import Negatives
from gemax.rewards.negatives_earlier import earlier_steps
from gemax.rewards.negatives_episode import own_episode
from gemax.rewards.negatives_episode_rows import own_episode_rows
from gemax.rewards.negatives_other_envs import other_envs
from gemax.rewards.negatives_past import past_visits
from gemax.rewards.negatives_recent import recent_episodes
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.oracle import oracle
from gemax.rewards.re3 import Re3Settings, re3
from gemax.rewards.rnd import RndSettings, distillation, rnd
from gemax.rewards.similarity import PairSimilarity


class RewardInputs(NamedTuple):
    """Inputs of the functions below, in addition to the configuration."""

    optimiser: optax.GradientTransformation
    """Optimiser of the intrinsic reward's networks."""
    torso_size: int
    head_size: int
    horizon: int
    """Maximum number of actions per episode."""
    num_actions: int | None = None
    """Number of choices of an action. None if actions are not discrete."""
    num_states: int | None = None
    """Number of true states, which the oracle counts. None if there are none to count."""
    pixels_per_cell: int | None = None
    """See `EnvSpec.pixels_per_cell`."""
    time_feature: int | None = None
    """Index of the time in observation vectors, which the reward ignores. None if there is none."""
    min_episode_steps: int = 1
    """Minimum number of actions per episode."""
    recent_negatives: bool = False
    """Whether GEM takes its negatives, and RE3 its neighbours, from recent steps. For few environments."""
    has_table: bool = False
    """Whether observations are rows of a table of all observations."""
    similarity: PairSimilarity | None = None
    """The Python function, if the configured similarity is `custom`."""


def build_none(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds the method `none`."""
    return no_reward()


def build_gem(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds GEM from its terms: the entropy over all episodes and the entropy within episodes."""
    terms = []
    if config.episodic_weight != 1:
        terms.append(Term(_negatives_over_episodes(config, inputs)))
    if config.episodic_weight != 0:
        capacity = min(config.episode_memory_size, inputs.horizon)
        own_negatives = own_episode_rows if inputs.has_table else own_episode
        negatives = own_negatives(config, inputs.similarity, capacity=capacity)
        terms.append(Term(negatives, "episode_" if terms else ""))
    sizes = config.embedding_size, *[1 for _ in terms]
    network = torso_and_heads(inputs.torso_size, inputs.head_size, sizes, inputs.pixels_per_cell)
    return gem(network, inputs.optimiser, config, tuple(terms), inputs.time_feature, inputs.min_episode_steps)


def _negatives_over_episodes(config: IntrinsicConfig, inputs: RewardInputs) -> Negatives:
    """Returns the negatives of the entropy over all episodes."""
    if config.past_visits_decay:
        return past_visits(config, inputs.similarity)
    if inputs.recent_negatives:
        return recent_episodes(config, inputs.similarity)
    if config.negative_memory_size and not config.num_negatives:
        return earlier_steps(config, inputs.similarity, capacity=config.negative_memory_size)
    return other_envs(config, inputs.similarity)


def build_oracle(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds the oracle."""
    assert inputs.num_states is not None
    return oracle(inputs.num_states, config.intrinsic_scale, config.intrinsic_shift, config.count_decay)


def build_rnd(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds RND."""
    network = torso(inputs.torso_size, inputs.pixels_per_cell)
    settings = RndSettings(divisor=config.rnd_divisor, return_decay=config.rnd_return_decay)
    return rnd(network, inputs.optimiser, config.intrinsic_scale, settings, inputs.time_feature)


def build_ngu(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds NGU."""
    assert inputs.num_actions is not None
    sizes = (config.embedding_size,)
    return ngu(
        torso_and_heads(inputs.torso_size, inputs.head_size, sizes, inputs.pixels_per_cell),
        inputs.num_actions,
        inputs.horizon,
        inputs.optimiser,
        config.intrinsic_scale,
        NguSettings(),
        inputs.time_feature,
        inputs.min_episode_steps,
    )


def build_ngu_rnd(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds NGU+RND."""
    network = torso(inputs.torso_size, inputs.pixels_per_cell)
    lifelong = distillation(network, inputs.optimiser, RndSettings(), inputs.time_feature)
    return ngu_rnd(build_ngu(config, inputs), lifelong)


def build_e3b(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds E3B."""
    assert inputs.num_actions is not None
    sizes = (config.embedding_size,)
    return e3b(
        torso_and_heads(inputs.torso_size, inputs.head_size, sizes, inputs.pixels_per_cell),
        inputs.num_actions,
        inputs.optimiser,
        config.intrinsic_scale,
        E3bSettings(),
        inputs.time_feature,
        inputs.min_episode_steps,
    )


def build_re3(config: IntrinsicConfig, inputs: RewardInputs) -> IntrinsicReward:
    """Builds RE3. Its neighbours depend on the number of environments."""
    sizes = (config.embedding_size,)
    network = torso_and_heads(inputs.torso_size, inputs.head_size, sizes, inputs.pixels_per_cell)
    settings = Re3Settings()
    return re3(
        network, config.intrinsic_scale, settings, inputs.time_feature, has_memory=inputs.recent_negatives
    )

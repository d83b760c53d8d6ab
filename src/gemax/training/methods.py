"""From the name of a method to its intrinsic reward."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from gemax.networks import torso, torso_and_heads
from gemax.rewards.base import IntrinsicReward, no_reward
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.gem import GemSettings, OwnSimilarity, gem
from gemax.rewards.gem_episodic import gem_episodic
from gemax.rewards.gem_recent import gem_recent
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.oracle import OracleSettings, oracle
from gemax.rewards.rnd import RndSettings, distillation, rnd
from gemax.training.config import Config

SMALLEST_IMAGE = 36
"""Pixels each way of the smallest image that the three convolutions leave anything of."""


class Surroundings(NamedTuple):
    """What intrinsic rewards have to know of where they are used."""

    num_actions: int
    horizon: int
    """The length of the longest episode."""
    num_squares: int
    """That the oracle counts visits to."""
    pixels_per_square: int | None
    """For the convolutions of what is seen by pixels; None where there are none."""
    time_feature: int | None
    """Which entry of an observation vector is the time."""
    few_worlds: bool = False
    """Whether GEM has to find its negatives among recent observations, in place of other worlds."""
    shortest_episode: int = 1
    """No episode has fewer actions."""


def pixels_of_image(shape: tuple[int, ...]) -> int | None:
    """Of each square, for the convolutions: one in images of other people's environments, None where there are none.

    Images that are too small for convolutions go to the network as a whole.
    """
    is_large = len(shape) == 3 and min(shape[:2]) >= SMALLEST_IMAGE
    return 1 if is_large else None


def reward_of_method(
    config: Config, surroundings: Surroundings, similarity: OwnSimilarity | None = None
) -> IntrinsicReward:
    """The intrinsic reward that a configuration names. The similarity is that of `Config.similarity` own."""
    optimiser = optimiser_of(config, config.reward_learning_rate)
    pixels, shortest = surroundings.pixels_per_square, surroundings.shortest_episode
    hidden = surroundings.time_feature if config.hide_time else None
    if config.method == "none":
        return no_reward()
    if config.method == "gem":
        f_and_g = torso_and_heads(config.torso_size, config.head_size, (config.embedding_size, 1), pixels)
        settings = _gem_settings(config, similarity)
        parts = f_and_g, config.embedding_size, optimiser, settings, hidden, shortest
        if config.per_episode:
            return gem_episodic(*parts, capacity=min(config.episode_memory, surroundings.horizon))
        return gem_recent(*parts) if surroundings.few_worlds else gem(*parts)
    if config.method == "oracle":
        settings = OracleSettings(scale=config.intrinsic_scale, shift=config.intrinsic_shift)
        return oracle(surroundings.num_squares, settings)
    distilled = torso(config.torso_size, pixels)
    if config.method == "rnd":
        return rnd(distilled, optimiser, RndSettings(scale=config.intrinsic_scale), hidden)
    embedding = torso_and_heads(config.torso_size, config.head_size, (config.embedding_size,), pixels)
    episodic = ngu(
        embedding,
        surroundings.num_actions,
        surroundings.horizon,
        optimiser,
        NguSettings(config.intrinsic_scale),
        hidden,
        shortest,
    )
    if config.method == "ngu":
        return episodic
    return ngu_rnd(episodic, distillation(distilled, optimiser, RndSettings(), hidden))


def _gem_settings(config: Config, similarity: OwnSimilarity | None) -> GemSettings:
    return GemSettings(
        similarity=similarity or config.similarity,
        similarity_scale=config.similarity_scale,
        alpha=config.alpha,
        num_negatives=config.num_negatives,
        huber_offset=config.huber_offset,
        huber_exponent=config.huber_exponent,
        adjacency_scale=config.adjacency_scale,
        regularisation=config.regularisation,
        scale=config.intrinsic_scale,
        shift=config.intrinsic_shift,
        normalise=config.normalise,
    )


def optimiser_of(config: Config, learning_rate: float) -> optax.GradientTransformation:
    """Adam as configured."""
    adam = optax.adam(learning_rate, b1=config.adam_beta1, b2=config.adam_beta2)
    if config.largest_gradient:
        adam = optax.chain(optax.clip_by_global_norm(config.largest_gradient), adam)
    # A bad update is skipped, however many there are; the loop counts them and stops.
    return optax.apply_if_finite(adam, max_consecutive_errors=jnp.iinfo(jnp.int32).max)

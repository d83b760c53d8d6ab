"""From a configuration to the functions of a run."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import optax

from gemax.agent.losses import LossSettings
from gemax.networks import agent_network, torso, torso_and_heads
from gemax.rewards.base import IntrinsicReward, no_reward
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.gem import GemSettings, OwnSimilarity, gem
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.oracle import OracleSettings, oracle
from gemax.rewards.rnd import RndSettings, distillation, rnd
from gemax.training.centring import Centring, centre, centring_of_table, empty_centring
from gemax.training.collect import Eyes
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.worlds.base import World
from gemax.worlds.gridworld import gridworld
from gemax.worlds.maps import parse_map
from gemax.worlds.registry import make_world

SMALLEST_FOR_CONVOLUTIONS = 5
"""Squares each way of the smallest image that the three convolutions leave anything of."""


OwnReward: TypeAlias = IntrinsicReward | Callable[[World, Config], IntrinsicReward]
"""An intrinsic reward, or a function that makes one for a world, where it depends on that."""


class Own(NamedTuple):
    """What a user brings along from Python, and no file can hold."""

    similarity: OwnSimilarity | None = None
    """k(x, x') between centred observations, flattened: [N, D] and [M, D] give [N, M], from 0 to 1."""
    reward: OwnReward | None = None
    """Where the intrinsic reward comes from."""


def assemble(config: Config, world: World | None = None, own: Own | None = None) -> Trainer:
    """The trainer of a configuration; its world, if there is one already, need not be built again."""
    world = world_of(config) if world is None else world
    centring, eyes = _eyes(world)
    network = agent_network(
        world.num_actions,
        world.horizon,
        torso_size=config.torso_size,
        lstm_size=config.lstm_size,
        head_size=config.head_size,
        time_buckets=config.time_buckets,
        pixels_per_square=_pixels_per_square(world),
    )
    return Trainer(
        config=config,
        world=world,
        eyes=eyes,
        network=network,
        optimiser=_optimiser(config, config.learning_rate),
        reward=_reward(config, world, own or Own()),
        loss=LossSettings(
            returns=config.returns,
            advantage=config.advantage,
            trace_decay=config.trace_decay,
            discount=config.discount,
            entropy_cost=config.entropy_cost,
        ),
        centring=centring,
    )


def world_of(config: Config) -> World:
    """The world that a configuration names, or the one of its map."""
    if not config.map_text:
        return make_world(config.world, observation=config.observation, reward_free=config.reward_free)
    return gridworld(
        config.world,
        parse_map(config.map_text),
        config.horizon,
        observation=config.observation,
        reward_free=config.reward_free,
    )


def _eyes(world: World) -> tuple[Centring, Eyes]:
    if world.finite is None:
        return empty_centring(world.observation.shape), Eyes(None)
    table = world.finite.observation_table
    centring = centring_of_table(table)
    if world.finite.has_noise:
        return centring, Eyes(None)
    return centring, Eyes(centre(centring, table))


def _pixels_per_square(world: World) -> int | None:
    """For the convolutions of what is seen by pixels; None where there are none."""
    if world.finite is None or world.finite.pixels_per_square == 1:
        return None
    height, width = world.finite.observation_table.shape[1:3]
    if min(height, width) < SMALLEST_FOR_CONVOLUTIONS:
        raise ValueError(
            f"observation must be squares for so small a map: its image has {height} x {width} squares, and the "
            f"convolutions of pixels need {SMALLEST_FOR_CONVOLUTIONS} each way."
        )
    return world.finite.pixels_per_square


def _reward(config: Config, world: World, own: Own) -> IntrinsicReward:
    _check_own(config, own)
    if own.reward is not None:
        return own.reward if isinstance(own.reward, IntrinsicReward) else own.reward(world, config)
    optimiser = _optimiser(config, config.reward_learning_rate)
    pixels, hidden = _pixels_per_square(world), world.time_feature if config.hide_time else None
    if config.method == "none":
        return no_reward()
    if config.method == "gem":
        f_and_g = torso_and_heads(config.torso_size, config.head_size, (config.embedding_size, 1), pixels)
        settings = _gem_settings(config, own)
        return gem(f_and_g, config.embedding_size, optimiser, settings, hidden, world.shortest_episode)
    if config.method == "oracle":
        settings = OracleSettings(scale=config.intrinsic_scale, shift=config.intrinsic_shift)
        return oracle(world.places.number, settings)
    distilled = torso(config.torso_size, pixels)
    if config.method == "rnd":
        return rnd(distilled, optimiser, RndSettings(scale=config.intrinsic_scale), hidden)
    embedding = torso_and_heads(config.torso_size, config.head_size, (config.embedding_size,), pixels)
    episodic = ngu(
        embedding,
        world.num_actions,
        world.horizon,
        optimiser,
        NguSettings(config.intrinsic_scale),
        hidden,
        world.shortest_episode,
    )
    if config.method == "ngu":
        return episodic
    return ngu_rnd(episodic, distillation(distilled, optimiser, RndSettings(), hidden))


def _check_own(config: Config, own: Own) -> None:
    """What is called own has to be given, and nothing else may be."""
    if (config.method == "own") != (own.reward is not None):
        raise ValueError(
            "method own goes with an intrinsic reward, which only Python can pass: gemax.train(..., reward=module), "
            f"and again to gemax.resume, evaluate and load; got {config.method!r} and {own.reward}."
        )
    if (config.similarity == "own") != (own.similarity is not None):
        raise ValueError(
            "similarity own goes with a function, which only Python can pass: gemax.train(..., similarity=function), "
            f"and again to gemax.resume, evaluate and load; got {config.similarity!r} and {own.similarity}."
        )


def _gem_settings(config: Config, own: Own) -> GemSettings:
    return GemSettings(
        similarity=own.similarity or config.similarity,
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


def _optimiser(config: Config, learning_rate: float) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate, b1=config.adam_beta1, b2=config.adam_beta2)
    if config.largest_gradient:
        adam = optax.chain(optax.clip_by_global_norm(config.largest_gradient), adam)
    # A bad update is skipped, however many there are; the loop counts them and stops.
    return optax.apply_if_finite(adam, max_consecutive_errors=jnp.iinfo(jnp.int32).max)

"""From a configuration to the functions of a run."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

from gemax.agent.distributions import distribution_of
from gemax.agent.losses import LossSettings
from gemax.environments.base import Environment
from gemax.networks import agent_network
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.centred import centred
from gemax.rewards.gem import OwnSimilarity
from gemax.training.centring import Centring, centre, centring_of_table, empty_centring
from gemax.training.collect import Eyes
from gemax.training.config import Config, is_environment
from gemax.training.learn import Trainer
from gemax.training.methods import Surroundings, optimiser_of, pixels_of_image, reward_of_method
from gemax.types import FiniteActions
from gemax.worlds.base import World
from gemax.worlds.gridworld import gridworld
from gemax.worlds.maps import parse_map
from gemax.worlds.registry import make_world

SMALLEST_FOR_CONVOLUTIONS = 5
"""Squares each way of the smallest image that the three convolutions leave anything of."""
OWN_ENVIRONMENT = "gym:own"
"""What an environment is called that a user brings along from Python."""


OwnReward: TypeAlias = IntrinsicReward | Callable[[Any, Config], IntrinsicReward]
"""An intrinsic reward, or a function that makes one for a world, where it depends on that."""


MakeEnvironment: TypeAlias = Callable[[], Any]
"""Makes a new Gymnasium environment, or a vector environment of `num_worlds` of them."""


class Own(NamedTuple):
    """What a user brings along from Python, and no file can hold."""

    similarity: OwnSimilarity | None = None
    """k(x, x') between centred observations, flattened: [N, D] and [M, D] give [N, M], from 0 to 1."""
    reward: OwnReward | None = None
    """Where the intrinsic reward comes from."""
    environment: MakeEnvironment | None = None
    """What to explore instead of a world."""


def assemble(config: Config, world: World | Environment | None = None, own: Own | None = None) -> Trainer:
    """The trainer of a configuration; its world, if there is one already, need not be built again."""
    own = own or Own()
    world = _place_of(config, own) if world is None else world
    centring, eyes = _eyes(world)
    actions = FiniteActions((world.num_actions,)) if isinstance(world, World) else world.actions
    network = agent_network(
        actions.num_inputs,
        world.horizon,
        torso_size=config.torso_size,
        lstm_size=config.lstm_size,
        head_size=config.head_size,
        time_buckets=config.time_buckets,
        pixels_per_square=_pixels_per_square(world),
        num_outputs=actions.num_outputs,
    )
    return Trainer(
        config=config,
        world=world,
        eyes=eyes,
        spec=actions,
        actions=distribution_of(actions),
        network=network,
        optimiser=optimiser_of(config, config.learning_rate),
        reward=_reward(config, world, own),
        loss=LossSettings(
            returns=config.returns,
            advantage=config.advantage,
            trace_decay=config.trace_decay,
            discount=config.discount,
            entropy_cost=config.entropy_cost,
        ),
        centring=centring,
    )


def _place_of(config: Config, own: Own) -> World | Environment:
    """The world or the environment that a configuration names."""
    if (config.world == OWN_ENVIRONMENT) != (own.environment is not None):
        raise ValueError(
            f"an environment of your own goes with {OWN_ENVIRONMENT} and has to be given, which only Python can: "
            f"gemax.train(make), and again to gemax.resume, evaluate, load and collect; got {config.world!r} and "
            f"{own.environment}."
        )
    if not is_environment(config.world):
        return world_of(config)
    if find_spec("gymnasium") is None:
        raise ValueError(f"{config.world} needs Gymnasium: pip install 'gemax[gymnasium]'")
    # Gymnasium is optional.
    from gemax.environments.finding import maker_of
    from gemax.environments.opening import environment_of

    return environment_of(
        config.world,
        own.environment or maker_of(config.world),
        horizon=config.horizon,
        workers=config.env_workers,
        num_processes=config.env_processes,
        timeout_seconds=config.env_timeout,
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


def _eyes(world: World | Environment) -> tuple[Centring, Eyes]:
    if world.finite is None:
        return empty_centring(world.observation.shape), Eyes(None)
    table = world.finite.observation_table
    centring = centring_of_table(table)
    if world.finite.has_noise:
        return centring, Eyes(None)
    return centring, Eyes(centre(centring, table))


def _pixels_per_square(world: World | Environment) -> int | None:
    """For the convolutions of what is seen by pixels; None where there are none."""
    if isinstance(world, Environment):
        return pixels_of_image(world.observation.shape)
    if world.finite is None or world.finite.pixels_per_square == 1:
        return None
    height, width = world.finite.observation_table.shape[1:3]
    if min(height, width) < SMALLEST_FOR_CONVOLUTIONS:
        raise ValueError(
            f"observation must be squares for so small a map: its image has {height} x {width} squares, and the "
            f"convolutions of pixels need {SMALLEST_FOR_CONVOLUTIONS} each way."
        )
    return world.finite.pixels_per_square


def _reward(config: Config, world: World | Environment, own: Own) -> IntrinsicReward:
    _check_own(config, own)
    if own.reward is not None:
        return own.reward if isinstance(own.reward, IntrinsicReward) else own.reward(world, config)
    if config.per_episode and config.similarity == "indicator" and world.finite is None:
        raise ValueError(
            f"similarity indicator finds no visit again in {world.name} with per_episode: what was remembered is "
            "centred as it was. Choose learned or exponential."
        )
    if config.method == "oracle" and world.places is None:
        raise ValueError(f"method oracle counts places, and {world.name} has none. Choose gem or rnd.")
    surroundings = Surroundings(
        num_actions=_num_actions(config, world),
        horizon=world.horizon,
        num_squares=1 if world.places is None else world.places.number,
        pixels_per_square=_pixels_per_square(world),
        time_feature=world.time_feature,
        shortest_episode=world.shortest_episode,
    )
    reward = reward_of_method(config, surroundings, own.similarity)
    if isinstance(world, World) or config.method == "none":
        return reward
    # Time limits are interruptions there, goals end episodes, and nothing may be earned by not reaching them.
    return centred(reward, config.intrinsic_shift)


def _num_actions(config: Config, world: World | Environment) -> int:
    """For NGU, which predicts actions; the others do not ask."""
    if isinstance(world, World):
        return world.num_actions
    if config.method not in ("ngu", "ngu-rnd") or (
        isinstance(world.actions, FiniteActions) and world.actions.is_single
    ):
        return world.actions.num_outputs
    raise ValueError(
        f"method {config.method} predicts one of finitely many actions, and {world.name} has others. Choose gem or rnd."
    )


def _check_own(config: Config, own: Own) -> None:
    """What is called own has to be given, and nothing else may be."""
    if (config.method == "own") != (own.reward is not None):
        raise ValueError(
            "method own goes with an intrinsic reward, which only Python can pass: gemax.train(..., reward=module), "
            f"and again to gemax.resume, evaluate, load and collect; got {config.method!r} and {own.reward}."
        )
    if (config.similarity == "own") != (own.similarity is not None):
        raise ValueError(
            "similarity own goes with a function, which only Python can pass: gemax.train(..., similarity=function), "
            f"and again to gemax.resume, evaluate, load and collect; got {config.similarity!r} and {own.similarity}."
        )

"""Builds the parts of a training run from its configuration. The only place that tells kinds of environments apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gemax.agent.distributions import distribution_of
from gemax.agent.optimiser import make_optimiser
from gemax.core.moments import Moments, init_moments, standardise, table_moments
from gemax.envs.base import FiniteEnv, JaxEnv, without_reward
from gemax.envs.gridworld import gridworld
from gemax.envs.imports import import_factory
from gemax.envs.maps import parse_map
from gemax.envs.registry import CUSTOM, GYM_PREFIX, JAX_PREFIX, find_env, make_env
from gemax.extras import require
from gemax.networks import agent_network
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.build import RewardInputs
from gemax.rewards.centred import centred
from gemax.rewards.registry import build_reward
from gemax.rewards.similarity import PairSimilarity
from gemax.training.collector import Collector
from gemax.training.compiled import CompiledCollector
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.memory import check_memory
from gemax.training.observations import ObservationTable
from gemax.training.stored_programs import folder_of_programs
from gemax.types import EnvSpec, FiniteActions

CUSTOM_ENV = f"{GYM_PREFIX}{CUSTOM}"
"""The `env_id` of a Gymnasium environment that a user passes from Python, and that cannot be imported."""
CUSTOM_JAX_ENV = f"{JAX_PREFIX}{CUSTOM}"
"""The `env_id` of such a `JaxEnv`."""
MIN_CELLS_FOR_CONVOLUTIONS = 5
"""Cells per side of the smallest map that the three convolutions can process."""

CustomReward: TypeAlias = IntrinsicReward | Callable[[EnvSpec, Config], IntrinsicReward]
"""An intrinsic reward, or a function that makes one for an environment."""
MakeEnv: TypeAlias = Callable[[], Any]
"""Makes a new Gymnasium environment, a vector environment of `num_envs` of them, or a `JaxEnv`."""


class CustomParts(NamedTuple):
    """Python objects that a user passes to a run. No file stores them, so resuming needs them again."""

    similarity: PairSimilarity | None = None
    """k(x, x') of standardised, flattened observations: [N, D] and [M, D] give [N, M], with values in [0, 1]."""
    reward: CustomReward | None = None
    """The intrinsic reward."""
    make_env: MakeEnv | None = None
    """Makes the environment."""
    trust: bool = False
    """Whether the module that the configuration of a run names may be imported if the run was made elsewhere."""


def assemble(config: Config, custom: CustomParts | None = None) -> Trainer:
    """Builds the trainer of a configuration.

    Raises:
        ValueError: The environment, the method and the custom parts do not fit together.
    """
    custom = custom or CustomParts()
    check_memory(config)
    _check_custom_parts(config, custom)
    collector, spec, finite = _environment(config, custom)
    _check_image_size(spec)
    observation_moments, table = _observations(spec, finite)
    agent = config.agent
    network = agent_network(
        spec.actions.num_inputs,
        spec.horizon,
        torso_size=agent.torso_size,
        lstm_size=agent.lstm_size,
        head_size=agent.head_size,
        time_buckets=agent.time_buckets,
        pixels_per_cell=spec.pixels_per_cell,
        num_outputs=spec.actions.num_outputs,
    )
    return Trainer(
        config=config,
        spec=spec,
        finite=finite,
        collector=collector,
        table=table,
        distribution=distribution_of(spec.actions),
        network=network,
        optimiser=make_optimiser(agent, agent.learning_rate),
        reward=_reward(config, spec, finite, table, custom),
        observation_moments=observation_moments,
        program_folder=_program_folder(config, custom),
    )


def _program_folder(config: Config, custom: CustomParts) -> Path | None:
    """Returns the folder of stored programs if the run contains only code of gemax, whose source they depend on."""
    is_own = config.is_compiled and not config.env.env_id.startswith(JAX_PREFIX)
    has_custom_parts = any(part is not None for part in (custom.similarity, custom.reward, custom.make_env))
    return folder_of_programs() if is_own and not has_custom_parts else None


def _environment(config: Config, custom: CustomParts) -> tuple[Collector, EnvSpec, FiniteEnv | None]:
    """Returns the collector and the specification of the environment, and its `FiniteEnv` if it is finite."""
    if find_env(config.env.env_id).is_compiled:
        env = make_jax_env(config, custom.make_env)
        return CompiledCollector(env), env.spec, env.finite
    if config.run.seeds > 1:
        raise ValueError(f"seeds must be 1 for {config.env.env_id}: each of its seeds is a run of its own.")
    require("gymnasium", f"environment {config.env.env_id}")
    # Gymnasium is optional.
    from gemax.envs.host.host_env import make_host_env
    from gemax.envs.host.make import gym_maker
    from gemax.training.host_rollout import HostCollector

    host_env = make_host_env(config.env, custom.make_env or gym_maker(config.env.env_id))
    return HostCollector(host_env), host_env.spec, None


def make_jax_env(config: Config, make_custom: MakeEnv | None = None) -> JaxEnv:
    """Makes the JAX environment of a configuration: a registered one, a gridworld from `map_text`, or the user's."""
    env = config.env
    if env.env_id.startswith(JAX_PREFIX):
        make = make_custom or import_factory(env.env_id.removeprefix(JAX_PREFIX))
        return _checked_jax_env(env.env_id, make(), reward_free=env.reward_free)
    if not env.map_text:
        return make_env(env.env_id, observation=env.observation, reward_free=env.reward_free)
    layout = parse_map(env.map_text)
    return gridworld(
        env.env_id, layout, env.horizon, observation=env.observation, reward_free=env.reward_free
    )


def _checked_jax_env(name: str, env: Any, *, reward_free: bool) -> JaxEnv:
    if not isinstance(env, JaxEnv):
        raise ValueError(f"{name} must make a gemax.JaxEnv; got {type(env).__name__}.")
    actions = env.spec.actions
    if not isinstance(actions, FiniteActions) or not actions.is_single:
        raise ValueError(
            f"{env.spec.name} must have a single discrete action to be trained in the compiled loop; got {actions}. "
            "As a Gymnasium environment it can have others."
        )
    return without_reward(env) if reward_free else env


def _observations(spec: EnvSpec, finite: FiniteEnv | None) -> tuple[Moments, ObservationTable]:
    """Returns the initial moments and the table of all observations, which is empty if they are not known."""
    if finite is None:
        return init_moments(spec.observation.shape), ObservationTable(None)
    observation_moments = table_moments(finite.observation_table)
    rows = None if finite.has_noise else standardise(observation_moments, finite.observation_table)
    return observation_moments, ObservationTable(rows)


def _check_image_size(spec: EnvSpec) -> None:
    """Refuses maps that are too small for convolutions."""
    if spec.pixels_per_cell is None:
        return
    height, width = (side // spec.pixels_per_cell for side in spec.observation.shape[:2])
    if min(height, width) < MIN_CELLS_FOR_CONVOLUTIONS:
        raise ValueError(
            f"observation must be cells for a map of {height} x {width} cells: the convolutions need at least "
            f"{MIN_CELLS_FOR_CONVOLUTIONS} x {MIN_CELLS_FOR_CONVOLUTIONS}."
        )


def _reward(
    config: Config, spec: EnvSpec, finite: FiniteEnv | None, table: ObservationTable, custom: CustomParts
) -> IntrinsicReward:
    """Builds the intrinsic reward."""
    if custom.reward is not None:
        return custom.reward if isinstance(custom.reward, IntrinsicReward) else custom.reward(spec, config)
    intrinsic, agent = config.intrinsic, config.agent
    has_memory = intrinsic.episodic_weight != 0 or intrinsic.negative_memory_size
    if has_memory and intrinsic.similarity == "indicator" and finite is None:
        raise ValueError(
            f"episodic_weight and negative_memory_size must be 0 for similarity indicator in {spec.name}: observations "
            f"of earlier updates were standardised differently, so none is equal; got {intrinsic.episodic_weight} and "
            f"{intrinsic.negative_memory_size}."
        )
    is_discrete = isinstance(spec.actions, FiniteActions) and spec.actions.is_single
    inputs = RewardInputs(
        optimiser=make_optimiser(agent, intrinsic.reward_learning_rate),
        torso_size=agent.torso_size,
        head_size=agent.head_size,
        horizon=spec.horizon,
        num_actions=spec.num_actions if is_discrete else None,
        num_states=spec.num_states,
        pixels_per_cell=spec.pixels_per_cell,
        time_feature=spec.time_feature,
        min_episode_steps=spec.min_episode_steps,
        has_table=table.rows is not None,
        similarity=custom.similarity,
    )
    reward = build_reward(intrinsic, inputs)
    # A positive mean reward would be an incentive never to reach a goal that ends the episode.
    is_centred = spec.truncation_bootstraps and intrinsic.method != "none"
    if is_centred or intrinsic.centre_reward:
        return centred(reward, intrinsic.intrinsic_shift)
    return reward


def _check_custom_parts(config: Config, custom: CustomParts) -> None:
    """Checks that custom parts are given exactly where the configuration names them."""
    intrinsic = config.intrinsic
    env_id = config.env.env_id
    # A function may replace an environment that could also be made or imported from its id.
    needs_env = env_id in (CUSTOM_ENV, CUSTOM_JAX_ENV) or (
        custom.make_env is not None and env_id.startswith((GYM_PREFIX, JAX_PREFIX))
    )
    for is_named, part, name, arguments in (
        (needs_env, custom.make_env, f"environment {env_id}", "make_env"),
        (intrinsic.method == "custom", custom.reward, "method custom", "..., reward=reward"),
        (
            intrinsic.similarity == "custom",
            custom.similarity,
            "similarity custom",
            "..., similarity=function",
        ),
    ):
        if is_named != (part is not None):
            problem = "is missing" if part is None else f"was given for a run with another one: {part}"
            raise ValueError(
                f"{name} needs a Python object, which {problem}. Pass it from Python, gemax.train({arguments}), and "
                "again to gemax.resume, evaluate, load and collect."
            )

"""Builds intrinsic rewards for the spaces of Gymnasium environments."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from jaxtyping import Int

from gemax.agent.optimiser import make_optimiser
from gemax.envs.host.observations import ObservationEncoder, observation_encoder
from gemax.envs.registry import GYM_PREFIX
from gemax.integrations.intrinsic_learner import IntrinsicLearner, make_learner
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.build import RewardInputs
from gemax.rewards.centred import centred
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.registry import METHODS, build_reward
from gemax.settings import check_setting, field_names
from gemax.training.config import SECTION_OF
from gemax.training.presets import configure
from gemax.types import default_pixels_per_cell

Method: TypeAlias = str | IntrinsicReward
"""The name of a method, or a custom intrinsic reward."""

NETWORK_SETTINGS = {"torso_size", "head_size", "adam_beta1", "adam_beta2", "max_grad_norm"}
"""Settings of the agent that the networks of an intrinsic reward share."""
MIN_ENVS = 8
"""With fewer environments, GEM takes negatives from recent episodes, not from other environments."""
ALLOWED_METHODS = [row.name for row in METHODS.values() if not row.needs_states]
"""Methods for environments without cells."""


REWARD_SETTINGS = {*field_names(IntrinsicConfig), *NETWORK_SETTINGS} - {"method", "intrinsic_half_life"}
"""Settings that an intrinsic reward uses without gemax's agent. The half-life depends on the agent's returns."""


class RewardOptions(NamedTuple):
    """A user's choice of intrinsic reward."""

    method: Method
    settings: dict[str, Any]
    """Fields of `gemax.Config` that concern the intrinsic reward."""
    time_feature: int | None = None
    """Index of the time in the observation vector, if the vector contains it."""
    horizon: int = 1
    """Maximum episode length. NGU and GEM remember at most this many steps of an episode."""


def build_learner(
    options: RewardOptions,
    observation_space: spaces.Space,
    action_space: spaces.Space,
    num_envs: int,
    *,
    recent_negatives: bool,
    per_step: bool = False,
) -> tuple[ObservationEncoder, IntrinsicLearner]:
    """Builds the learner of an intrinsic reward, and the encoder of its observations.

    `per_step` allows calls of the learner's `reward_step`.
    """
    encoder = observation_encoder(observation_space)
    reward = build_reward_for(options, encoder.shape, action_space, recent_negatives=recent_negatives)
    anneal_updates = options.settings.get("anneal_updates", 0)
    return encoder, make_learner(reward, encoder.shape, num_envs, anneal_updates, per_step=per_step)


def build_reward_for(
    options: RewardOptions, shape: tuple[int, ...], action_space: spaces.Space, *, recent_negatives: bool
) -> IntrinsicReward:
    """Builds the intrinsic reward for observations of this shape.

    Rewards of named methods are shifted so that their running mean is `intrinsic_shift`. With `recent_negatives`, GEM
    takes its negatives from recent episodes instead of other environments.

    Raises:
        ValueError: The method or a setting is unknown, or the method does not fit the action space.
    """
    check_options(options)
    method = options.method
    if isinstance(method, IntrinsicReward):
        return method
    for name in ("negative_memory_size", "negative_memory_period"):
        if recent_negatives and options.settings.get(name):
            raise ValueError(
                f"{name} has no effect here, where negatives come from the last 1,024 steps. Use at least {MIN_ENVS} "
                f"environments, in the wrapper also per_step=False; got {options.settings[name]}."
            )
    config = configure(GYM_PREFIX, method=method, **options.settings)
    inputs = RewardInputs(
        optimiser=make_optimiser(config.agent, config.intrinsic.reward_learning_rate),
        torso_size=config.agent.torso_size,
        head_size=config.agent.head_size,
        horizon=options.horizon,
        num_actions=int(action_space.n) if isinstance(action_space, spaces.Discrete) else None,
        pixels_per_cell=default_pixels_per_cell(shape),
        time_feature=options.time_feature,
        recent_negatives=recent_negatives,
    )
    reward = build_reward(config.intrinsic, inputs)
    return reward if method == "none" else centred(reward, config.intrinsic.intrinsic_shift)


def check_options(options: RewardOptions) -> None:
    """Raises ValueError if the method or a setting is unknown, or has no effect."""
    method, settings = options.method, options.settings
    if isinstance(method, IntrinsicReward):
        if settings:
            raise ValueError(f"a custom intrinsic reward takes no settings; got {', '.join(settings)}.")
        return
    if method not in ALLOWED_METHODS:
        hint = " The oracle counts cells, which only gemax environments have." if method == "oracle" else ""
        raise ValueError(
            f"method must be one of {', '.join(ALLOWED_METHODS)}, or an IntrinsicReward; got {method!r}.{hint}"
        )
    check_reward_settings(settings)


def check_reward_settings(settings: Iterable[str]) -> None:
    """Raises ValueError for a setting that is unknown, or that an intrinsic reward alone ignores."""
    for name in settings:
        check_setting(name, SECTION_OF)
        if name not in REWARD_SETTINGS:
            raise ValueError(
                f"{name} has no effect here, where another library trains the agent: set it there. The intrinsic "
                f"reward has these settings: {', '.join(sorted(REWARD_SETTINGS))}."
            )


def action_indices(
    space: spaces.Space, actions: np.ndarray, shape: tuple[int, int]
) -> Int[np.ndarray, "time envs"]:
    """Returns discrete actions as indices from zero, in this shape. For other action spaces, returns zeros."""
    if not isinstance(space, spaces.Discrete):
        return np.zeros(shape, np.int32)
    return (np.asarray(actions).reshape(shape) - space.start).astype(np.int32)

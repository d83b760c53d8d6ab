"""Presets: named sets of settings. Fields that a preset does not set keep their defaults."""

from collections.abc import Iterable
from typing import Any, get_args

from gemax.envs.registry import CUSTOM_MAP, find_env
from gemax.settings import check_count, check_setting
from gemax.training.config import SECTION_OF, Config, Preset

PAPER: dict[str, Any] = {
    "observation": "pixels",
    "updates": 100_000,
    "num_envs": 256,
    "torso_size": 256,
    "lstm_size": 256,
    "head_size": 256,
    "embedding_size": 256,
    "learning_rate": 1e-4,
    "reward_learning_rate": 1e-4,
    "adam_beta1": 0.0,
    "adam_beta2": 0.95,
    "similarity_scale": 1.0,
    "num_negatives": 32,
    "episodic_weight": 0.0,
    "huber_exponent": 4.0,
    "embedding_penalty": 1e-4,
    # The paper does not list these. docs/presets.md explains our choices.
    "returns": "vtrace",
    "vtrace_lambda": 1.0,
    "advantage": "td",
    "discount": 1.0,
    "huber_offset": 1.0,
    "adjacency_scale": 1.0,
    "hide_time": False,
    "updates_per_call": 2,
}
"""Settings of the `paper` preset for all environments: `tab:commonhyper`, and our choices for settings not listed."""

PAPER_BY_METHOD: dict[str, dict[str, Any]] = {"rnd": {"rnd_return_decay": 0.95}}
"""Settings of the `paper` preset that only one method uses. Runs of the other methods do not depend on them."""


def configure(env_id: str, preset: Preset = "laptop", frames: int | None = None, **settings: Any) -> Config:
    """Returns the configuration of a preset for an environment, with some settings changed.

    Args:
        env_id: The environment, as in `gemax train`.
        preset: `laptop` or `paper`.
        frames: Number of environment steps of each seed, instead of `updates`. Rounded up to whole compiled calls.
        settings: Fields of `gemax.Config`, without their section.

    Raises:
        ValueError: A setting is unknown or has a value that is not allowed.
    """
    for name in settings:
        check_setting(name, SECTION_OF)
    check_used(env_id, settings)
    if preset not in get_args(Preset):
        raise ValueError(f"preset must be one of {', '.join(get_args(Preset))}; got {preset!r}.")
    row, method = find_env(env_id), settings.get("method", "gem")
    is_paper = preset == "paper"
    values = {**PAPER, **row.paper, **PAPER_BY_METHOD.get(method, {})} if is_paper else dict(row.laptop)
    scales = row.paper_scales if is_paper else row.laptop_scales
    if method in scales:
        values["intrinsic_scale"] = scales[method]
    config = Config().replace(**{"env_id": env_id, "preset": preset, **values, **settings})
    if frames is None:
        return config
    if "updates" in settings:
        raise ValueError(f"give either frames or updates; got {frames} and {settings['updates']}.")
    return config.replace(updates=updates_for(config, frames))


def check_used(env_id: str, settings: Iterable[str]) -> None:
    """Raises ValueError for a setting that has no effect in this kind of environment."""
    row = find_env(env_id)
    if row.is_compiled:
        unused = {"vectorization_mode", "num_workers", "env_timeout"}
        unused |= {"on_env_fault", "max_env_restarts", "env_restart_steps"}
        # A custom map has a horizon. All other JAX environments come with their own.
        unused |= set() if row is CUSTOM_MAP else {"horizon"}
    else:
        unused = {"map_text"}
    unused |= set() if row.is_gridworld else {"observation"}
    for name in settings:
        if name in unused:
            raise ValueError(f"{name} has no effect in {env_id}. Leave it out.")


def updates_for(config: Config, frames: int) -> int:
    """Returns the number of updates that collect at least this many frames, as whole compiled calls."""
    check_count("frames", frames)
    per_call = config.run.updates_per_call if config.is_compiled else 1
    return -(-frames // (config.frames_per_update * per_call)) * per_call

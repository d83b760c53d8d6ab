"""Presets: named sets of settings. Fields that a preset does not set keep their defaults."""

from typing import Any, get_args

from gemax.envs.registry import find_env
from gemax.settings import did_you_mean
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


def configure(env_id: str, preset: Preset = "laptop", **settings: Any) -> Config:
    """Returns the configuration of a preset for an environment, with some settings changed.

    Raises:
        ValueError: A setting is unknown or has a value that is not allowed.
    """
    for name in settings:
        if name not in SECTION_OF:
            raise ValueError(f"there is no setting {name!r}.{did_you_mean(name, SECTION_OF)}")
    if preset not in get_args(Preset):
        raise ValueError(f"preset must be one of {', '.join(get_args(Preset))}; got {preset!r}.")
    row, method = find_env(env_id), settings.get("method", "gem")
    is_paper = preset == "paper"
    values = {**PAPER, **row.paper} if is_paper else dict(row.laptop)
    scales = row.paper_scales if is_paper else row.laptop_scales
    if method in scales:
        values["intrinsic_scale"] = scales[method]
    return Config().replace(**{"env_id": env_id, "preset": preset, **values, **settings})

"""Optional packages: what needs them, and the command that installs them. Imports nothing heavy."""

import importlib.util
from typing import NamedTuple


class MissingPackageError(ImportError, ValueError):
    """An optional package is not installed. The message has the command that installs it."""


class Extra(NamedTuple):
    """One group of optional packages."""

    title: str
    purpose: str
    """What it is for, as a phrase."""
    install: str
    """The command that installs it."""
    modules: tuple[str, ...]
    """Modules that must be found."""


def _row(extra: str, title: str, purpose: str, *modules: str, first: str = "") -> Extra:
    return Extra(title, purpose, f"pip install {first}'gemax[{extra}]'", modules)


EXTRAS = {
    "gymnasium": _row("gymnasium", "Gymnasium", "gym: environments and the reward wrapper", "gymnasium"),
    "stable-baselines3": _row(
        "stable-baselines3",
        "Stable-Baselines3",
        "intrinsic rewards for PPO, DQN and other agents",
        "stable_baselines3",
        # Stable-Baselines3 accepts any version of torch; this is the one that the tests run with.
        first="torch==2.13.0 ",
    ),
    "minigrid": _row("minigrid", "MiniGrid", "gym:MiniGrid-… and gym:BabyAI-… environments", "minigrid"),
    "minari": _row("minari", "Minari", "gemax collect", "minari", "h5py"),
    "pandas": _row("pandas", "pandas", "run.metrics.to_pandas()", "pandas"),
    "view": _row("view", "the web page", "gemax view", "starlette", "uvicorn", "plotly"),
    "ray": _row("ray", "Ray", "--launcher ray", "ray"),
    "tensorboard": _row("tensorboard", "tensorboardX", "--tensorboard", "tensorboardX"),
    "wandb": _row("wandb", "Weights & Biases", "--wandb PROJECT", "wandb"),
    "window": _row("window", "pygame-ce", "render_mode human of gemax environments", "pygame"),
}
"""The extras of pyproject.toml that users install, by name."""


def is_installed(extra: str) -> bool:
    """Returns whether all modules of an extra can be found. Imports none of them."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra].modules)


def require(extra: str, user: str) -> None:
    """Raises MissingPackageError if an extra is not installed. `user` is what needs it, for the message."""
    if not is_installed(extra):
        row = EXTRAS[extra]
        raise MissingPackageError(f"{user} needs {row.title}, which is not installed: {row.install}")

"""Geometric entropy maximisation in JAX: agents that explore.

import gemax

run = gemax.train("two-rooms", method="gem", seed=0)  # or a function that makes a Gymnasium environment
run.plot("curve.png")
run.record("episode.gif")
report = run.evaluate()
action = run.policy().act(observation)
run = gemax.load(run.path).resume(updates=1000)
gemax.compare(run, "runs/two-rooms-rnd-0")
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from gemax.version import VERSION

if TYPE_CHECKING:
    from gemax.envs.base import JaxEnv
    from gemax.envs.check import check_env
    from gemax.envs.registry import make_env
    from gemax.experiments.compare import compare
    from gemax.integrations.collect import collect
    from gemax.rewards.base import IntrinsicReward
    from gemax.runs.api import evaluate, load, resume, train
    from gemax.runs.handle import Run
    from gemax.runs.policy import Policy
    from gemax.testing import check_reward
    from gemax.training.assemble import CustomParts
    from gemax.training.config import Config
    from gemax.training.presets import configure
    from gemax.types import EnvSpec, Observations, Timestep, Transition

__version__ = VERSION

_NAMES = {
    "gemax.envs.base": ["JaxEnv"],
    "gemax.envs.check": ["check_env"],
    "gemax.envs.registry": ["make_env"],
    "gemax.experiments.compare": ["compare"],
    "gemax.integrations.collect": ["collect"],
    "gemax.rewards.base": ["IntrinsicReward"],
    "gemax.runs.api": ["evaluate", "load", "resume", "train"],
    "gemax.runs.policy": ["Policy"],
    "gemax.runs.handle": ["Run"],
    "gemax.testing": ["check_reward"],
    "gemax.training.assemble": ["CustomParts"],
    "gemax.training.config": ["Config"],
    "gemax.training.presets": ["configure"],
    "gemax.types": ["EnvSpec", "Observations", "Timestep", "Transition"],
}
"""The public names of every module. They are imported on first use, so that `import gemax` does not import JAX."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Config", "CustomParts", "EnvSpec", "IntrinsicReward", "JaxEnv", "Observations", "Policy", "Run", "Timestep",
    "Transition", "__version__", "check_env", "check_reward", "collect", "compare", "configure", "evaluate", "load",
    "make_env", "resume", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'gemax' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Lists the public names only."""
    return __all__


# `import gymnasium, gemax` registers `gemax/TwoRooms-v0` and the other ids. Gymnasium is optional and slow to import,
# so it is not imported for this. In the other order, `import gemax.integrations.gymnasium` registers them.
if sys.modules.get("gymnasium") is not None:
    from gemax.integrations.registration import register_envs

    register_envs()

"""Geometric entropy maximisation in JAX: agents that explore.

import gemax

run = gemax.train("two-rooms", method="gem", seed=0)
run = gemax.resume(run.path, updates=1000)
report = gemax.evaluate(run.path)
dataset = gemax.collect(run.path)
action = gemax.load(run.path).act(observation)
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from gemax.version import VERSION

if TYPE_CHECKING:
    from gemax.integrations.collecting import collect
    from gemax.runs.library import evaluate, resume, train
    from gemax.runs.policy import load

__version__ = VERSION
__all__ = ["collect", "evaluate", "load", "resume", "train"]

_HOMES = {
    "collect": "gemax.integrations.collecting",
    "evaluate": "gemax.runs.library",
    "load": "gemax.runs.policy",
    "resume": "gemax.runs.library",
    "train": "gemax.runs.library",
}

# `import gymnasium, gemax` makes the worlds known as `gemax/TwoRooms-v0` and so on. Gymnasium is optional and takes
# a while to import, so it is not imported for this; in the other order, import `gemax.integrations.gymnasium`.
if "gymnasium" in sys.modules:
    from gemax.integrations.registration import register_worlds

    register_worlds()


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first asked for: `import gemax` stays light."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gemax' has no attribute {name!r}")

"""Geometric entropy maximisation in JAX: agents that explore.

import gemax

run = gemax.train("two-rooms", method="gem", seed=0)
action = gemax.load(run.path).act(observation)
"""

import sys
from typing import TYPE_CHECKING, Any

from gemax.version import VERSION

if TYPE_CHECKING:
    from gemax.runs.library import train
    from gemax.runs.policy import load

__version__ = VERSION
__all__ = ["load", "train"]

# `import gymnasium, gemax` makes the worlds known as `gemax/TwoRooms-v0` and so on. Gymnasium is optional and takes
# a while to import, so it is not imported for this; in the other order, import `gemax.integrations.gymnasium`.
if "gymnasium" in sys.modules:
    from gemax.integrations.registration import register_worlds

    register_worlds()


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first asked for: `import gemax` stays light."""
    if name == "train":
        from gemax.runs.library import train

        return train
    if name == "load":
        from gemax.runs.policy import load

        return load
    raise AttributeError(f"module 'gemax' has no attribute {name!r}")

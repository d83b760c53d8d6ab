"""Geometric entropy maximisation in JAX: agents that explore."""

import sys

from gemax.version import VERSION

__version__ = VERSION

# `import gymnasium, gemax` makes the worlds known as `gemax/TwoRooms-v0` and so on. Gymnasium is optional and takes
# a while to import, so it is not imported for this; in the other order, import `gemax.integrations.gymnasium`.
if "gymnasium" in sys.modules:
    from gemax.integrations.registration import register_worlds

    register_worlds()

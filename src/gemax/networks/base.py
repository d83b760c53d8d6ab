"""A network as pure functions, and the multilayer perceptron."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.networks.dense import dense

Parameters: TypeAlias = Any
"""A tree of arrays in plain dictionaries."""


class Network(NamedTuple):
    """A network as pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "batch *features"]], Parameters]
    """Returns initial parameters for inputs of this shape."""
    apply: Callable[[Parameters, Float[Array, "batch *features"]], Float[Array, "batch outputs"]]
    apply_heads: Callable[[Parameters, Float[Array, "batch *features"]], tuple[Array, ...]] | None = None
    """Returns the parts of the output of `apply`, one per head, so that a head without use takes no time. None if the
    network has no heads."""


def to_network(module: nn.Module) -> Network:
    """Wraps a flax module."""
    return Network(module.init, module.apply)  # pyright: ignore[reportArgumentType]


def mlp(sizes: Sequence[int]) -> Network:
    """Returns linear layers of these sizes with ReLU in between. The last layer is linear."""
    hidden = [layer for size in sizes[:-1] for layer in (dense(size), nn.relu)]
    return to_network(nn.Sequential([*hidden, dense(sizes[-1])]))

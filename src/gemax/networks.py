"""Neural networks. The only file that knows the neural-network library."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn
from jaxtyping import Array, Float, PRNGKeyArray

Parameters: TypeAlias = Any
"""A tree of arrays, in plain dictionaries."""


class Network(NamedTuple):
    """A network as two pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "*batch features"]], Parameters]
    """Parameters for inputs of this shape."""
    apply: Callable[[Parameters, Float[Array, "*batch features"]], Float[Array, "*batch outputs"]]


def mlp(sizes: Sequence[int]) -> Network:
    """Linear layers of these sizes with relu in between; the last one is linear."""
    layers: list[Any] = []
    for size in sizes[:-1]:
        layers += [nn.Dense(size), nn.relu]
    return _network(nn.Sequential([*layers, nn.Dense(sizes[-1])]))


def _network(module: nn.Module) -> Network:
    def apply(parameters: Parameters, inputs: Array) -> Array:
        return module.apply(parameters, inputs)  # pyright: ignore[reportReturnType]

    return Network(module.init, apply)

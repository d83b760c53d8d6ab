"""The interface of GEM's negatives: the states x' that each state x is compared with.

`negatives_other_envs`, `negatives_earlier`, `negatives_past`, `negatives_recent` and `negatives_episode` implement it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.core.expectation import Contrast
from gemax.core.objective import g_power
from gemax.types import Transition, Tree, Weight

MAX_MEMORY_SIZE = 2**25
"""Maximum number of floats in the memory (128 MB). Every update reads all of them, and every checkpoint stores them."""


class Outputs(NamedTuple):
    """Outputs of f and g, with the same leading axes as the observations."""

    embedding: Float[Array, "*batch D"]
    log_g: Float[Array, "*batch"]


Apply: TypeAlias = Callable[[Float[Array, "rows *shape"]], Outputs]
"""Applies f and g, with given parameters, to observations. `log_g` has no gradient."""


class Batch(NamedTuple):
    """States x, and the expectations over their negatives."""

    log_g: Float[Array, " N"]
    contrast: Contrast
    weight: Weight | None = None
    """Number of visits to each state, or whether it has negatives. None weights all states equally."""


class Comparison(NamedTuple):
    """The result of comparing the states of a rollout with their negatives."""

    batches: tuple[Batch, ...]
    memory: Tree
    """The memory, with the rollout added."""
    has_negatives: Bool[Array, "time envs"] | None = None
    """Whether each step has negatives. None if all steps have."""
    overlap: Float[Array, ""] | None = None
    """How much different episodes have in common. None if the negatives do not come from other episodes."""


class Negatives(NamedTuple):
    """A source of negatives, as pure functions. The memory holds the states that are kept between rollouts."""

    init: Callable[[Apply, Float[Array, "rows *shape"], int], Tree]
    """`init(apply, rows, num_envs)`: returns an empty memory for observations of this shape."""
    compare: Callable[[Tree, Outputs, Transition, PRNGKeyArray], Comparison]
    """`compare(memory, outputs, transitions, key)`: `outputs` has one entry per row of the next observations."""
    by_step: Callable[[list[Float[Array, " N"]], Comparison, Transition], Float[Array, "time envs"]]
    """`by_step(values, comparison, transitions)`: arranges the values of each batch by time and environment."""
    refresh: Callable[[Tree, Apply], Tree] = lambda memory, apply: memory
    """`refresh(memory, apply)`: recomputes the outputs of f and g in the memory, with new parameters."""
    remember: Callable[[Tree, Outputs, Transition, Bool[Array, " envs"]], Tree] = lambda memory, *_: memory
    """`remember(memory, outputs, transitions, is_valid)`: adds the steps of the valid environments to the memory."""
    has_memory: bool = False


def negative_power(log_g: Float[Array, "*shape"], alpha: float) -> Float[Array, "*shape"]:
    """Returns g(x')^(2-α) without gradient. Only the reward uses it, and f and g do not learn from the reward."""
    return jax.lax.stop_gradient(g_power(log_g, alpha))


def apply_to_memory(apply: Apply, rows: Float[Array, "first second *shape"]) -> Outputs:
    """Returns the outputs of f and g for rows with two leading axes, such as environments and time."""
    outputs = apply(rows.reshape(-1, *rows.shape[2:]))
    return jax.tree.map(lambda leaf: leaf.reshape(*rows.shape[:2], *leaf.shape[1:]), outputs)

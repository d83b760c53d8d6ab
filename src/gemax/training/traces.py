"""Traces: a sliding window over the steps of every world, for the actor-critic alone."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.networks import Inputs, Memory
from gemax.training.collect import Steps
from gemax.training.state import Arrived, Position, Window
from gemax.types import Tree


def empty_window(position: Position, num_steps: int, *, keeps_arrived: bool = False) -> Window:
    """Steps that never happened, to be pushed out by the first that do; with `arrived` if it is kept."""

    def repeated(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (num_steps, *leaf.shape)), tree)

    shape = (num_steps, position.is_first.shape[0])
    return Window(
        seen=repeated(position.seen),
        inputs=repeated(position.inputs),
        is_first=jnp.ones(shape, bool),
        memory=repeated(position.memory),
        action=jnp.zeros_like(repeated(position.inputs.previous_action)),
        log_probability=jnp.zeros(shape),
        reward=jnp.zeros(shape),
        ends=jnp.ones(shape, bool),
        bootstraps=jnp.zeros(shape, bool),
        is_valid=jnp.zeros(shape, bool),
        arrived=Arrived(repeated(position.seen), repeated(position.inputs)) if keeps_arrived else None,
    )


def extend(
    window: Window, steps: Steps, reward: Float[Array, "time worlds"], arrived: Arrived | None = None
) -> Window:
    """The window with the new steps at its end; the oldest are not yet pushed out."""
    ends = steps.terminated | steps.truncated
    new = Window(
        seen=steps.seen,
        inputs=Inputs(*steps.inputs),
        is_first=steps.is_first,
        memory=Memory(*steps.memory),
        action=steps.action,
        log_probability=steps.log_probability,
        reward=reward,
        ends=ends,
        # The worlds' horizon is part of their task, and the agent sees the time: nothing is worth anything after it.
        # Others say that an episode was cut short, and the value of what it led to stands for the rest.
        bootstraps=~ends if arrived is None else ~steps.terminated,
        is_valid=jnp.ones_like(ends) if steps.is_valid is None else steps.is_valid,
        arrived=arrived,
    )
    return jax.tree.map(lambda old, new: jnp.concatenate([old, new]), window, new)


def latest(window: Window, num_steps: int) -> Window:
    """The last steps of a window."""
    return jax.tree.map(lambda leaf: leaf[leaf.shape[0] - num_steps :], window)

"""The unroll window: a sliding window over the last steps of every environment. Only the actor-critic uses it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.training.state import ActorState, Window
from gemax.types import Transition, Tree


def empty_window(actor: ActorState, num_steps: int) -> Window:
    """Returns a window of invalid steps, which the first rollouts replace."""

    def repeated(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (num_steps, *leaf.shape)), tree)

    shape = (num_steps, actor.is_first.shape[0])
    zeros, true = jnp.zeros(shape), jnp.ones(shape, bool)
    transitions = Transition(
        observation=repeated(actor.observation),
        next_observation=repeated(actor.observation),
        action=jnp.zeros_like(repeated(actor.inputs.previous_action)),
        log_prob=zeros,
        reward=zeros,
        terminated=true,
        truncated=~true,
        is_first=true,
        cell=jnp.zeros(shape, jnp.int32),
        state_index=jnp.zeros(shape, jnp.int32),
        is_valid=~true,
        inputs=repeated(actor.inputs),
        lstm_state=repeated(actor.lstm_state),
        episode_return=zeros,
        discounted_return=zeros,
        is_partial=~true,
    )
    return Window(transitions, zeros)


def extend(window: Window, transitions: Transition, reward: Float[Array, "time envs"]) -> Window:
    """Appends new steps to the window."""
    return jax.tree.map(lambda old, new: jnp.concatenate([old, new]), window, Window(transitions, reward))


def latest(window: Window, num_steps: int) -> Window:
    """Returns the last steps of the window."""
    return jax.tree.map(lambda leaf: leaf[leaf.shape[0] - num_steps :], window)

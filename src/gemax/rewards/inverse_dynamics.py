"""An embedding learned by inverse dynamics: it predicts the action between two consecutive states.

The embedding f therefore keeps what actions can change. NGU and E3B use it.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.networks import Network, Parameters, mlp
from gemax.rewards.base import hide_feature
from gemax.rewards.step_embeddings import embeddings_before
from gemax.settings import check_count
from gemax.types import Metrics, Transition, Tree, gather


class StepEmbeddings(NamedTuple):
    """Embeddings of the observations before and after each step."""

    before: Float[Array, "time envs D"]
    """f(x_t)"""
    after: Float[Array, "time envs D"]
    """f(x_t+1)"""


class Learned(NamedTuple):
    """The result of one learning step."""

    embeddings: StepEmbeddings
    """Computed with the parameters before learning."""
    parameters: Parameters
    opt_state: Tree
    metrics: Metrics


class InverseDynamics(NamedTuple):
    """The embedding f and the action predictor h as pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "rows *shape"]], Parameters]
    """`init(key, rows)`: returns the parameters of f and h for observations of this shape."""
    embed: Callable[[Parameters, Float[Array, "rows *shape"]], Float[Array, "rows D"]]
    """`embed(parameters, rows)`: returns f of each observation."""
    embed_steps: Callable[[Parameters, Transition], StepEmbeddings]
    """`embed_steps(parameters, transitions)`: returns f before and after each step."""
    learn: Callable[[Parameters, Tree, Transition], Learned]
    """`learn(parameters, opt_state, transitions)`: returns the embeddings, and the parameters after one update."""


def inverse_dynamics(
    network: Network,
    num_actions: int,
    optimiser: optax.GradientTransformation,
    *,
    hidden_size: int = 256,
    ignored_feature: int | None = None,
    min_episode_steps: int = 1,
) -> InverseDynamics:
    """Returns inverse dynamics with this network as f, and one hidden layer of `hidden_size` units in h.

    f does not see the entry `ignored_feature` of observation vectors. Every episode must have at least
    `min_episode_steps` actions, otherwise the embeddings are NaN. Larger values save embeddings.
    """
    check_count("num_actions", num_actions)
    predictor = mlp((hidden_size, num_actions))

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> Parameters:
        embedding_key, action_key = jax.random.split(key)
        parameters = {"embedding": network.init(embedding_key, rows[:1])}
        embedding = embed(parameters, rows[:1])
        parameters["action"] = predictor.init(action_key, jnp.concatenate([embedding, embedding], axis=-1))
        return parameters

    def embed(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return network.apply(parameters["embedding"], hide_feature(rows, ignored_feature))

    def embed_steps(parameters: Parameters, transitions: Transition) -> StepEmbeddings:
        """Embeds each row of a table once."""
        after = embed(parameters, transitions.next_observation.rows)
        before = embeddings_before(partial(embed, parameters), after, transitions, min_episode_steps)
        return StepEmbeddings(
            before, gather(transitions.next_observation, after, transitions.reward.shape[1])
        )

    def loss(parameters: Parameters, transitions: Transition):
        """Returns the mean of -ln h(a | f(x_t), f(x_t+1)). Pairs include terminal states and never cross a reset."""
        embeddings = embed_steps(parameters, transitions)
        pairs = jnp.concatenate(embeddings, axis=-1)
        logits = predictor.apply(parameters["action"], pairs.reshape(-1, pairs.shape[-1]))
        action = transitions.action.reshape(-1)
        total = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, action))
        accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == action)
        return total, (embeddings, {"action_loss": total, "action_accuracy": accuracy})

    def learn(parameters: Parameters, opt_state: Tree, transitions: Transition) -> Learned:
        gradient, (embeddings, metrics) = jax.grad(loss, has_aux=True)(parameters, transitions)
        updates, opt_state = optimiser.update(gradient, opt_state, parameters)
        return Learned(embeddings, optax.apply_updates(parameters, updates), opt_state, metrics)

    return InverseDynamics(init, embed, embed_steps, learn)

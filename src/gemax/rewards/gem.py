"""GEM, the paper's method: f and g learn the geometry and the density of the visited states.

`alg:taco`. The reward is high for states that are rarely visited, given the geometry. The source of the negatives x' is
a separate choice, see `negatives`. `alg:moretacomax` is GEM with negatives from other environments.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.core.adjacency import adjacency_regulariser
from gemax.core.expectation import mean
from gemax.core.moments import RunningScale, init_scale, normalise, update_scale
from gemax.core.objective import embedding_penalty, gem_objective, gem_reward, log_g_of
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward, hide_feature
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.negatives import Apply, Batch, Comparison, Negatives, Outputs
from gemax.rewards.step_embeddings import embeddings_before
from gemax.types import Metrics, Transition, Tree, gather


class GemState(NamedTuple):
    """Everything that changes in GEM."""

    parameters: Parameters
    optimiser: Tree
    normaliser: RunningScale
    """Running mean and standard deviation of the raw reward."""
    memory: Tree = ()
    """The memory of `Negatives`."""


def gem(
    network: Network,
    optimiser: optax.GradientTransformation,
    config: IntrinsicConfig,
    negatives: Negatives,
    ignored_feature: int | None = None,
    shortest_episode: int = 1,
) -> IntrinsicReward:
    """Returns GEM with f and g on a network of `embedding_size + 1` outputs.

    f and g do not see the entry `ignored_feature` of observation vectors, such as the time. If every episode has at
    least `shortest_episode` actions, fewer observations have to be embedded.
    """

    def apply(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Outputs:
        """Returns the outputs of f and g. A similarity that is not learned uses the flattened observation."""
        rows = hide_feature(rows, ignored_feature)
        outputs, size = network.apply(parameters, rows), config.embedding_size
        is_learned = config.similarity == "learned"
        embedding = outputs[:, :size] if is_learned else rows.reshape(rows.shape[0], -1)
        return Outputs(embedding, log_g_of(outputs[:, size]))

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> GemState:
        parameters = network.init(key, hide_feature(rows[:1], ignored_feature))
        memory = negatives.init(partial(apply, parameters), rows, num_envs)
        return GemState(parameters, optimiser.init(parameters), init_scale(), memory)

    def loss(parameters: Parameters, memory: Tree, transitions: Transition, key: PRNGKeyArray):
        """Returns the loss of `alg:taco`, with the comparison and metrics as auxiliary outputs."""
        outputs = apply(parameters, transitions.next_observation.rows)
        # Recomputed, because the gradient includes the negatives, and because two identical states have distance zero
        # only if the same parameters embed both.
        memory = negatives.refresh(memory, partial(apply, parameters))
        comparison = negatives.compare(memory, outputs, transitions, key)
        objectives = [
            gem_objective(batch.log_g, batch.contrast.similarity, batch.weight, alpha=config.alpha)
            for batch in comparison.batches
        ]
        objective = sum(objectives) / len(objectives)
        cost, metrics = regularisers(
            partial(apply, parameters), outputs.embedding, transitions, config, shortest_episode
        )
        metrics |= {"gem_objective": objective} | similarity_metrics(comparison.batches)
        return cost - objective, (comparison, metrics)

    def scaled_reward(normaliser: RunningScale, comparison: Comparison, transitions: Transition):
        """Returns the reward, the new normaliser and the raw reward. Steps without negatives get the mean reward."""
        values = [gem_reward(batch.log_g, batch.contrast, alpha=config.alpha) for batch in comparison.batches]
        raw = negatives.by_step(values, comparison, transitions)
        scale, shift = config.intrinsic_scale, config.intrinsic_shift if config.normalise else 0.0
        has_negatives, is_counted = comparison.has_negatives, jnp.isfinite(raw)
        if has_negatives is not None:
            is_counted = has_negatives & is_counted
        # The averages include this rollout, so that the first rewards are normalised too.
        normaliser = update_scale(normaliser, raw, is_counted)
        scaled = normalise(normaliser, raw, scale=scale, shift=shift) if config.normalise else scale * raw
        if has_negatives is not None:
            scaled = jnp.where(has_negatives, scaled, shift)
        return scaled, normaliser, raw

    def reward(state: GemState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        outputs = apply(state.parameters, transitions.next_observation.rows)
        comparison = negatives.compare(state.memory, outputs, transitions, key)
        return scaled_reward(state.normaliser, comparison, transitions)[0]

    def step(state: GemState, transitions: Transition, key: PRNGKeyArray):
        grad_fn = jax.value_and_grad(loss, has_aux=True)
        (total, (comparison, metrics)), gradient = grad_fn(state.parameters, state.memory, transitions, key)
        scaled, normaliser, raw = scaled_reward(state.normaliser, comparison, transitions)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        memory = negatives.refresh(comparison.memory, partial(apply, parameters))
        metrics |= {"gem_loss": total, "raw_reward": masked_mean(raw, comparison.has_negatives)}
        return scaled, GemState(parameters, optimiser_state, normaliser, memory), metrics

    def embed(state: GemState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return apply(state.parameters, rows).embedding

    def remember(state: GemState, transitions: Transition, is_valid: Bool[Array, " envs"]) -> GemState:
        assert negatives.remember is not None
        outputs = apply(state.parameters, transitions.next_observation.rows)
        return state._replace(memory=negatives.remember(state.memory, outputs, transitions, is_valid))

    return IntrinsicReward(init, reward, step, embed, remember if negatives.remember else None)


def regularisers(
    apply: Apply,
    embeddings: Float[Array, "rows D"],
    transitions: Transition,
    config: IntrinsicConfig,
    shortest_episode: int,
) -> tuple[Float[Array, ""], Metrics]:
    """Returns the cost of a learned geometry, `w_reg ‖f(x)‖² + C · AR`, averaged over all steps.

    `embeddings` has one row per row of the next observations. AR never crosses a reset and includes terminal states.
    """
    if config.similarity != "learned":
        return jnp.zeros(()), {}
    size = embeddings.shape[-1]
    after = gather(transitions.next_observation, embeddings, transitions.reward.shape[1]).reshape(-1, size)
    before = embeddings_before(lambda rows: apply(rows).embedding, embeddings, transitions, shortest_episode)
    before, penalty = before.reshape(-1, size), embedding_penalty(after)
    adjacency = adjacency_regulariser(
        before, after, huber_offset=config.huber_offset, huber_exponent=config.huber_exponent
    )
    cost = config.regularisation * penalty + config.adjacency_scale * adjacency
    return cost, {"adjacency": adjacency, "embedding_norm": jnp.sqrt(penalty)}


def similarity_metrics(batches: tuple[Batch, ...]) -> Metrics:
    """Returns metrics of the geometry, averaged over the batches."""

    def metrics(batch: Batch) -> Metrics:
        similarity = batch.contrast.similarity
        return {
            "similarity_mean": mean(similarity, batch.weight),
            "effective_states": jnp.exp(-mean(jnp.log(jnp.maximum(similarity, 1e-12)), batch.weight)),
            "log_g": mean(batch.log_g, batch.weight),
        }

    return jax.tree.map(lambda *parts: sum(parts) / len(parts), *map(metrics, batches))


def masked_mean(values: Float[Array, "time envs"], mask: Bool[Array, "time envs"] | None) -> Float[Array, ""]:
    """Returns the mean over the steps in the mask, or over all steps if it is None."""
    return jnp.mean(values) if mask is None else mean(values.reshape(-1), mask.reshape(-1))

"""GEM, the paper's method: f and g learn the geometry and the density of the visited states.

`alg:taco`. The reward is high for states that are rarely visited, given the geometry. The source of the negatives x' is
a separate choice, see `negatives`. `alg:moretacomax` is GEM with negatives from other environments.
"""

from collections.abc import Sequence
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


class Term(NamedTuple):
    """One entropy of the objective, with its own g."""

    negatives: Negatives
    """The states that each state is compared with, which define the distribution of the entropy."""
    prefix: str = ""
    """Prefix of the names of its metrics."""


class TermState(NamedTuple):
    """What changes in a term."""

    memory: Tree
    """The memory of its `Negatives`."""
    normaliser: RunningScale
    """Running mean and standard deviation of its raw reward."""


class GemState(NamedTuple):
    """Everything that changes in GEM."""

    parameters: Parameters
    opt_state: Tree
    terms: tuple[TermState, ...]
    normaliser: RunningScale
    """Running mean and standard deviation of the weighted sum of the terms' standardised rewards."""
    overlap: RunningScale
    """Running mean of the overlap of episodes."""


def gem(
    network: Network,
    optimiser: optax.GradientTransformation,
    config: IntrinsicConfig,
    terms: tuple[Term, ...],
    ignored_feature: int | None = None,
    min_episode_steps: int = 1,
) -> IntrinsicReward:
    """Returns GEM with f, and one g per term, on a network of `embedding_size + len(terms)` outputs.

    If the network has heads, the first one is f, and the others are g.

    f and g do not see the entry `ignored_feature` of observation vectors, such as the time. Every episode must
    have at least `min_episode_steps` actions, otherwise the rewards are NaN. Larger values save embeddings.
    """

    def apply(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> tuple[Outputs, ...]:
        """Returns the outputs of f and g for each term. Without a learned similarity, f flattens the observation."""
        rows = hide_feature(rows, ignored_feature)
        embedding, *heads_of_g = heads(parameters, rows)
        if config.similarity != "learned":
            embedding = rows.reshape(rows.shape[0], -1)
        return tuple(
            Outputs(embedding, log_g_of(head[:, i])) for head in heads_of_g for i in range(head.shape[1])
        )

    def heads(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Sequence[Float[Array, "rows _"]]:
        """Returns the output of f, and those of g of all terms."""
        if network.apply_heads is not None:
            return network.apply_heads(parameters, rows)
        return jnp.split(network.apply(parameters, rows), [config.embedding_size], axis=1)

    def apply_term(parameters: Parameters, index: int) -> Apply:
        """Returns a function that applies f and g of a term. Its `log_g` has no gradient."""

        def apply_one(rows: Float[Array, "rows *shape"]) -> Outputs:
            outputs = apply(parameters, rows)[index]
            # Only the reward uses g of the negatives. The gradient would be zero, and take as long as that of f.
            return outputs._replace(log_g=jax.lax.stop_gradient(outputs.log_g))

        return apply_one

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> GemState:
        row = hide_feature(rows[:1], ignored_feature)
        parameters = network.init(key, row)
        size_of_f, *sizes_of_g = (head.shape[1] for head in jax.eval_shape(heads, parameters, row))
        if (size_of_f, sum(sizes_of_g)) != (config.embedding_size, len(terms)):
            raise ValueError(
                f"the network must have heads of {config.embedding_size} outputs for f and {len(terms)} for g; got "
                f"{[size_of_f, *sizes_of_g]}."
            )
        states = tuple(
            TermState(term.negatives.init(apply_term(parameters, i), rows, num_envs), init_scale())
            for i, term in enumerate(terms)
        )
        return GemState(parameters, optimiser.init(parameters), states, init_scale(), init_scale())

    def with_new_outputs(parameters: Parameters, states: tuple[TermState, ...]) -> tuple[TermState, ...]:
        """Recomputes the stored outputs of f and g."""
        return tuple(
            state._replace(memory=term.negatives.refresh(state.memory, apply_term(parameters, i)))
            for i, (term, state) in enumerate(zip(terms, states, strict=True))
        )

    def compare(
        parameters: Parameters, states: tuple[TermState, ...], transitions: Transition, key: PRNGKeyArray
    ) -> tuple[Float[Array, "rows D"], list[Comparison]]:
        """Returns the embeddings, and the comparison of the states with the negatives of each term."""
        outputs = apply(parameters, transitions.next_observation.rows)
        comparisons = [
            term.negatives.compare(state.memory, output, transitions, key)
            for term, state, output in zip(terms, states, outputs, strict=True)
        ]
        return outputs[0].embedding, comparisons

    def weights_of(
        overlap: RunningScale, comparisons: list[Comparison]
    ) -> tuple[RunningScale, tuple[Float[Array, ""] | float, ...]]:
        """Returns the updated overlap and the weight of each term."""
        if len(terms) == 1:
            return overlap, (1.0,)
        found = comparisons[0].overlap
        assert found is not None
        overlap = update_scale(overlap, found[None], jnp.isfinite(found)[None])
        weight = 1.0 - overlap.mean if config.episodic_weight == "auto" else config.episodic_weight
        return overlap, (1.0 - weight, weight)

    def loss(
        parameters: Parameters,
        states: tuple[TermState, ...],
        overlap: RunningScale,
        transitions: Transition,
        key: PRNGKeyArray,
    ):
        """Returns the loss of `alg:taco`, with the comparisons and metrics as auxiliary outputs."""
        # The outputs are recomputed, because the gradient includes the negatives, and because two identical states have
        # distance zero only if the same parameters embed both.
        states = with_new_outputs(parameters, states)
        embedding, comparisons = compare(parameters, states, transitions, key)
        cost, metrics = regularisers(
            apply_term(parameters, 0), embedding, transitions, config, min_episode_steps
        )
        overlap, weights = weights_of(overlap, comparisons)
        for term, weight, comparison in zip(terms, weights, comparisons, strict=True):
            objective = mean_objective(comparison, config.alpha)
            cost = cost - weight * objective
            named = {"gem_objective": objective} | similarity_metrics(comparison.batches)
            metrics |= {term.prefix + name: value for name, value in named.items()}
        if len(terms) > 1:
            metrics |= {"episodic_weight": jnp.asarray(weights[1], float), "overlap": overlap.mean}
        return cost, (comparisons, metrics)

    def term_reward(term: Term, state: TermState, comparison: Comparison, transitions: Transition):
        """Returns the raw reward of a term, the standardised one, and the new state. Without negatives it is 0."""
        values = [gem_reward(batch.log_g, batch.contrast, alpha=config.alpha) for batch in comparison.batches]
        raw = term.negatives.by_step(values, comparison, transitions)
        normaliser, standardised = state.normaliser, raw
        if config.normalise_reward:
            # The averages include this rollout, so that the first rewards are normalised too.
            normaliser = update_scale(normaliser, raw, is_counted(raw, comparison))
            standardised = normalise(normaliser, raw)
        if comparison.has_negatives is not None:
            standardised = jnp.where(comparison.has_negatives, standardised, 0.0)
        return raw, standardised, TermState(comparison.memory, normaliser)

    def scaled_reward(state: GemState, comparisons: list[Comparison], transitions: Transition):
        """Returns the reward, the new state and the raw reward of each term."""
        raws, parts, states = zip(
            *(term_reward(*part, transitions) for part in zip(terms, state.terms, comparisons, strict=True)),
            strict=True,
        )
        overlap, weights = weights_of(state.overlap, comparisons)
        total = sum((weight * part for weight, part in zip(weights, parts, strict=True)), jnp.zeros(()))
        normaliser, scale, shift = state.normaliser, config.intrinsic_scale, config.intrinsic_shift
        if not config.normalise_reward:
            scaled = scale * total
        elif len(terms) == 1:
            scaled = scale * total + shift
        else:
            normaliser = update_scale(normaliser, total, jnp.isfinite(total))
            scaled = normalise(normaliser, total, scale=scale, shift=shift)
        return scaled, state._replace(terms=states, normaliser=normaliser, overlap=overlap), raws

    def reward(state: GemState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        _, comparisons = compare(state.parameters, state.terms, transitions, key)
        return scaled_reward(state, comparisons, transitions)[0]

    def step(state: GemState, transitions: Transition, key: PRNGKeyArray):
        grad_fn = jax.value_and_grad(loss, has_aux=True)
        (total, (comparisons, metrics)), gradient = grad_fn(
            state.parameters, state.terms, state.overlap, transitions, key
        )
        scaled, state, raws = scaled_reward(state, comparisons, transitions)
        updates, opt_state = optimiser.update(gradient, state.opt_state, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        metrics |= {"gem_loss": total} | {
            term.prefix + "raw_reward": masked_mean(raw, comparison.has_negatives)
            for term, raw, comparison in zip(terms, raws, comparisons, strict=True)
        }
        return scaled, state._replace(parameters=parameters, opt_state=opt_state), metrics

    def embed(state: GemState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return apply(state.parameters, rows)[0].embedding

    def log_g(state: GemState, rows: Float[Array, "rows *shape"]) -> Float[Array, " rows"]:
        return apply(state.parameters, rows)[0].log_g

    def remember(state: GemState, transitions: Transition, is_valid: Bool[Array, " envs"]) -> GemState:
        outputs = apply(state.parameters, transitions.next_observation.rows)
        memories = (
            term.negatives.remember(old.memory, output, transitions, is_valid)
            for term, old, output in zip(terms, state.terms, outputs, strict=True)
        )
        return state._replace(
            terms=tuple(
                old._replace(memory=memory) for old, memory in zip(state.terms, memories, strict=True)
            )
        )

    def refresh(state: GemState) -> GemState:
        return state._replace(terms=with_new_outputs(state.parameters, state.terms))

    if not any(term.negatives.has_memory for term in terms):
        return IntrinsicReward(init, reward, step, embed, log_g=log_g)
    return IntrinsicReward(init, reward, step, embed, remember, refresh, log_g)


def mean_objective(comparison: Comparison, alpha: float) -> Float[Array, ""]:
    """Returns the mean of `eq:taco.kernel.obj` over the batches."""
    objectives = [
        gem_objective(batch.log_g, batch.contrast.similarity, batch.weight, alpha=alpha)
        for batch in comparison.batches
    ]
    return sum(objectives, jnp.zeros(())) / len(objectives)


def is_counted(raw: Float[Array, "time envs"], comparison: Comparison) -> Bool[Array, "time envs"]:
    """Returns which steps the normaliser averages over: those with negatives and a finite reward."""
    is_finite = jnp.isfinite(raw)
    return is_finite if comparison.has_negatives is None else comparison.has_negatives & is_finite


def regularisers(
    apply: Apply,
    embeddings: Float[Array, "rows D"],
    transitions: Transition,
    config: IntrinsicConfig,
    min_episode_steps: int,
) -> tuple[Float[Array, ""], Metrics]:
    """Returns the cost of a learned geometry, `w_reg ‖f(x)‖² + C · AR`, averaged over all steps.

    `embeddings` has one row per row of the next observations. AR never crosses a reset and includes terminal states.
    """
    if config.similarity != "learned":
        return jnp.zeros(()), {}
    size = embeddings.shape[-1]
    after = gather(transitions.next_observation, embeddings, transitions.reward.shape[1]).reshape(-1, size)
    before = embeddings_before(lambda rows: apply(rows).embedding, embeddings, transitions, min_episode_steps)
    before, penalty = before.reshape(-1, size), embedding_penalty(after)
    adjacency = adjacency_regulariser(
        before, after, huber_offset=config.huber_offset, huber_exponent=config.huber_exponent
    )
    cost = config.embedding_penalty * penalty + config.adjacency_scale * adjacency
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

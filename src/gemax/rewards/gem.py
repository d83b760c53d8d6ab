"""GEM, the paper's method: f and g learn the geometry and the density of what is visited, and pay for evenness.

`alg:taco` and `alg:moretacomax`: the worlds are split into two halves, and each half is contrasted with the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.core.adjacency import adjacency_regulariser
from gemax.core.expectation import (
    Contrast,
    exact_contrast,
    exact_contrasts_among,
    exact_contrasts_between,
    mean,
    sample_negatives,
    sampled_contrast,
)
from gemax.core.normaliser import Normaliser, init_normaliser, normalise, update_normaliser
from gemax.core.objective import embedding_penalty, g_power, gem_objective, gem_reward, log_g_of
from gemax.core.similarity import distances, exponential_similarity
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.both_ends import embeddings_before
from gemax.types import Metrics, Observations, Rollout, Tree, Weight, spread

Similarity: TypeAlias = Literal["learned", "exponential", "indicator", "own"]
OwnSimilarity: TypeAlias = Callable[[Float[Array, "N D"], Float[Array, "M D"]], Float[Array, "N M"]]
"""A given similarity of observations, flattened: from 0 to 1, and 1 for identical ones."""


@dataclass(frozen=True)
class GemSettings:
    """What GEM can be told."""

    similarity: Similarity | OwnSimilarity = "learned"
    """Of embeddings f(x), of the observations themselves, whether two observations are the same, or a function."""
    similarity_scale: float = 1.0
    """c of `k = exp(-c ‖f(x) - f(x')‖)`."""
    alpha: float = 1.0
    """Tsallis index; 1 is Shannon."""
    num_negatives: int = 0
    """How many negatives are drawn for each state; 0 takes all of the other half."""
    huber_offset: float = 1.0
    """δ: steps of the embedding shorter than this cost hardly anything."""
    huber_exponent: float = 4.0
    """q."""
    adjacency_scale: float = 1.0
    """C: the weight of the adjacency regulariser."""
    regularisation: float = 1e-4
    """w_reg: the weight of ‖f(x)‖²."""
    scale: float = 0.005
    """s: the standard deviation of the reward that is paid."""
    shift: float = 0.005
    """m: its mean."""
    normaliser_decay: float = 0.99
    normalise: bool = True
    """Whether the reward is standardised before it is scaled and shifted; else it is only scaled."""


class GemState(NamedTuple):
    """All that changes in GEM."""

    parameters: Parameters
    optimiser: Tree
    normaliser: Normaliser


class Views(NamedTuple):
    """What f and g say of the distinct observations of a rollout."""

    embedding: Float[Array, "rows D"]
    log_g: Float[Array, " rows"]


def gem(
    network: Network,
    embedding_size: int,
    optimiser: optax.GradientTransformation,
    settings: GemSettings,
    hidden_feature: int | None = None,
    shortest_episode: int = 1,
) -> IntrinsicReward:
    """GEM with f and g on a network of `embedding_size + 1` outputs.

    The `hidden_feature` of an observation vector is kept from f and g: time in an observation is free entropy. Where
    episodes are known to have at least `shortest_episode` actions, less has to be embedded.
    """
    prepare = hiding(hidden_feature)
    view = viewing(network, embedding_size, settings, prepare)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> GemState:
        if num_worlds < 2:
            raise ValueError(
                f"num_worlds must be at least 2, a half for x and a half for x'; got {num_worlds}."
            )
        parameters = network.init(key, prepare(rows[:1]))
        return GemState(parameters, optimiser.init(parameters), init_normaliser())

    def loss(parameters: Parameters, rollout: Rollout, key: PRNGKeyArray):
        views = view(parameters, rollout.arrived.rows)
        halves = contrast_halves(views, rollout.arrived, rollout.reward.shape[1], settings, key)
        objective = _average(
            halves,
            lambda half: gem_objective(
                half.log_g, half.contrast.similarity, half.weight, alpha=settings.alpha
            ),
        )
        cost, metrics = regularisers(
            lambda rows: view(parameters, rows).embedding,
            views.embedding,
            rollout,
            settings,
            shortest_episode,
        )
        metrics |= {"gem_objective": objective}
        reward = reward_of(halves, rollout, settings)
        of_halves = [diagnosis(*half) for half in halves]
        return cost - objective, (reward, metrics | jax.tree.map(lambda *two: sum(two) / 2, *of_halves))

    def reward(state: GemState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        _, (raw, _) = loss(state.parameters, rollout, key)
        return pay(state.normaliser, raw, jnp.isfinite(raw), settings)[0]

    def step(state: GemState, rollout: Rollout, key: PRNGKeyArray):
        gradient_of = jax.value_and_grad(loss, has_aux=True)
        (total, (raw, metrics)), gradient = gradient_of(state.parameters, rollout, key)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
        paid, normaliser = pay(state.normaliser, raw, jnp.isfinite(raw), settings)
        state = GemState(optax.apply_updates(state.parameters, updates), optimiser_state, normaliser)
        return paid, state, metrics | {"gem_loss": total, "raw_reward": jnp.mean(raw)}

    def embed(state: GemState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return view(state.parameters, rows).embedding

    return IntrinsicReward(init, reward, step, embed)


def hiding(feature: int | None) -> Callable[[Float[Array, "rows *shape"]], Float[Array, "rows *shape"]]:
    """Keeps one entry of observation vectors from whoever looks at them."""
    return lambda rows: rows if feature is None else rows.at[:, feature].set(0.0)


def viewing(
    network: Network,
    embedding_size: int,
    settings: GemSettings,
    prepare: Callable[[Float[Array, "rows *shape"]], Float[Array, "rows *shape"]],
) -> Callable[[Parameters, Float[Array, "rows *shape"]], Views]:
    """What f and g say of observations. With a given similarity these are their own embedding."""

    def view(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Views:
        prepared = prepare(rows)
        outputs = network.apply(parameters, prepared)
        embedding, log_g = outputs[:, :embedding_size], log_g_of(outputs[:, embedding_size])
        if settings.similarity == "learned":
            return Views(embedding, log_g)
        return Views(prepared.reshape(prepared.shape[0], -1), log_g)

    return view


def pay(
    normaliser: Normaliser,
    raw: Float[Array, "time worlds"],
    counts: Bool[Array, "time worlds"],
    settings: GemSettings,
) -> tuple[Float[Array, "time worlds"], Normaliser]:
    """The reward standardised, scaled and shifted, and its moments after those steps that count."""
    # The batch's own moments count at once, so that the first updates are not thrown.
    normaliser = update_normaliser(normaliser, raw, counts, decay=settings.normaliser_decay)
    if not settings.normalise:
        return settings.scale * raw, normaliser
    return normalise(normaliser, raw, scale=settings.scale, shift=settings.shift), normaliser


class Half(NamedTuple):
    """One half of the worlds, contrasted with the other."""

    log_g: Float[Array, " N"]
    contrast: Contrast
    weight: Weight | None
    """How often each row was visited by this half; None where every step is a row of its own."""


def contrast_halves(
    views: Views, arrived: Observations, num_worlds: int, settings: GemSettings, key: PRNGKeyArray
) -> tuple[Half, Half]:
    """Each half of the worlds, with all or some of the other half's states as negatives."""
    if settings.num_negatives:
        return _contrast_with_drawn(views, arrived.row, num_worlds, settings, key)
    if arrived.row is None:
        return _contrast_of_steps(views, num_worlds, settings)
    if 4 * views.log_g.size**2 <= arrived.row.size**2:
        return _contrast_of_table(views, arrived.row, settings)
    # Two halves of the steps have fewer pairs than a large table has.
    row = arrived.row.reshape(-1)
    return _contrast_of_steps(Views(views.embedding[row], views.log_g[row]), num_worlds, settings)


def reward_of(
    halves: tuple[Half, Half], rollout: Rollout, settings: GemSettings
) -> Float[Array, "time worlds"]:
    """The reward of every step, before normalisation: each state is paid by its own half."""
    num_steps, num_worlds = rollout.reward.shape
    first, second = (gem_reward(half.log_g, half.contrast, alpha=settings.alpha) for half in halves)
    row = rollout.arrived.row
    if row is None or halves[0].weight is None:
        return jnp.concatenate([first.reshape(num_steps, -1), second.reshape(num_steps, -1)], axis=1)
    return jnp.where(in_first_half(num_worlds)[None], first[row], second[row])


def in_first_half(num_worlds: int) -> Bool[Array, " worlds"]:
    """Halves by the index of the world: x and x' come from different ones."""
    return jnp.arange(num_worlds) < num_worlds // 2


def regularisers(
    embed: Callable[[Float[Array, "rows *shape"]], Float[Array, "rows D"]],
    of_rows: Float[Array, "rows D"],
    rollout: Rollout,
    settings: GemSettings,
    shortest_episode: int,
) -> tuple[Float[Array, ""], Metrics]:
    """What a learned geometry costs beside the objective: `w_reg ‖f(x)‖² + C · AR`, over every step of a rollout.

    Given f, and f of the rows that were arrived in. AR goes never across a reset, and terminal states are included.
    """
    if settings.similarity != "learned":
        return jnp.zeros(()), {}
    size = of_rows.shape[-1]
    after = spread(rollout.arrived, of_rows, rollout.reward.shape[1]).reshape(-1, size)
    before = embeddings_before(embed, of_rows, rollout, shortest_episode).reshape(-1, size)
    penalty = embedding_penalty(after)
    adjacency = adjacency_regulariser(
        before, after, huber_offset=settings.huber_offset, huber_exponent=settings.huber_exponent
    )
    cost = settings.regularisation * penalty + settings.adjacency_scale * adjacency
    return cost, {"adjacency": adjacency, "embedding_norm": jnp.sqrt(penalty)}


def diagnosis(log_g: Float[Array, " N"], contrast: Contrast, weight: Weight | None = None) -> Metrics:
    """What tells whether the geometry is sound; see the documentation of the metrics."""
    return {
        "similarity_mean": mean(contrast.similarity, weight),
        "effective_states": jnp.exp(-mean(jnp.log(jnp.maximum(contrast.similarity, 1e-12)), weight)),
        "log_g": mean(log_g, weight),
    }


def _average(halves: tuple[Half, Half], number: Callable[[Half], Float[Array, ""]]) -> Float[Array, ""]:
    """Of a number that each half has."""
    return 0.5 * (number(halves[0]) + number(halves[1]))


def _contrast_of_table(
    views: Views, row: Int[Array, "time worlds"], settings: GemSettings
) -> tuple[Half, Half]:
    """K over the distinct rows once; the histograms of the two halves do the rest."""
    is_first = jnp.broadcast_to(in_first_half(row.shape[1])[None], row.shape)
    first, second = (
        jnp.zeros(views.log_g.shape).at[row].add(half.astype(float)) for half in (is_first, ~is_first)
    )
    power = power_of(views.log_g, settings)
    if settings.similarity in ("learned", "exponential"):
        of_second, of_first = exact_contrasts_among(
            views.embedding, power, (second, first), similarity_scale=settings.similarity_scale
        )
    else:
        similarity = similarity_of(views.embedding, views.embedding, settings)
        of_second, of_first = (exact_contrast(similarity, power, weight) for weight in (second, first))
    return Half(views.log_g, of_second, first), Half(views.log_g, of_first, second)


def _contrast_of_steps(views: Views, num_worlds: int, settings: GemSettings) -> tuple[Half, Half]:
    """All pairs between the steps of the two halves."""
    first, second = (
        Views(*halves) for halves in zip(*(_halves(view, num_worlds) for view in views), strict=True)
    )
    powers = power_of(first.log_g, settings), power_of(second.log_g, settings)
    if settings.similarity in ("learned", "exponential"):
        of_first, of_second = exact_contrasts_between(
            first.embedding, second.embedding, powers, similarity_scale=settings.similarity_scale
        )
    else:
        similarity = similarity_of(first.embedding, second.embedding, settings)
        of_first, of_second = exact_contrast(similarity, powers[1]), exact_contrast(similarity.T, powers[0])
    return Half(first.log_g, of_first, None), Half(second.log_g, of_second, None)


def _contrast_with_drawn(
    views: Views,
    row: Int[Array, "time worlds"] | None,
    num_worlds: int,
    settings: GemSettings,
    key: PRNGKeyArray,
) -> tuple[Half, Half]:
    """A few negatives for every step, drawn from the steps of the other half: n_neg of the paper.

    The similarity of all pairs is one matrix product, and cheaper than the embeddings of the negatives of all steps.
    """
    num_steps = views.log_g.shape[0] if row is None else row.size
    steps = jnp.arange(num_steps) if row is None else row.reshape(-1)
    first, second = _halves(steps, num_worlds)
    power = power_of(views.log_g, settings)
    if row is None:
        similarity = similarity_of(views.embedding[first], views.embedding[second], settings)
        rows, columns = jnp.arange(first.size), jnp.arange(second.size)
    else:
        similarity = similarity_of(views.embedding, views.embedding, settings)
        rows, columns = first, second

    def contrast(
        similarity: Array, steps: Array, rows: Array, others: Array, columns: Array, key: PRNGKeyArray
    ):
        drawn = sample_negatives(key, (steps.shape[0], settings.num_negatives), others.shape[0])
        pairs = similarity[rows[:, None], columns[drawn]]
        return Half(views.log_g[steps], sampled_contrast(pairs, power[others[drawn]]), None)

    first_key, second_key = jax.random.split(key)
    return (
        contrast(similarity, first, rows, second, columns, first_key),
        contrast(similarity.T, second, columns, first, rows, second_key),
    )


def _halves(steps: Shaped[Array, "steps *rest"], num_worlds: int) -> tuple[Array, Array]:
    """The steps of the first and of the second half of the worlds, from all steps in order of time and world."""
    by_world = steps.reshape(-1, num_worlds, *steps.shape[1:])
    split = num_worlds // 2
    return by_world[:, :split].reshape(-1, *steps.shape[1:]), by_world[:, split:].reshape(
        -1, *steps.shape[1:]
    )


def power_of(log_g: Float[Array, "*shape"], settings: GemSettings) -> Float[Array, "*shape"]:
    """What negatives weigh in the reward, from which neither f nor g learns: no gradient has to be followed."""
    return jax.lax.stop_gradient(g_power(log_g, settings.alpha))


def similarity_of(points: Array, others: Array, settings: GemSettings) -> Float[Array, "N M"]:
    """Of all pairs, as set."""
    if callable(settings.similarity):
        return settings.similarity(points, others)
    if settings.similarity == "indicator":
        return (distances(points, others) == 0).astype(float)
    return exponential_similarity(points, others, scale=settings.similarity_scale)

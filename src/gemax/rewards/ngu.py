"""NGU, never give up (Badia et al. 2020): pays for states that are far from all that the episode has seen so far.

The paper's section 2 and its Algorithm 1, for every world on its own. At time t + 1 the memory holds f(x_0) … f(x_t):
all that was acted from in this episode, its start included, while the state arrived in is compared first and remembered
when it is acted from in its turn. A terminal state is paid for and never remembered. Embeddings stay as they were when
they were remembered, however f moves on.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.checks import check_fraction, check_not_negative, check_positive
from gemax.networks import Network, Parameters, mlp
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.both_ends import embeddings_before
from gemax.rewards.remembering import remembered_at
from gemax.types import Rollout, Tree, spread, tree_where

DIMENSIONS_AT_ONCE = 32
"""Of embeddings, in one pass over the distances: fewer passes read and write them less often."""


@dataclass(frozen=True)
class NguSettings:
    """What NGU can be told. The values are those of NGU's own paper, except for the scale."""

    scale: float = 0.0003
    """What the reward is multiplied with; nothing else is done to it."""
    num_neighbours: int = 10
    """k."""
    kernel_epsilon: float = 1e-3
    """ε of the kernel ε / (d²/d_m² + ε)."""
    cluster_distance: float = 0.008
    """ξ: neighbours nearer than this, as a share of d_m², are taken for the same."""
    pseudo_count: float = 0.001
    """c: added to the similarity, so that nothing is paid more than 1 / c."""
    largest_similarity: float = 8.0
    """s_max: what is more similar to the memory is paid nothing. Out of reach with fewer than 64 neighbours."""
    distance_decay: float = 0.999
    """Of the running average d_m², for each step; 1 averages over all steps there ever were."""
    hidden_size: int = 256
    """Of the action predictor."""


class EpisodicMemory(NamedTuple):
    """What each world remembers of its episode."""

    embedding: Float[Array, "D worlds capacity"]
    """The newest last. Entries side by side, which is how distances to all of them are taken fast."""
    length: Int[Array, " worlds"]
    """How many of them, counted from the newest, belong to the current episode."""
    distance_sum: Float[Array, " worlds"]
    """The sum of decay^age over the squared distances to neighbours; it outlives the episode."""
    distance_count: Float[Array, " worlds"]
    """The same sum over their number."""


class NguState(NamedTuple):
    """All that changes in NGU."""

    parameters: Parameters
    """Of the embedding f and the action predictor h."""
    optimiser: Tree
    memory: EpisodicMemory


class Recollection(NamedTuple):
    """What the memory says of the states arrived in."""

    reward: Float[Array, "time worlds"]
    similarity: Float[Array, "time worlds"]
    """s."""
    mean_distance: Float[Array, "time worlds"]
    """d_m²."""


def ngu(
    network: Network,
    num_actions: int,
    horizon: int,
    optimiser: optax.GradientTransformation,
    settings: NguSettings,
    hidden_feature: int | None = None,
    shortest_episode: int = 1,
) -> IntrinsicReward:
    """NGU's episodic reward with this network as f, in episodes of `shortest_episode` to `horizon` actions.

    The memory holds as many states as there are actions; in longer episodes it forgets the oldest. The
    `hidden_feature` of an observation vector is kept from f.
    """
    _check(num_actions, horizon, settings)
    predictor = mlp((settings.hidden_size, num_actions))

    def embed_rows(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        if hidden_feature is not None:
            rows = rows.at[:, hidden_feature].set(0.0)
        return network.apply(parameters["embedding"], rows)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> NguState:
        embedding_key, action_key = jax.random.split(key)
        parameters = {"embedding": network.init(embedding_key, rows[:1])}
        embedding = embed_rows(parameters, rows[:1])
        parameters["action"] = predictor.init(action_key, jnp.concatenate([embedding, embedding], axis=-1))
        memory = empty_memory(horizon, num_worlds, embedding.shape[-1])
        return NguState(parameters, optimiser.init(parameters), memory)

    def embed_steps(parameters: Parameters, rollout: Rollout):
        """f(x_t) and f(x_t+1) of every step, [time, worlds, D]; each row of a table is embedded once."""
        arrived = embed_rows(parameters, rollout.arrived.rows)
        before = embeddings_before(partial(embed_rows, parameters), arrived, rollout, shortest_episode)
        return before, spread(rollout.arrived, arrived, rollout.reward.shape[1])

    def loss(parameters: Parameters, rollout: Rollout):
        """-ln h(a | f(x_t), f(x_t+1)) on average. A step never crosses a reset: what it led to may be terminal."""
        embedding_t, embedding_tp1 = embed_steps(parameters, rollout)
        pairs = jnp.concatenate([embedding_t, embedding_tp1], axis=-1)
        logits = predictor.apply(parameters["action"], pairs.reshape(-1, pairs.shape[-1]))
        action = rollout.action.reshape(-1)
        total = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, action))
        accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == action)
        return total, (embedding_t, embedding_tp1, {"action_loss": total, "action_accuracy": accuracy})

    def reward(state: NguState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        embeddings = embed_steps(state.parameters, rollout)
        recollection, _ = recall(state.memory, *embeddings, rollout.is_first, settings)
        return settings.scale * recollection.reward

    def step(state: NguState, rollout: Rollout, key: PRNGKeyArray):
        gradient_of = jax.grad(loss, has_aux=True)
        gradient, (embedding_t, embedding_tp1, metrics) = gradient_of(state.parameters, rollout)
        recollection, memory = recall(state.memory, embedding_t, embedding_tp1, rollout.is_first, settings)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
        state = NguState(optax.apply_updates(state.parameters, updates), optimiser_state, memory)
        metrics |= {
            "episodic_reward": jnp.mean(recollection.reward),
            "memory_similarity": jnp.mean(recollection.similarity),
            "neighbour_distance": jnp.sqrt(jnp.mean(recollection.mean_distance)),
        }
        return settings.scale * recollection.reward, state, metrics

    def embed(state: NguState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return embed_rows(state.parameters, rows)

    def remember(state: NguState, rollout: Rollout, is_real: Bool[Array, " worlds"]) -> NguState:
        embeddings = embed_steps(state.parameters, rollout)
        _, after = recall(state.memory, *embeddings, rollout.is_first, settings)
        return state._replace(memory=where_real(is_real, after, state.memory))

    return IntrinsicReward(init, reward, step, embed, remember)


def empty_memory(capacity: int, num_worlds: int, size: int) -> EpisodicMemory:
    """Before the first episode."""
    nothing = jnp.zeros(num_worlds)
    return EpisodicMemory(
        jnp.zeros((size, num_worlds, capacity)), jnp.zeros(num_worlds, jnp.int32), nothing, nothing
    )


def recall(
    memory: EpisodicMemory,
    embedding_t: Float[Array, "time worlds D"],
    embedding_tp1: Float[Array, "time worlds D"],
    is_first: Bool[Array, "time worlds"],
    settings: NguSettings,
) -> tuple[Recollection, EpisodicMemory]:
    """Algorithm 1 for every step of a rollout in every world, and the memory after it.

    Only the running average has to be followed step by step. Which states a step can remember is known beforehand, so
    all distances are taken at once.
    """
    capacity = memory.embedding.shape[-1]
    stream = jnp.concatenate([memory.embedding, embedding_t.transpose(2, 1, 0)], axis=-1)
    remembered = remembered_at(is_first, memory.length, capacity)
    squared, is_there = nearest(embedding_tp1, stream, remembered, settings.num_neighbours)
    sums, counts = running_sums(memory, squared, is_there, settings.distance_decay)
    mean_distance = sums / jnp.maximum(counts, jnp.finfo(counts.dtype).tiny)
    recollection = pay(squared, is_there, mean_distance, settings)
    # Of the last step's entries those that are still remembered; they end with what it acted from.
    length = jnp.sum(remembered[:, -1], axis=-1, dtype=memory.length.dtype)
    return recollection, EpisodicMemory(stream[..., -capacity:], length, sums[-1], counts[-1])


def where_real(
    is_real: Bool[Array, " worlds"], after: EpisodicMemory, before: EpisodicMemory
) -> EpisodicMemory:
    """Each world's memory after a step, or as it was before where there was none."""
    embedding = jnp.where(is_real[None, :, None], after.embedding, before.embedding)
    rest = tree_where(is_real, after[1:], before[1:])
    return EpisodicMemory(embedding, *rest)


def nearest(
    embedding_tp1: Float[Array, "time worlds D"],
    stream: Float[Array, "D worlds entries"],
    remembered: Bool[Array, "worlds time entries"],
    num_neighbours: int,
) -> tuple[Float[Array, "time worlds k"], Bool[Array, "time worlds k"]]:
    """Squared distances to the nearest states remembered, and whether there are so many; 0 where there are not."""
    squared = squared_distances(embedding_tp1.transpose(2, 1, 0), stream)
    # What is not finite is nobody's neighbour, or the running average would never recover.
    squared = jnp.where(remembered & jnp.isfinite(squared), squared, jnp.inf)
    squared = -jax.lax.top_k(-squared, min(num_neighbours, squared.shape[-1]))[0].swapaxes(0, 1)
    is_there = jnp.isfinite(squared)
    return jnp.where(is_there, squared, 0.0), is_there


def squared_distances(
    points: Float[Array, "D worlds points"], entries: Float[Array, "D worlds entries"]
) -> Float[Array, "worlds points entries"]:
    """Of all points to all entries of the same world, by subtraction, one dimension after the other.

    A product of matrices is no faster than this, and wrong about neighbours, which are close by nature.
    """

    def add(total: Array, coordinates: tuple[Array, Array]) -> tuple[Array, None]:
        point, entry = coordinates
        return total + (point[:, :, None] - entry[:, None, :]) ** 2, None

    shape = (points.shape[1], points.shape[2], entries.shape[2])
    unroll = min(DIMENSIONS_AT_ONCE, points.shape[0])
    return jax.lax.scan(add, jnp.zeros(shape, points.dtype), (points, entries), unroll=unroll)[0]


def running_sums(
    memory: EpisodicMemory,
    squared: Float[Array, "time worlds k"],
    is_there: Bool[Array, "time worlds k"],
    decay: float,
) -> tuple[Float[Array, "time worlds"], Float[Array, "time worlds"]]:
    """Sums and counts whose quotient is d_m² after every step, its own distances included. All count alike."""

    def add(before: tuple[Array, Array], new: tuple[Array, Array]):
        after = decay * before[0] + new[0], decay * before[1] + new[1]
        return after, after

    new = jnp.sum(squared, axis=-1), jnp.sum(is_there, axis=-1, dtype=squared.dtype)
    return jax.lax.scan(add, (memory.distance_sum, memory.distance_count), new)[1]


def pay(
    squared: Float[Array, "time worlds k"],
    is_there: Bool[Array, "time worlds k"],
    mean_distance: Float[Array, "time worlds"],
    settings: NguSettings,
) -> Recollection:
    """`1 / s` with `s = √(Σ K) + c`, and 0 where s exceeds s_max.

    With fewer than k neighbours the sum has fewer terms, so that the first steps of an episode are paid more.
    """
    # Where d_m² is zero all distances are, and any divisor does.
    scale = jnp.maximum(mean_distance, jnp.finfo(mean_distance.dtype).tiny)[..., None]
    clustered = jnp.maximum(squared / scale - settings.cluster_distance, 0.0)
    kernel = jnp.where(is_there, settings.kernel_epsilon / (clustered + settings.kernel_epsilon), 0.0)
    similarity = jnp.sqrt(jnp.sum(kernel, axis=-1)) + settings.pseudo_count
    # The memory holds at least what was acted from, unless that was not finite.
    is_paid = (similarity <= settings.largest_similarity) & is_there[..., 0]
    return Recollection(jnp.where(is_paid, 1.0 / similarity, 0.0), similarity, mean_distance)


def _check(num_actions: int, horizon: int, settings: NguSettings) -> None:
    for name, value in {
        "num_actions": num_actions,
        "horizon": horizon,
        "num_neighbours": settings.num_neighbours,
    }.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}.")
    check_positive("kernel_epsilon", settings.kernel_epsilon)
    check_positive("pseudo_count", settings.pseudo_count)
    check_positive("largest_similarity", settings.largest_similarity)
    check_not_negative("cluster_distance", settings.cluster_distance)
    check_not_negative("scale", settings.scale)
    check_fraction("distance_decay", settings.distance_decay)

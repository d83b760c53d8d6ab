"""GEM within episodes: x is contrasted with all that its own episode has visited so far.

`alg:taco` spreads the visits of all episodes together. Where every episode has a world of its own, with other walls and
other goals, observations of two episodes are never alike: all look distinct whatever a policy does, and where starts
are spread already nothing is left to gain. Here p is the distribution of an episode's visits so far, and what is
maximised is its geometry-aware entropy as its newest visit sees it, on average over visits and episodes. The bound of
`thm:taco.kernel` holds for every g, so it holds for one g that all episodes share.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import Contrast, sampled_contrast
from gemax.core.normaliser import Normaliser, init_normaliser
from gemax.core.objective import gem_objective, gem_reward
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.gem import (
    GemSettings,
    Views,
    diagnosis,
    hiding,
    pay,
    power_of,
    regularisers,
    similarity_of,
    viewing,
)
from gemax.rewards.remembering import remembered_at
from gemax.types import Rollout, Tree, spread, tree_where

LARGEST_MEMORY = 2**25
"""Numbers remembered at the most (128 MB): every update looks at all of them, and every checkpoint holds them."""


class EpisodeSoFar(NamedTuple):
    """What each world has visited in its episode, the newest last."""

    rows: Float[Array, "worlds capacity *shape"]
    views: Views
    """What f and g say of them now, [worlds, capacity, ...]: whoever is paid step by step need not look again."""
    length: Int[Array, " worlds"]
    """How many of them, counted from the newest, belong to the current episode."""


class GemEpisodicState(NamedTuple):
    """All that changes."""

    parameters: Parameters
    optimiser: Tree
    normaliser: Normaliser
    memory: EpisodeSoFar


def gem_episodic(
    network: Network,
    embedding_size: int,
    optimiser: optax.GradientTransformation,
    settings: GemSettings,
    hidden_feature: int | None = None,
    shortest_episode: int = 1,
    *,
    capacity: int = 128,
) -> IntrinsicReward:
    """GEM, as in `gem`, with the last `capacity` visits of the episode as negatives, whatever `num_negatives` says."""
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 visit of an episode; got {capacity}.")
    prepare = hiding(hidden_feature)
    view = viewing(network, embedding_size, settings, prepare)

    def look_at_memory(parameters: Parameters, rows: Float[Array, "worlds capacity *shape"]) -> Views:
        views = view(parameters, rows.reshape(-1, *rows.shape[2:]))
        return jax.tree.map(lambda leaf: leaf.reshape(*rows.shape[:2], *leaf.shape[1:]), views)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> GemEpisodicState:
        room = LARGEST_MEMORY // (num_worlds * math.prod(rows.shape[1:]))
        if capacity > room:
            raise ValueError(
                f"episode_memory must be at most {room} for {num_worlds} worlds with observations of the shape "
                f"{rows.shape[1:]}, which are all looked at in every update; got {capacity}."
            )
        parameters = network.init(key, prepare(rows[:1]))
        nothing = jnp.zeros((num_worlds, capacity, *rows.shape[1:]))
        memory = EpisodeSoFar(nothing, look_at_memory(parameters, nothing), jnp.zeros(num_worlds, jnp.int32))
        return GemEpisodicState(parameters, optimiser.init(parameters), init_normaliser(), memory)

    def extend(memory: EpisodeSoFar, of_rows: Views, rollout: Rollout):
        """With the rollout's visits behind those remembered; which of both each step is contrasted with; what stays."""
        num_worlds = rollout.reward.shape[1]

        def behind(old: Array, rows: Array) -> Array:
            new = spread(rollout.arrived, rows.reshape(rows.shape[0], -1), num_worlds).swapaxes(0, 1)
            return jnp.concatenate([old, new.reshape(*new.shape[:2], *old.shape[2:])], axis=1)

        rows, views = behind(memory.rows, rollout.arrived.rows), jax.tree.map(behind, memory.views, of_rows)
        remembered = remembered_at(rollout.is_first, memory.length, capacity)
        length = jnp.sum(remembered[:, -1], axis=-1, dtype=memory.length.dtype)
        kept_rows, kept_views = jax.tree.map(lambda leaf: leaf[:, -capacity:], (rows, views))
        return views, remembered, EpisodeSoFar(kept_rows, kept_views, length)

    def contrast_of(memory: EpisodeSoFar, of_rows: Views, rollout: Rollout):
        """What g says of every step, by world and time; what its episode says; and the memory after it."""
        stream, remembered, after = extend(memory, of_rows, rollout)
        return stream.log_g[:, capacity:].reshape(-1), contrast_within(stream, remembered, settings), after

    def paid_for(normaliser: Normaliser, log_g: Array, contrast: Contrast, rollout: Rollout):
        """What each step is paid, the moments after it, and what it was before them."""
        num_steps, num_worlds = rollout.reward.shape
        raw = gem_reward(log_g, contrast, alpha=settings.alpha).reshape(num_worlds, num_steps).T
        return *pay(normaliser, raw, jnp.isfinite(raw), settings), raw

    def reward(state: GemEpisodicState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        of_rows = view(state.parameters, rollout.arrived.rows)
        log_g, contrast, _ = contrast_of(state.memory, of_rows, rollout)
        return paid_for(state.normaliser, log_g, contrast, rollout)[0]

    def loss(parameters: Parameters, memory: EpisodeSoFar, rollout: Rollout):
        of_rows = view(parameters, rollout.arrived.rows)
        # Looked at again: identical states are at distance zero only under the same f, and learn nothing there.
        memory = memory._replace(views=look_at_memory(parameters, memory.rows))
        log_g, contrast, memory = contrast_of(memory, of_rows, rollout)
        objective = gem_objective(log_g, contrast.similarity, alpha=settings.alpha)
        cost, metrics = regularisers(
            lambda rows: view(parameters, rows).embedding,
            of_rows.embedding,
            rollout,
            settings,
            shortest_episode,
        )
        metrics |= {"gem_objective": objective} | diagnosis(log_g, contrast)
        return cost - objective, (log_g, contrast, memory, metrics)

    def step(state: GemEpisodicState, rollout: Rollout, key: PRNGKeyArray):
        gradient_of = jax.value_and_grad(loss, has_aux=True)
        (total, told), gradient = gradient_of(state.parameters, state.memory, rollout)
        log_g, contrast, memory, metrics = told
        paid, normaliser, raw = paid_for(state.normaliser, log_g, contrast, rollout)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        memory = memory._replace(views=look_at_memory(parameters, memory.rows))
        state = GemEpisodicState(parameters, optimiser_state, normaliser, memory)
        return paid, state, metrics | {"gem_loss": total, "raw_reward": jnp.mean(raw)}

    def remember(
        state: GemEpisodicState, rollout: Rollout, is_real: Bool[Array, " worlds"]
    ) -> GemEpisodicState:
        _, _, after = extend(state.memory, view(state.parameters, rollout.arrived.rows), rollout)
        return state._replace(memory=tree_where(is_real, after, state.memory))

    def embed(state: GemEpisodicState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return view(state.parameters, rows).embedding

    return IntrinsicReward(init, reward, step, embed, remember)


def contrast_within(
    stream: Views, remembered: Bool[Array, "worlds time entries"], settings: GemSettings
) -> Contrast:
    """Each step with the visits of its episode up to and including its own, by world and time."""
    num_steps = remembered.shape[1]
    similarity = jax.vmap(lambda one: similarity_of(one[-num_steps:], one, settings))(stream.embedding)
    power = jnp.broadcast_to(power_of(stream.log_g, settings)[:, None], remembered.shape)
    # One observation that is not finite must not spoil what all others are paid.
    remembered = remembered & jnp.isfinite(stream.log_g)[:, None]
    similarity, power, remembered = (
        leaf.reshape(-1, leaf.shape[-1]) for leaf in (similarity, power, remembered)
    )
    return sampled_contrast(similarity, power, remembered)

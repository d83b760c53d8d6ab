"""GEM for few worlds, or one: x is contrasted with recent observations of other episodes.

`alg:taco` needs pairs that are independent of each other. With many worlds these come from different worlds. With few
there are too few of these, and one step at a time there is nothing else to draw from. So the last observations arrived
in, those of the rollout included, are kept with the number of their episode: the negatives of x are those of all
episodes but its own. They are as old as they are few; while the policy moves slowly, that hardly matters.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.core.expectation import Contrast, mean, sampled_contrast
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
from gemax.types import Rollout, Tree, spread

NO_EPISODE = -1
"""The number that entries have before there is anything to remember."""


class Recent(NamedTuple):
    """The last observations arrived in: a ring, in which a new one takes the place of the oldest."""

    rows: Float[Array, "capacity *shape"]
    views: Views
    """What f and g say of them now: whoever is paid step by step need not look at all of them again."""
    episode: Int[Array, " capacity"]
    """The number of the episode that each is from."""
    position: Int[Array, ""]
    """Where the next one goes."""
    current: Int[Array, " worlds"]
    """The number of the episode that each world is in."""


class GemRecentState(NamedTuple):
    """All that changes."""

    parameters: Parameters
    optimiser: Tree
    normaliser: Normaliser
    recent: Recent


def gem_recent(
    network: Network,
    embedding_size: int,
    optimiser: optax.GradientTransformation,
    settings: GemSettings,
    hidden_feature: int | None = None,
    shortest_episode: int = 1,
    *,
    capacity: int = 1024,
) -> IntrinsicReward:
    """GEM, as in `gem`, with the last `capacity` observations to draw negatives from, whatever `num_negatives` says."""
    if capacity < 2:
        raise ValueError(f"capacity must be at least 2 recent observations; got {capacity}.")
    prepare = hiding(hidden_feature)
    view = viewing(network, embedding_size, settings, prepare)

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int) -> GemRecentState:
        parameters = network.init(key, prepare(rows[:1]))
        nothing = jnp.zeros((capacity, *rows.shape[1:]))
        recent = Recent(
            rows=nothing,
            views=view(parameters, nothing),
            episode=jnp.full(capacity, NO_EPISODE),
            position=jnp.zeros((), int),
            current=jnp.arange(num_worlds),
        )
        return GemRecentState(parameters, optimiser.init(parameters), init_normaliser(), recent)

    def by_steps(of_rows: Views, rollout: Rollout) -> Views:
        """What is said of every step of the rollout in turn, by time and world."""
        num_worlds = rollout.reward.shape[1]
        embedding = spread(rollout.arrived, of_rows.embedding, num_worlds)
        log_g = spread(rollout.arrived, of_rows.log_g[:, None], num_worlds)
        return Views(embedding.reshape(-1, embedding.shape[-1]), log_g.reshape(-1))

    def look(parameters: Parameters, rollout: Rollout) -> Views:
        return by_steps(view(parameters, rollout.arrived.rows), rollout)

    def extend(recent: Recent, views: Views, rollout: Rollout, is_real: Bool[Array, " worlds"]):
        """With the rollout's observations, and the number of each step's episode."""
        current, episode = episodes_of(recent.current, rollout.is_first, is_real)
        real = jnp.broadcast_to(is_real[None], episode.shape).reshape(-1)
        end = recent.position + jnp.cumsum(real)
        # Of more steps than there is room for, the last are kept.
        kept = slice(max(0, episode.size - capacity), None)
        place = jnp.where(real, (end - 1) % capacity, capacity)[kept]

        def put(old: Array, new: Array) -> Array:
            return old.at[place].set(new[kept], mode="drop")

        extended = Recent(
            rows=put(recent.rows, steps_of(rollout)),
            views=jax.tree.map(put, recent.views, views),
            episode=put(recent.episode, episode.reshape(-1)),
            position=end[-1] % capacity,
            current=current,
        )
        return extended, episode.reshape(-1)

    def everywhere(rollout: Rollout) -> Bool[Array, " worlds"]:
        return jnp.ones(rollout.reward.shape[1], bool)

    def reward(state: GemRecentState, rollout: Rollout, key: PRNGKeyArray) -> Float[Array, "time worlds"]:
        views = look(state.parameters, rollout)
        recent, episode = extend(state.recent, views, rollout, everywhere(rollout))
        contrast, is_contrasted = contrast_with(recent, views, episode, settings)
        return pay_contrasted(state.normaliser, views, contrast, is_contrasted, rollout, settings)[0]

    def loss(parameters: Parameters, recent: Recent, rollout: Rollout):
        of_rows = view(parameters, rollout.arrived.rows)
        views = by_steps(of_rows, rollout)
        # The gradient goes through the negatives as well, also through those of earlier rollouts.
        recent = recent._replace(views=view(parameters, recent.rows))
        recent, episode = extend(recent, views, rollout, everywhere(rollout))
        contrast, is_contrasted = contrast_with(recent, views, episode, settings)
        objective = gem_objective(views.log_g, contrast.similarity, is_contrasted, alpha=settings.alpha)
        cost, metrics = regularisers(
            lambda rows: view(parameters, rows).embedding,
            of_rows.embedding,
            rollout,
            settings,
            shortest_episode,
        )
        metrics |= {"gem_objective": objective} | diagnosis(views.log_g, contrast, is_contrasted)
        return cost - objective, (views, contrast, is_contrasted, recent, metrics)

    def step(state: GemRecentState, rollout: Rollout, key: PRNGKeyArray):
        gradient_of = jax.value_and_grad(loss, has_aux=True)
        (total, told), gradient = gradient_of(state.parameters, state.recent, rollout)
        views, contrast, is_contrasted, recent, metrics = told
        paid, normaliser, raw = pay_contrasted(
            state.normaliser, views, contrast, is_contrasted, rollout, settings
        )
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        recent = recent._replace(views=view(parameters, recent.rows))
        state = GemRecentState(parameters, optimiser_state, normaliser, recent)
        metrics |= {"gem_loss": total, "raw_reward": mean(raw.reshape(-1), is_contrasted)}
        return paid, state, metrics

    def remember(state: GemRecentState, rollout: Rollout, is_real: Bool[Array, " worlds"]) -> GemRecentState:
        recent, _ = extend(state.recent, look(state.parameters, rollout), rollout, is_real)
        return state._replace(recent=recent)

    def embed(state: GemRecentState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return view(state.parameters, rows).embedding

    return IntrinsicReward(init, reward, step, embed, remember)


def steps_of(rollout: Rollout) -> Float[Array, "steps *shape"]:
    """What every step arrived in, in order of time and world."""
    rows, row = rollout.arrived
    return rows if row is None else rows[row.reshape(-1)]


def episodes_of(
    current: Int[Array, " worlds"], is_first: Bool[Array, "time worlds"], is_real: Bool[Array, " worlds"]
) -> tuple[Int[Array, " worlds"], Int[Array, "time worlds"]]:
    """The number of the episode that each world ends up in, and that of every step.

    Worlds count up in strides of their number, so that no two ever share one.
    """
    started = jnp.cumsum(is_first & is_real[None], axis=0)
    episode = current[None] + started * current.shape[0]
    return jnp.where(is_real, episode[-1], current), episode


def contrast_with(
    recent: Recent, views: Views, episode: Int[Array, " steps"], settings: GemSettings
) -> tuple[Contrast, Bool[Array, " steps"]]:
    """Each step with all recent observations of other episodes, and whether there are any."""
    others = (recent.episode[None] != episode[:, None]) & (recent.episode[None] != NO_EPISODE)
    # One observation that is not finite must not spoil what all others are paid.
    others &= jnp.isfinite(recent.views.log_g)[None]
    similarity = similarity_of(views.embedding, recent.views.embedding, settings)
    power = jnp.broadcast_to(power_of(recent.views.log_g, settings)[None], others.shape)
    return sampled_contrast(similarity, power, others), jnp.any(others, axis=1)


def pay_contrasted(
    normaliser: Normaliser,
    views: Views,
    contrast: Contrast,
    is_contrasted: Bool[Array, " steps"],
    rollout: Rollout,
    settings: GemSettings,
) -> tuple[Float[Array, "time worlds"], Normaliser, Float[Array, "time worlds"]]:
    """What each step is paid, the moments after it, and what it was before them.

    Who cannot be contrasted with anything is paid the mean: in the very first episode, nobody knows better.
    """
    shape = rollout.reward.shape
    raw = gem_reward(views.log_g, contrast, alpha=settings.alpha).reshape(shape)
    counts = is_contrasted.reshape(shape)
    paid, moved = pay(normaliser, raw, counts & jnp.isfinite(raw), settings)
    mean_paid = settings.shift if settings.normalise else 0.0
    return jnp.where(counts, paid, mean_paid), moved, raw

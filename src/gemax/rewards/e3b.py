"""E3B, exploration via elliptical episodic bonuses (Henaff et al. 2022): the reward is high for new directions.

Algorithm 1 of the paper, for each environment separately. φ is an embedding learned by inverse dynamics,
and C = λI + Σ φφᵀ over the states reached so far in the episode:

    b = φᵀ C⁻¹ φ,  u = C⁻¹ φ,  C⁻¹ ← C⁻¹ - u uᵀ / (1 + b),  with φ of the next observation and C⁻¹ = I/λ at the start

The bonus b counts visits in a continuous space: if states are one-hot vectors and λ is small, it is 1 / visits.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gemax.core.expectation import mean
from gemax.core.moments import Moments, init_moments, std
from gemax.networks import Network, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.inverse_dynamics import inverse_dynamics
from gemax.rewards.running_std import divide_by_running_std
from gemax.settings import Fraction, Positive, PositiveInt, check_fields, check_nonnegative
from gemax.types import Transition, Tree, tree_where, valid_steps


@dataclass(frozen=True)
class E3bSettings:
    """Settings of E3B. λ is that of its paper."""

    ridge: Positive = 0.1
    """λ: the smaller it is, the larger is the bonus of the first states of an episode."""
    hidden_size: PositiveInt = 256
    """Hidden units of the action predictor."""
    bonus_decay: Fraction = 0.99
    """Decay per rollout of the running moments of the bonus."""


class EllipticalMemory(NamedTuple):
    """The states of the episode of each environment, as a matrix."""

    root: Float[Array, "envs D D"]
    """S with S Sᵀ = C⁻¹.

    Rounding errors of C⁻¹ itself can make it indefinite, and then b negative and 1 + b zero. S Sᵀ is never indefinite.
    """


class E3bState(NamedTuple):
    """Everything that changes in E3B."""

    parameters: Parameters
    """Parameters of the embedding φ and the action predictor."""
    opt_state: Tree
    memory: EllipticalMemory
    normaliser: Moments
    """Running moments of the bonus."""


def e3b(
    network: Network,
    num_actions: int,
    optimiser: optax.GradientTransformation,
    scale: float,
    settings: E3bSettings,
    ignored_feature: int | None = None,
    min_episode_steps: int = 1,
) -> IntrinsicReward:
    """Returns E3B with this network as φ: the bonus over its running standard deviation, times the scale.

    The authors' code for MiniHack divides the bonus by a running standard deviation as well, and does not subtract the
    mean. Our choices are that the deviation decays, because φ changes while it learns, and that it excludes the current
    rollout.

    φ does not see the entry `ignored_feature` of observation vectors. Every episode must have at least
    `min_episode_steps` actions, otherwise the rewards are NaN. Larger values save embeddings.
    """
    check_nonnegative("scale", scale)
    check_fields(settings)
    dynamics = inverse_dynamics(
        network,
        num_actions,
        optimiser,
        hidden_size=settings.hidden_size,
        ignored_feature=ignored_feature,
        min_episode_steps=min_episode_steps,
    )

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int) -> E3bState:
        parameters = dynamics.init(key, rows)
        size = dynamics.embed(parameters, rows[:1]).shape[-1]
        memory = empty_memory(num_envs, size, settings.ridge)
        return E3bState(parameters, optimiser.init(parameters), memory, init_moments())

    def bonus_and_memory(state: E3bState, embedding: Float[Array, "time envs D"], transitions: Transition):
        is_valid = valid_steps(transitions)
        return elliptical_bonus(state.memory, embedding, transitions.is_first, is_valid, settings.ridge)

    def scaled_reward(state: E3bState, bonus: Float[Array, "time envs"], transitions: Transition):
        """Returns the reward and the updated moments."""
        is_valid = valid_steps(transitions)
        scaled, normaliser = divide_by_running_std(
            state.normaliser, bonus, is_valid, decay=settings.bonus_decay
        )
        return jnp.where(is_valid, scale * scaled, 0.0), normaliser

    def reward(state: E3bState, transitions: Transition, key: PRNGKeyArray) -> Float[Array, "time envs"]:
        embedding = dynamics.embed_steps(state.parameters, transitions).after
        bonus, _ = bonus_and_memory(state, embedding, transitions)
        return scaled_reward(state, bonus, transitions)[0]

    def step(state: E3bState, transitions: Transition, key: PRNGKeyArray):
        learned = dynamics.learn(state.parameters, state.opt_state, transitions)
        embedding = learned.embeddings.after
        bonus, memory = bonus_and_memory(state, embedding, transitions)
        scaled, normaliser = scaled_reward(state, bonus, transitions)
        metrics = learned.metrics | {
            "elliptical_bonus": mean(bonus.reshape(-1), valid_steps(transitions).reshape(-1)),
            "elliptical_bonus_std": std(normaliser),
            "embedding_norm": jnp.sqrt(jnp.mean(jnp.sum(embedding**2, axis=-1))),
        }
        return scaled, E3bState(learned.parameters, learned.opt_state, memory, normaliser), metrics

    def embed(state: E3bState, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows D"]:
        return dynamics.embed(state.parameters, rows)

    def remember(state: E3bState, transitions: Transition, is_valid: Bool[Array, " envs"]) -> E3bState:
        embedding = dynamics.embed_steps(state.parameters, transitions).after
        _, memory = bonus_and_memory(state, embedding, transitions)
        return state._replace(memory=tree_where(is_valid, memory, state.memory))

    return IntrinsicReward(init, reward, step, embed, remember)


def empty_memory(num_envs: int, size: int, ridge: float) -> EllipticalMemory:
    """Returns the memory at the start of an episode, C⁻¹ = I/λ."""
    return EllipticalMemory(jnp.tile(_empty_root(size, ridge), (num_envs, 1, 1)))


def reset_memory(
    memory: EllipticalMemory, is_reset: Bool[Array, " envs"], size: int, ridge: float
) -> EllipticalMemory:
    """Returns the memory with the given environments at the start of an episode."""
    return EllipticalMemory(jnp.where(is_reset[:, None, None], _empty_root(size, ridge)[None], memory.root))


def _empty_root(size: int, ridge: float) -> Float[Array, "D D"]:
    return jnp.eye(size) / jnp.sqrt(ridge)


def elliptical_bonus(
    memory: EllipticalMemory,
    embedding: Float[Array, "time envs D"],
    is_first: Bool[Array, "time envs"],
    is_valid: Bool[Array, "time envs"],
    ridge: float,
) -> tuple[Float[Array, "time envs"], EllipticalMemory]:
    """Applies Algorithm 1 to all steps of a rollout. Returns the bonus of each step and the memory after the rollout.

    Invalid steps, and steps whose bonus is not finite, leave the memory unchanged.
    """
    size, is_reset = embedding.shape[-1], is_first & is_valid
    resets_next = jnp.roll(is_reset, -1, axis=0).at[-1].set(False)

    def add(memory: EllipticalMemory, step: tuple[Array, Array, Array]):
        embedding, is_valid, resets_next = step
        bonus, memory = rank_one_update(memory, embedding, is_valid)
        # The reset is part of the update before it, so that the matrices are written once per step.
        return reset_memory(memory, resets_next, size, ridge), bonus

    memory = reset_memory(memory, is_reset[0], size, ridge)
    memory, bonus = jax.lax.scan(add, memory, (embedding, is_valid, resets_next))
    return bonus, memory


def rank_one_update(
    memory: EllipticalMemory, embedding: Float[Array, "envs D"], is_valid: Bool[Array, " envs"]
) -> tuple[Float[Array, " envs"], EllipticalMemory]:
    """Returns b = φᵀ C⁻¹ φ, and the memory with φ added if it is valid and b is finite.

    With v = Sᵀφ: b = vᵀv and C⁻¹ - uuᵀ / (1 + b) = S (I - vvᵀ / (1 + b)) Sᵀ. The matrix in the middle is the square of
    I - vvᵀ / (1 + b + √(1 + b)), which S is multiplied by.
    """
    projection = jnp.einsum("eij,ei->ej", memory.root, embedding)
    bonus = jnp.sum(projection**2, axis=-1)
    is_added = (is_valid & jnp.isfinite(bonus))[:, None]
    factor = projection / (1.0 + bonus + jnp.sqrt(1.0 + bonus))[:, None]
    # The change is zero if nothing is added. Selecting between two matrices would take longer.
    projection, factor = jnp.where(is_added, projection, 0.0), jnp.where(is_added, factor, 0.0)
    direction = jnp.einsum("eij,ej->ei", memory.root, projection)
    return bonus, EllipticalMemory(memory.root - direction[:, :, None] * factor[:, None, :])

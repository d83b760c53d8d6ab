"""An intrinsic reward that learns from other people's environments, for other people's agents.

Observations are centred as they are in training, and go to the same pure functions. There are two ways to be paid.
`learn` pays a whole rollout and learns from it: for agents that wait for the end of it. `pay` pays one step at once and
learns nothing: for those that cannot wait, who hand in the rollout later.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.rewards.base import IntrinsicReward
from gemax.training.centring import Centring, centre, empty_centring, update_centring
from gemax.types import Metrics, Observations, Rollout, Tree

Numbers: TypeAlias = Any
"""An array: NumPy's outside, JAX's inside of what is compiled."""


class Steps(NamedTuple):
    """What happened in all worlds over some time, in order, observations flattened. [time, worlds]."""

    seen: Shaped[Numbers, "time worlds *shape"]
    """What each action was chosen from."""
    arrived: Shaped[Numbers, "time worlds *shape"]
    """What each action led to: terminal observations, not those of the next start."""
    action: Int[Numbers, "time worlds"]
    """Zero where actions are not numbered."""
    reward: Float[Numbers, "time worlds"]
    terminated: Bool[Numbers, "time worlds"]
    truncated: Bool[Numbers, "time worlds"]
    is_first: Bool[Numbers, "time worlds"]


class LearnerState(NamedTuple):
    """All that changes."""

    key: PRNGKeyArray
    reward: Tree
    centring: Centring
    updates: Int[Array, ""]
    """How many rollouts were learned from."""


class Learner(NamedTuple):
    """Compiled functions. All that changes lives in the state they pass along."""

    init: Callable[[PRNGKeyArray], LearnerState]
    pay: Callable[
        [LearnerState, Steps, Bool[np.ndarray, " worlds"]], tuple[Float[Array, " worlds"], LearnerState]
    ]
    """What one step earns with what is known, and the state that remembers it, but has not learned from it.

    Where the mask is false there was no step, whatever is said of it. Before the first rollout was learned from, nobody
    knows how large rewards are, and nothing is paid.
    """
    learn: Callable[[LearnerState, Steps], tuple[Float[Array, "time worlds"], LearnerState, Metrics]]
    """What the steps of a rollout earn, and the state that has learned from them."""
    remember: Callable[[LearnerState, Steps, Bool[np.ndarray, " worlds"]], LearnerState] | None
    """The state that `pay` gives, where the intrinsic reward remembers anything."""


def learner(
    reward: IntrinsicReward, shape: tuple[int, ...], num_worlds: int, anneal_updates: int = 0
) -> Learner:
    """Learns an intrinsic reward for observations of this shape, from so many worlds.

    What it pays goes down to zero over `anneal_updates` rollouts; 0 keeps it.
    """

    def init(key: PRNGKeyArray) -> LearnerState:
        key, reward_key = jax.random.split(key)
        state = reward.init(reward_key, jnp.zeros((1, *shape)), num_worlds)
        return LearnerState(key, state, empty_centring(shape), jnp.zeros((), int))

    def weight(state: LearnerState) -> Float[Array, ""]:
        if not anneal_updates:
            return jnp.ones(())
        return jnp.maximum(1.0 - state.updates / anneal_updates, 0.0)

    def remembered(state: LearnerState, steps: Steps, is_real: Bool[Array, " worlds"]) -> Tree:
        if reward.remember is None:
            return None
        return reward.remember(state.reward, rollout_of(state.centring, filled(steps, is_real)), is_real)

    def earned(state: LearnerState, steps: Steps, is_real: Bool[Array, " worlds"]):
        rollout = rollout_of(state.centring, filled(steps, is_real))
        paid = reward.reward(state.reward, rollout, state.key)[0]
        paid = jnp.where(is_real & (state.updates > 0), weight(state) * paid, 0.0)
        return paid, remembered(state, steps, is_real)

    compiled_earned, compiled_remembered = jax.jit(earned), jax.jit(remembered)

    def pay(state: LearnerState, steps: Steps, is_real: Bool[np.ndarray, " worlds"]):
        paid, memory = compiled_earned(state, steps, is_real)
        # A state that stays as it is is not sent through what is compiled: that takes longer than paying.
        return paid, state if memory is None else state._replace(reward=memory)

    def remember(state: LearnerState, steps: Steps, is_real: Bool[np.ndarray, " worlds"]) -> LearnerState:
        return state._replace(reward=compiled_remembered(state, steps, is_real))

    def learn(state: LearnerState, steps: Steps):
        key, reward_key = jax.random.split(state.key)
        # What observations look like is a fact, not something learned: it counts at once.
        centring = update_centring(state.centring, steps.arrived.astype(float).reshape(-1, *shape))
        centring = evened(centring) if len(shape) == 3 else centring
        paid, after, metrics = reward.step(state.reward, rollout_of(centring, steps), reward_key)
        return weight(state) * paid, LearnerState(key, after, centring, state.updates + 1), metrics

    return Learner(jax.jit(init), pay, jax.jit(learn), None if reward.remember is None else remember)


def filled(steps: Steps, is_real: Bool[Array, " worlds"]) -> Steps:
    """Where there was no step, that of another world stands in: shapes stay, and averages see real ones only."""
    chosen = jnp.where(is_real, jnp.arange(len(is_real)), jnp.argmax(is_real))
    return Steps(*(field[:, chosen] for field in steps))


def rollout_of(centring: Centring, steps: Steps) -> Rollout:
    """The steps as reward modules take them, each with rows of its own. Nobody knows squares and probabilities."""

    def rows(observations: Shaped[Array, "time worlds *shape"]) -> Observations:
        return Observations(centre(centring, observations.reshape(-1, *centring.mean.shape)), None)

    return Rollout(
        seen=rows(steps.seen),
        arrived=rows(steps.arrived),
        action=steps.action,
        log_probability=jnp.zeros(steps.action.shape),
        reward=steps.reward,
        terminated=steps.terminated,
        truncated=steps.truncated,
        is_first=steps.is_first,
        square=jnp.zeros(steps.action.shape, int),
    )


def evened(centring: Centring) -> Centring:
    """One deviation for all pixels: a pixel that hardly ever changes says no more than the others when it does."""
    return centring._replace(variance=jnp.full_like(centring.variance, jnp.mean(centring.variance)))


def check_finite(steps: Steps, is_real: Bool[np.ndarray, " worlds"], when: str) -> None:
    """Refuses observations and rewards that are not: running averages would not recover from them."""
    for name, values in (("observation", steps.arrived), ("reward", steps.reward)):
        if np.isfinite(values).all():
            continue
        is_finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=-1)
        wrong = np.argwhere(~is_finite & is_real[None])
        if len(wrong):
            time, world = wrong[0]
            raise ValueError(
                f"the {name} of environment {world} is not finite {when}, after action {steps.action[time, world]}: "
                "find out why, since no running average would recover from it."
            )

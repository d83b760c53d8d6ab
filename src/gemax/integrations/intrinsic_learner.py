"""Learns an intrinsic reward for agents and environments of other libraries.

Observations are standardised and passed to the intrinsic reward's functions, as in `gemax train`. There are two ways to
get rewards. `learn` returns the rewards of a whole rollout and learns from it, for agents that learn from rollouts.
`reward_step` returns the rewards of one step without learning, for agents that need them at once; `learn` comes later.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.core.moments import Moments, init_moments, standardise, update_observation_moments
from gemax.rewards.base import IntrinsicReward, refreshed
from gemax.types import HostArray, Metrics, Observations, Transition, Tree


class LearnerState(NamedTuple):
    """The state of an `IntrinsicLearner`."""

    key: PRNGKeyArray
    reward: Tree
    """State of the intrinsic reward."""
    observation_moments: Moments
    updates: Int[Array, ""]
    """Number of rollouts learned from."""


class IntrinsicLearner(NamedTuple):
    """Functions of an intrinsic reward. `init` and `learn` are compiled."""

    init: Callable[[PRNGKeyArray], LearnerState]
    reward_step: Callable[
        [LearnerState, Transition, Bool[Array, " envs"]], tuple[Float[Array, " envs"], LearnerState]
    ]
    """`reward_step(state, transitions, is_valid)`: returns the rewards of one step, and the state with the step in its
    memory. Not compiled: `StepRewards` compiles it.

    The reward is 0 where `is_valid` is false, which means that the environment was reset instead of stepped. All
    rewards are 0 before the first call of `learn`, since their scale is not known yet.
    """
    learn: Callable[[LearnerState, Transition], tuple[Float[Array, "time envs"], LearnerState, Metrics]]
    """`learn(state, transitions)`: returns the rewards of a rollout, the state after learning from it, and metrics."""
    has_memory: bool
    """Whether `reward_step` changes the state."""


def make_learner(
    reward: IntrinsicReward,
    shape: tuple[int, ...],
    num_envs: int,
    anneal_updates: int = 0,
    *,
    per_step: bool = True,
) -> IntrinsicLearner:
    """Returns the learner of an intrinsic reward, for observations of this shape.

    Rewards are annealed linearly to zero over `anneal_updates` rollouts. If that is 0, they are not annealed. Without
    `per_step`, `reward_step` must not be called: `learn` then leaves out what only `reward_step` needs.
    """

    def init(key: PRNGKeyArray) -> LearnerState:
        key, reward_key = jax.random.split(key)
        state = reward.init(reward_key, jnp.zeros((1, *shape)), num_envs)
        return LearnerState(key, state, init_moments(shape), jnp.zeros((), int))

    def annealing(state: LearnerState) -> Float[Array, ""]:
        if not anneal_updates:
            return jnp.ones(())
        return jnp.maximum(1.0 - state.updates / anneal_updates, 0.0)

    def reward_step(state: LearnerState, transitions: Transition, is_valid: Bool[Array, " envs"]):
        standardised = standardise_transitions(state.observation_moments, transitions)
        rewards = reward.reward(state.reward, standardised, state.key)[0]
        rewards = jnp.where(is_valid & (state.updates > 0), annealing(state) * rewards, 0.0)
        if reward.remember is not None:
            state = state._replace(reward=reward.remember(state.reward, standardised, is_valid))
        return rewards, state

    def learn(state: LearnerState, transitions: Transition):
        key, reward_key = jax.random.split(state.key)
        # The observation moments are updated first, so that a rollout is standardised with its own statistics.
        rows = transitions.next_observation.astype(float).reshape(-1, *shape)
        moments = update_observation_moments(state.observation_moments, rows)
        moments = with_shared_std(moments) if len(shape) == 3 else moments
        standardised = standardise_transitions(moments, transitions)
        rewards, learned, metrics = reward.step(state.reward, standardised, reward_key)
        if per_step:
            # `step` itself recomputes what the memory stores of the networks' outputs.
            learned = refreshed(reward, learned)
        return annealing(state) * rewards, LearnerState(key, learned, moments, state.updates + 1), metrics

    return IntrinsicLearner(jax.jit(init), reward_step, jax.jit(learn), reward.remember is not None)


def host_transitions(action: Int[np.ndarray, "time envs"], **fields: HostArray) -> Transition:
    """Returns transitions with the given fields. `log_prob`, `cell` and `state_index` are not known and set to zero."""
    cell: HostArray = np.zeros(action.shape, np.int32)
    host_action: HostArray = action
    return Transition(
        action=host_action, log_prob=cell.astype(np.float32), cell=cell, state_index=cell, **fields
    )


def standardise_transitions(moments: Moments, transitions: Transition) -> Transition:
    """Returns transitions with standardised `Observations`, which intrinsic rewards take."""

    def standardised(observations: Shaped[Array, "time envs *shape"]) -> Observations:
        return Observations(standardise(moments, observations.reshape(-1, *moments.mean.shape)), None)

    return transitions._replace(
        observation=standardised(transitions.observation),
        next_observation=standardised(transitions.next_observation),
    )


def with_shared_std(moments: Moments) -> Moments:
    """Uses one standard deviation for all pixels, so that rarely changing pixels are not amplified."""
    return moments._replace(variance=jnp.full_like(moments.variance, jnp.mean(moments.variance)))


def check_finite(transitions: Transition, is_valid: Bool[np.ndarray, " envs"], when: str) -> None:
    """Raises ValueError if an observation or a reward of a valid environment is not finite. The message has `when`."""
    for name, values in (("observation", transitions.next_observation), ("reward", transitions.reward)):
        if np.isfinite(values).all():
            continue
        is_finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=-1)
        wrong = np.argwhere(~is_finite & is_valid[None])
        if len(wrong):
            time, env = wrong[0]
            raise ValueError(
                f"the {name} of environment {env} is not finite {when}, after action {transitions.action[time, env]}. "
                "Running averages cannot recover from that: fix the environment."
            )

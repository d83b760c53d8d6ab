"""The training step, `alg:moretacomax`: intrinsic reward → sum of rewards → unroll window → actor-critic."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.agent.act import next_values, unroll_lstm
from gemax.agent.distributions import ActionDistribution
from gemax.agent.losses import actor_critic_loss
from gemax.core.entropy import shannon_entropy
from gemax.core.few import apply_to_few
from gemax.core.moments import Moments, update_observation_moments
from gemax.envs.base import FiniteEnv
from gemax.networks import AgentInputs, AgentNetwork, LSTMState, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.training.collector import Collector
from gemax.training.config import NUM_RECENT_RETURNS, NUM_RETURNS, Config
from gemax.training.nonfinite import nonfinite_metrics
from gemax.training.observations import ObservationTable
from gemax.training.state import (
    RunningStatistics,
    TrainState,
    Window,
    count_progress,
    count_returns,
    count_visits,
    initial_statistics,
    keep_return_size,
    largest_return_size,
    return_moments,
    return_size,
)
from gemax.training.window import empty_window, extend, latest
from gemax.types import EnvSpec, Metrics, Transition, Tree, ends

MIN_LEARNING_RATE_WEIGHT = 0.1
"""`learning_rate_half_life` reduces the learning rate to at least this share of it."""


class Trainer(NamedTuple):
    """The immutable parts of a training run, built by `assemble`."""

    config: Config
    spec: EnvSpec
    finite: FiniteEnv | None
    """Maps and tables of the environment, if it is finite."""
    collector: Collector
    table: ObservationTable
    """How stored observations are turned into network inputs."""
    distribution: ActionDistribution
    network: AgentNetwork
    optimiser: optax.GradientTransformation
    reward: IntrinsicReward
    observation_moments: Moments
    """Initial moments that observations are standardised with."""
    program_folder: Path | None = None
    """Folder that compiled programs are stored in. None if the run contains code of the user."""


def initial_state(trainer: Trainer, key: PRNGKeyArray) -> TrainState:
    """Returns the state before the first update."""
    config, observation_moments = trainer.config, trainer.observation_moments
    agent_key, reward_key, envs_key, run_key = jax.random.split(key, 4)
    actor = trainer.collector.initial_actor(trainer, envs_key)
    rows = trainer.table.network_inputs(observation_moments, actor.observation[None]).rows
    parameters = trainer.network.init(agent_key, rows)
    return TrainState(
        update=jnp.zeros((), int),
        key=run_key,
        actor=actor,
        window=empty_window(actor, config.agent.unroll_length - config.agent.unroll_period),
        parameters=parameters,
        opt_state=trainer.optimiser.init(parameters),
        reward=trainer.reward.init(reward_key, rows, config.env.num_envs),
        observation_moments=observation_moments,
        statistics=initial_statistics(trainer.spec.num_cells or 0),
    )


def learn(
    trainer: Trainer, state: TrainState, transitions: Transition, key: PRNGKeyArray
) -> tuple[TrainState, Metrics]:
    """Trains the intrinsic reward, the policy and the value on new transitions. Returns the new state and metrics."""
    config = trainer.config
    key, agent_key = jax.random.split(key)
    intrinsic, reward_state, reward_metrics = trainer.reward.step(
        state.reward, trainer.table.with_network_inputs(state.observation_moments, transitions), key
    )
    extrinsic = extrinsic_reward(config, state.statistics, transitions)
    weight = intrinsic_weight(config, state.update, state.statistics.rewarded_updates)
    mixed = extrinsic + weight * intrinsic
    window = extend(state.window, transitions, mixed)
    parameters, opt_state, agent_metrics = agent_step(trainer, state, window, agent_key)
    state = state._replace(
        update=state.update + 1,
        window=latest(window, config.agent.unroll_length - config.agent.unroll_period),
        parameters=parameters,
        opt_state=opt_state,
        reward=reward_state,
        observation_moments=_updated_observation_moments(trainer, state.observation_moments, transitions),
        statistics=_updated_statistics(trainer, state, transitions),
    )
    metrics = {
        "intrinsic_reward": jnp.mean(intrinsic),
        "intrinsic_weight": weight,
        **reward_metrics,
        **agent_metrics,
    }
    return state, metrics | _statistics_metrics(state.statistics) | nonfinite_metrics(state)


def extrinsic_reward(
    config: Config, statistics: RunningStatistics, transitions: Transition
) -> Float[Array, "time envs"] | float:
    """Returns the extrinsic reward that the agent learns from.

    With `return_scale`, rewards are scaled by the largest recent return, as `return_size` measures it. The intrinsic
    scale and the entropy cost are then comparable between environments. Returns below 1 count as 1.
    """
    if config.env.reward_free:
        return 0.0
    if not config.agent.return_scale:
        return transitions.reward
    largest = jnp.maximum(largest_return_size(statistics), return_size(transitions))
    return transitions.reward * (config.agent.return_scale / largest)


def intrinsic_weight(config: Config, update: Array, rewarded_updates: Array) -> Float[Array, ""]:
    """Returns the weight of the intrinsic reward, which falls with the schedules of the configuration."""
    intrinsic, weight = config.intrinsic, jnp.ones(())
    if intrinsic.anneal_updates:
        weight = jnp.maximum(1.0 - update / intrinsic.anneal_updates, 0.0)
    # Exploration is needed less once there is a reward to learn from. It would keep the policy from collecting the
    # reward as fast as it can.
    return weight * falling_weight(config, intrinsic.intrinsic_half_life, rewarded_updates)


def falling_weight(config: Config, half_life: int, counted_updates: Array) -> Float[Array, ""] | float:
    """Returns a weight that is 1/2 after `half_life` counted updates: those with a return that is high enough.

    It stays 1 if `half_life` is 0, and in reward-free runs.
    """
    if not half_life or config.env.reward_free:
        return 1.0
    return 1.0 / (1.0 + counted_updates / half_life)


def agent_step(
    trainer: Trainer, state: TrainState, window: Window, key: PRNGKeyArray
) -> tuple[Parameters, Tree, Metrics]:
    """Trains policy and value in every n-th update. Their metrics are NaN in all other updates."""
    step = partial(actor_critic_epochs, trainer, key=key)
    every = trainer.config.agent.policy_every
    if every == 1:
        return step(state, window)
    no_metrics = jax.tree.map(
        lambda leaf: jnp.full(leaf.shape, jnp.nan), jax.eval_shape(step, state, window)[2]
    )
    is_due = state.update % every == every - 1
    return jax.lax.cond(
        is_due, step, lambda state, window: (state.parameters, state.opt_state, no_metrics), state, window
    )


def actor_critic_epochs(
    trainer: Trainer, state: TrainState, window: Window, *, key: PRNGKeyArray
) -> tuple[Parameters, Tree, Metrics]:
    """Trains policy and value in several passes over the window. The metrics are means over all gradient steps.

    Each pass splits the environments at random into minibatches of equal size.
    """
    agent, num_envs = trainer.config.agent, trainer.config.env.num_envs
    if agent.update_epochs == agent.num_minibatches == 1:
        return actor_critic_step(trainer, state, window)

    def one_step(learned: tuple[Parameters, Tree], envs: Int[Array, " envs"]):
        part = state._replace(
            parameters=learned[0],
            opt_state=learned[1],
            actor=jax.tree.map(lambda leaf: leaf[envs], state.actor),
        )
        parameters, opt_state, metrics = actor_critic_step(
            trainer, part, jax.tree.map(lambda leaf: leaf[:, envs], window)
        )
        return (parameters, opt_state), metrics

    orders = jax.vmap(lambda key: jax.random.permutation(key, num_envs))(
        jax.random.split(key, agent.update_epochs)
    )
    envs = orders.reshape(agent.update_epochs * agent.num_minibatches, -1)
    learned, metrics = jax.lax.scan(one_step, (state.parameters, state.opt_state), envs)
    return *learned, {name: jnp.mean(values) for name, values in metrics.items()}


def actor_critic_step(
    trainer: Trainer, state: TrainState, window: Window
) -> tuple[Parameters, Tree, Metrics]:
    """Trains policy and value on the window. Returns their parameters, their optimiser state and metrics."""

    def loss(parameters: Parameters):
        outputs, value_t, value_tp1 = _unroll_window(trainer, parameters, state, window)
        return actor_critic_loss(
            outputs,
            value_t,
            value_tp1,
            window.transitions,
            window.reward,
            _bootstraps(trainer.spec, window.transitions),
            trainer.config.agent,
            trainer.distribution,
        )

    (total, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(state.parameters)
    updates, opt_state = trainer.optimiser.update(gradient, state.opt_state, state.parameters)
    half_life = trainer.config.agent.learning_rate_half_life
    weight = falling_weight(trainer.config, half_life, state.statistics.successful_updates)
    weight = jnp.maximum(weight, MIN_LEARNING_RATE_WEIGHT)
    parameters = optax.apply_updates(state.parameters, jax.tree.map(lambda leaf: weight * leaf, updates))
    return parameters, opt_state, metrics | {"agent_loss": total}


def _bootstraps(spec: EnvSpec, transitions: Transition) -> Bool[Array, "time envs"]:
    """Returns whether each return continues with the value of the next observation.

    In JAX environments the horizon is part of the task and the agent observes the time, so returns end there. In host
    environments a time limit only interrupts the task.
    """
    return ~transitions.terminated if spec.truncation_bootstraps else ~ends(transitions)


def _unroll_window(trainer: Trainer, parameters: Parameters, state: TrainState, window: Window):
    """Returns the policy outputs and values of the window's steps, and the values of their next observations.

    The next observation of the last step is the actor's current observation.
    """
    actor, transitions = state.actor, window.transitions
    observation, inputs, is_first = jax.tree.map(
        lambda steps, after: jnp.concatenate([steps, after[None]]),
        (transitions.observation, transitions.inputs, transitions.is_first),
        (actor.observation, actor.inputs, actor.is_first),
    )
    lstm_state = jax.tree.map(lambda leaf: leaf[0], transitions.lstm_state)
    observations = trainer.table.network_inputs(state.observation_moments, observation)
    lstm_states = unroll_lstm(trainer.network, parameters, observations, inputs, is_first, lstm_state)
    outputs, values = trainer.network.heads(parameters, lstm_states.hidden)
    value_tp1 = _next_values(trainer, parameters, state, transitions, lstm_states, values[1:])
    return outputs[:-1], values[:-1], value_tp1


def _next_values(
    trainer: Trainer,
    parameters: Parameters,
    state: TrainState,
    transitions: Transition,
    lstm_states: LSTMState,
    following: Float[Array, "time envs"],
) -> Float[Array, "time envs"]:
    """Returns the value of each next observation.

    It is the value of the following step, `following`, except at the end of an episode: there the following step is a
    new episode, so the value of the last observation is computed.
    """
    spec = trainer.spec
    if not spec.truncation_bootstraps:
        return following
    # Nothing learns from these values: they are part of a target.
    parameters = jax.lax.stop_gradient(parameters)
    inputs = AgentInputs(
        spec.actions.as_input(transitions.action),
        transitions.reward,
        jnp.minimum(transitions.inputs.time + 1, spec.horizon),
    )
    steps = transitions.next_observation, inputs, LSTMState(*(leaf[:-1] for leaf in lstm_states))

    def values_of(steps) -> Float[Array, "time envs"]:
        next_observation, inputs, lstm_state = steps
        observations = trainer.table.network_inputs(state.observation_moments, next_observation)
        return next_values(trainer.network, parameters, observations, inputs, lstm_state)

    is_end = ends(transitions)
    return jnp.where(is_end, apply_to_few(values_of, is_end, steps), following)


def _updated_observation_moments(trainer: Trainer, moments: Moments, transitions: Transition) -> Moments:
    """Updates the moments with new observations. In finite environments they are exact from the start."""
    if trainer.finite is not None:
        return moments
    return update_observation_moments(moments, transitions.next_observation.reshape(-1, *moments.mean.shape))


def _updated_statistics(trainer: Trainer, state: TrainState, transitions: Transition) -> RunningStatistics:
    ended = ends(transitions) & transitions.is_valid & ~transitions.is_partial
    statistics = count_returns(state.statistics, transitions.episode_return, ended, transitions.terminated)
    statistics = count_progress(keep_return_size(statistics, transitions, state.update))
    if trainer.spec.num_cells is None:
        return statistics
    return count_visits(statistics, transitions.cell, trainer.config.run.visitation_decay)


def _statistics_metrics(statistics: RunningStatistics) -> Metrics:
    recent, spread = return_moments(statistics, NUM_RECENT_RETURNS)
    metrics = {
        "return": return_moments(statistics, NUM_RETURNS)[0],
        "recent_return": recent,
        "recent_return_std": spread,
        "episodes": statistics.num_returns.astype(float),
    }
    visits, total = statistics.visits, jnp.sum(statistics.visits)
    if not len(visits):
        return metrics
    probability = visits / jnp.maximum(total, 1e-12)
    return metrics | {
        "visitation_entropy": shannon_entropy(probability),
        "coverage": jnp.mean(probability > 0.01 / len(visits)),
    }

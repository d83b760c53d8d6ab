"""Compiled rollouts: the policy and JAX environments are stepped inside one program."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, Shaped

from gemax.agent.act import act
from gemax.core.moments import standardise
from gemax.envs.base import JaxEnv, State, step_and_reset
from gemax.networks import AgentInputs
from gemax.training.learn import Trainer
from gemax.training.observations import ObservationTable
from gemax.training.state import ActorState, TrainState
from gemax.types import Transition, tree_where


def reset_actor(env: JaxEnv, trainer: Trainer, num_envs: int, key: PRNGKeyArray) -> ActorState:
    """Resets `num_envs` environments and returns the actor's state."""
    states, timesteps = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    observation = jax.vmap(partial(stored_observation, env, trainer.table))(states, timesteps.observation)
    return initial_actor(trainer, states, observation)


def reset_actor_at_random_times(
    env: JaxEnv, trainer: Trainer, num_envs: int, key: PRNGKeyArray
) -> ActorState:
    """Like `reset_actor`, with the clock of each episode at a random time.

    Otherwise all environments would be in the same phase of an episode, and so would every batch.
    """
    if env.reset_at is None:
        return reset_actor(env, trainer, num_envs, key)
    time_key, reset_key = jax.random.split(key)
    time = jax.random.randint(time_key, (num_envs,), 0, env.spec.horizon)
    states, timesteps = jax.vmap(env.reset_at)(jax.random.split(reset_key, num_envs), time)
    observation = jax.vmap(partial(stored_observation, env, trainer.table))(states, timesteps.observation)
    actor = initial_actor(trainer, states, observation)
    return actor._replace(inputs=actor.inputs._replace(time=time), is_partial=time > 0)


def initial_actor(trainer: Trainer, states: State, observation: Shaped[Array, "envs *shape"]) -> ActorState:
    """Returns the actor's state at the start of an episode in every environment."""
    num_envs = observation.shape[0]
    zeros = jnp.zeros(num_envs)
    return ActorState(
        env=states,
        observation=observation,
        inputs=AgentInputs(trainer.spec.actions.null_input(num_envs), zeros, jnp.zeros(num_envs, int)),
        is_first=jnp.ones(num_envs, bool),
        lstm_state=trainer.network.initial_lstm_state(num_envs),
        episode_return=zeros,
        discounted_return=zeros,
        is_partial=jnp.zeros(num_envs, bool),
    )


def stored_observation(
    env: JaxEnv, table: ObservationTable, state: State, observation: Shaped[Array, "*shape"]
) -> Array:
    """Returns the compact form of an observation that is stored: its row in the table, or one pixel per cell."""
    if env.finite is None:
        return observation
    if table.rows is not None:
        return env.finite.observation_index(state)
    return observation[:: env.finite.pixels_per_cell, :: env.finite.pixels_per_cell]


def collect(
    env: JaxEnv,
    trainer: Trainer,
    state: TrainState,
    actor: ActorState,
    num_steps: int,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[ActorState, Transition]:
    """Acts for `num_steps` in every environment. Returns the new actor state and the transitions, [time, envs]."""
    network, parameters, table = trainer.network, state.parameters, trainer.table
    tables = network.tables(parameters)
    observation_terms = None if table.rows is None else network.observation_terms(parameters, table.rows)
    num_envs = actor.is_first.shape[0]
    initial_lstm_state = network.initial_lstm_state(num_envs)
    stored = jax.vmap(partial(stored_observation, env, table))

    def one_step(actor: ActorState, key: PRNGKeyArray) -> tuple[ActorState, Transition]:
        action_key, env_key = jax.random.split(key)
        if observation_terms is None:
            terms = network.observation_terms(
                parameters, standardise(state.observation_moments, actor.observation)
            )
        else:
            terms = observation_terms[actor.observation]
        acted = act(
            network, parameters, tables, terms, actor.inputs, actor.lstm_state, action_key, greedy=greedy
        )
        env_keys = jax.random.split(env_key, num_envs)
        states, outcome = jax.vmap(partial(step_and_reset, env))(env_keys, actor.env, acted.action)
        timestep, ended = outcome.timestep, outcome.is_first
        # Rewards from Python numbers are weakly typed, which would compile the update twice.
        reward = timestep.reward.astype(jnp.float32)
        episode_return = actor.episode_return + reward
        discounted_return = trainer.config.agent.discount * actor.discounted_return + reward
        transition = Transition(
            observation=actor.observation,
            next_observation=stored(outcome.next_state, timestep.observation),
            action=acted.action,
            log_prob=acted.log_prob,
            reward=reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            is_first=actor.is_first,
            cell=jax.vmap(env.cell_index)(outcome.next_state),
            state_index=jax.vmap(env.finite.state_index if env.finite else env.cell_index)(
                outcome.next_state
            ),
            is_valid=jnp.ones(num_envs, bool),
            inputs=actor.inputs,
            lstm_state=actor.lstm_state,
            episode_return=episode_return,
            discounted_return=discounted_return,
            is_partial=actor.is_partial,
        )
        next_actor = ActorState(
            env=states,
            observation=stored(states, outcome.current.observation),
            inputs=AgentInputs(
                jnp.where(ended, env.spec.num_actions, acted.action),
                jnp.where(ended, 0.0, reward),
                jnp.where(ended, 0, actor.inputs.time + 1),
            ),
            is_first=ended,
            lstm_state=tree_where(ended, initial_lstm_state, acted.lstm_state),
            episode_return=jnp.where(ended, 0.0, episode_return),
            discounted_return=jnp.where(ended, 0.0, discounted_return),
            is_partial=actor.is_partial & ~ended,
        )
        return next_actor, transition

    return jax.lax.scan(one_step, actor, jax.random.split(key, num_steps))

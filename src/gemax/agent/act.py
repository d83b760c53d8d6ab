"""Runs the agent's network: one step at a time to act, and over whole unrolls to learn."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from gemax.agent.distributions import CATEGORICAL, ActionDistribution
from gemax.networks import AgentInputs, AgentNetwork, InputTables, LSTMState, Parameters, lstm_inputs
from gemax.types import Observations, gather


class ActorOutput(NamedTuple):
    """The action in each environment, its log-probability and the LSTM state after the step."""

    action: Shaped[Array, "envs *parts"]
    log_prob: Float[Array, " envs"]
    lstm_state: LSTMState


def act(
    network: AgentNetwork,
    parameters: Parameters,
    tables: InputTables,
    observation_terms: Float[Array, "envs gates"],
    inputs: AgentInputs,
    lstm_state: LSTMState,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
    actions: ActionDistribution = CATEGORICAL,
) -> ActorOutput:
    """Samples an action in every environment, or takes the mode of the policy if `greedy`."""
    lstm_state = network.step(parameters, lstm_inputs(tables, observation_terms, inputs), lstm_state)
    outputs, _ = network.heads(parameters, lstm_state.hidden)
    action = actions.mode(outputs) if greedy else actions.sample(outputs, key)
    return ActorOutput(action, actions.log_prob_and_entropy(outputs, action)[0], lstm_state)


def unroll_lstm(
    network: AgentNetwork,
    parameters: Parameters,
    observations: Observations,
    inputs: AgentInputs,
    is_first: Bool[Array, "time envs"],
    lstm_state: LSTMState,
) -> LSTMState:
    """Returns the LSTM state after each step, [time, envs, H]. It is reset before the first step of an episode."""
    terms = _lstm_inputs_over_time(network, parameters, observations, inputs)
    return network.unroll(parameters, terms, is_first, lstm_state)


def next_values(
    network: AgentNetwork,
    parameters: Parameters,
    next_observations: Observations,
    inputs: AgentInputs,
    lstm_state: LSTMState,
) -> Float[Array, "time envs"]:
    """Returns the value of each next observation, given the LSTM state [time, envs, H] after each step.

    No LSTM state is reset, so a truncated episode is valued as if it continued.
    """
    num_steps, num_envs = inputs.time.shape
    terms = _lstm_inputs_over_time(network, parameters, next_observations, inputs)
    flat = jax.tree.map(lambda leaf: leaf.reshape(num_steps * num_envs, -1), (terms, lstm_state))
    _, values = network.heads(parameters, network.step(parameters, *flat).hidden)
    return values.reshape(num_steps, num_envs)


def _lstm_inputs_over_time(
    network: AgentNetwork, parameters: Parameters, observations: Observations, inputs: AgentInputs
) -> Float[Array, "time envs gates"]:
    """Returns the LSTM's input projection at each step of an unroll."""
    observation_terms = network.observation_terms(parameters, observations.rows)
    observation_terms = gather(observations, observation_terms, inputs.time.shape[1])
    return lstm_inputs(network.tables(parameters), observation_terms, inputs)

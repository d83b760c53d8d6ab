"""Acting: one step at a time while steps are collected, and all of them again when they are learned from."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from gemax.agent.distributions import CATEGORICAL, ActionDistribution
from gemax.networks import AgentNetwork, Inputs, Memory, Parameters, Tables, lstm_inputs
from gemax.types import ActionSpec, ContinuousActions, Observations, spread, tree_where


class Action(NamedTuple):
    """What the agent did in each world, and what it remembers of it."""

    action: Shaped[Array, "worlds *parts"]
    log_probability: Float[Array, " worlds"]
    memory: Memory


def act(
    network: AgentNetwork,
    parameters: Parameters,
    tables: Tables,
    row_terms: Float[Array, "worlds gates"],
    inputs: Inputs,
    memory: Memory,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
    actions: ActionDistribution = CATEGORICAL,
) -> Action:
    """Draws an action in every world, or takes the likeliest."""
    memory = network.step(parameters, lstm_inputs(tables, row_terms, inputs), memory)
    outputs, _ = network.heads(parameters, memory.hidden)
    action = actions.likeliest(outputs) if greedy else actions.draw(outputs, key)
    return Action(action, actions.judge(outputs, action)[0], memory)


def no_action(spec: ActionSpec, num_worlds: int) -> Shaped[Array, "worlds *parts"]:
    """What stands for the action before the first one of an episode; see `Inputs`."""
    if isinstance(spec, ContinuousActions):
        return jnp.zeros((num_worlds, spec.size))
    shape = (num_worlds,) if spec.is_single else (num_worlds, len(spec.sizes))
    return jnp.full(shape, spec.num_inputs, jnp.int32)


def action_before(spec: ActionSpec, action: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """What an action is to the network in the step after it: several choices have their rows one after the other."""
    if isinstance(spec, ContinuousActions) or spec.is_single:
        return action
    starts = jnp.cumsum(jnp.asarray((0, *spec.sizes[:-1])))
    return action + starts.reshape((1,) * (action.ndim - 1) + (-1,))


def unroll(
    network: AgentNetwork,
    parameters: Parameters,
    observations: Observations,
    inputs: Inputs,
    is_first: Bool[Array, "time worlds"],
    memory: Memory,
) -> tuple[Float[Array, "time worlds A"], Float[Array, "time worlds"]]:
    """The policy's outputs and values over time, from the memory before the first step."""
    hidden = unroll_memory(network, parameters, observations, inputs, is_first, memory).hidden
    return network.heads(parameters, hidden)


def unroll_memory(
    network: AgentNetwork,
    parameters: Parameters,
    observations: Observations,
    inputs: Inputs,
    is_first: Bool[Array, "time worlds"],
    memory: Memory,
) -> Memory:
    """What is remembered after each step, [time, worlds, H]. Memory is emptied where episodes start."""
    row_terms = network.row_terms(parameters, observations.rows)
    terms = lstm_inputs(
        network.tables(parameters), spread(observations, row_terms, is_first.shape[1]), inputs
    )
    empty = network.initial_memory(is_first.shape[1])

    def one_step(memory: Memory, step):
        term, starts = step
        memory = network.step(parameters, term, tree_where(starts, empty, memory))
        return memory, memory

    return jax.lax.scan(one_step, memory, (terms, is_first))[1]


def values_after(
    network: AgentNetwork,
    parameters: Parameters,
    observations: Observations,
    inputs: Inputs,
    memory: Memory,
) -> Float[Array, "time worlds"]:
    """The values of what each step led to, from the memory after it: as if every episode went on."""
    num_steps, num_worlds = inputs.time.shape
    row_terms = spread(observations, network.row_terms(parameters, observations.rows), num_worlds)
    terms = lstm_inputs(network.tables(parameters), row_terms, inputs)
    flat = jax.tree.map(lambda leaf: leaf.reshape(num_steps * num_worlds, -1), (terms, memory))
    _, values = network.heads(parameters, network.step(parameters, *flat).hidden)
    return values.reshape(num_steps, num_worlds)

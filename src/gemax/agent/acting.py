"""Acting: one step at a time while steps are collected, and all of them again when they are learned from."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gemax.networks import AgentNetwork, Inputs, Memory, Parameters, Tables, lstm_inputs
from gemax.types import Observations, spread, tree_where


class Action(NamedTuple):
    """What the agent did in each world, and what it remembers of it."""

    action: Int[Array, " worlds"]
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
) -> Action:
    """Draws an action in every world, or takes the likeliest."""
    memory = network.step(parameters, lstm_inputs(tables, row_terms, inputs), memory)
    logits, _ = network.heads(parameters, memory.hidden)
    action = jnp.argmax(logits, axis=-1) if greedy else jax.random.categorical(key, logits)
    log_probability = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=1)[:, 0]
    return Action(action, log_probability, memory)


def unroll(
    network: AgentNetwork,
    parameters: Parameters,
    observations: Observations,
    inputs: Inputs,
    is_first: Bool[Array, "time worlds"],
    memory: Memory,
) -> tuple[Float[Array, "time worlds A"], Float[Array, "time worlds"]]:
    """Logits and values over time, from the memory before the first step. Memory is emptied where episodes start."""
    row_terms = network.row_terms(parameters, observations.rows)
    terms = lstm_inputs(
        network.tables(parameters), spread(observations, row_terms, is_first.shape[1]), inputs
    )
    empty = network.initial_memory(is_first.shape[1])

    def one_step(memory: Memory, step):
        term, starts = step
        memory = network.step(parameters, term, tree_where(starts, empty, memory))
        return memory, memory.hidden

    _, hidden = jax.lax.scan(one_step, memory, (terms, is_first))
    return network.heads(parameters, hidden)

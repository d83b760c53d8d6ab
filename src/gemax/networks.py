"""Neural networks as pure functions. The only file that knows the neural-network library.

The agent's LSTM reads the torso's features, the previous action, the previous reward and the time. What enters it
is a sum of one term for each of these, and three of the four take few values: images repeat, actions and times are
finite. So the terms are tables, and a step is a sum of look-ups and one product with the hidden state.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gemax.core.encoding import soft_one_hot

Parameters: TypeAlias = Any
"""A tree of arrays, in plain dictionaries."""


class Network(NamedTuple):
    """A network as two pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "batch *features"]], Parameters]
    """Parameters for inputs of this shape."""
    apply: Callable[[Parameters, Float[Array, "batch *features"]], Float[Array, "batch outputs"]]


class Memory(NamedTuple):
    """What an agent remembers from step to step, for each of its worlds."""

    hidden: Float[Array, "worlds H"]
    cell: Float[Array, "worlds H"]


class Inputs(NamedTuple):
    """What the agent sees beside the observation. Leading axes are any batch."""

    previous_action: Int[Array, "*batch"]
    """The number of actions stands for none, at the start of an episode."""
    previous_reward: Float[Array, "*batch"]
    time: Int[Array, "*batch"]
    """Actions taken in this episode so far."""


class Tables(NamedTuple):
    """The terms of the LSTM's input for every action and time, and for a reward of one."""

    action: Float[Array, "actions_and_none gates"]
    reward: Float[Array, " gates"]
    time: Float[Array, "times gates"]


class AgentNetwork(NamedTuple):
    """Policy and value over an LSTM, as pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "rows *shape"]], Parameters]
    row_terms: Callable[[Parameters, Float[Array, "rows *shape"]], Float[Array, "rows gates"]]
    """The term of the LSTM's input for each observation, its bias included."""
    tables: Callable[[Parameters], Tables]
    """The other terms."""
    step: Callable[[Parameters, Float[Array, "worlds gates"], Memory], Memory]
    """One step of the LSTM, from its summed input."""
    heads: Callable[
        [Parameters, Float[Array, "*batch H"]], tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]
    ]
    """Logits of the policy, and the value."""
    initial_memory: Callable[[int], Memory]


def mlp(sizes: Sequence[int]) -> Network:
    """Linear layers of these sizes with relu in between; the last one is linear."""
    layers: list[Any] = []
    for size in sizes[:-1]:
        layers += [nn.Dense(size), nn.relu]
    return _network(nn.Sequential([*layers, nn.Dense(sizes[-1])]))


def torso_and_heads(torso_size: int, head_size: int, output_sizes: Sequence[int]) -> Network:
    """A torso with several heads side by side: f and g of `tab:commonhyper`. Outputs are concatenated."""
    return _network(_TorsoAndHeads(torso_size, head_size, tuple(output_sizes)))


def agent_network(
    num_actions: int, horizon: int, *, torso_size: int, lstm_size: int, head_size: int, time_buckets: int
) -> AgentNetwork:
    """π and V of `tab:commonhyper`: torso, LSTM, and a head each."""
    torso = _network(_Torso(torso_size))
    policy_head, value_head = _network(_Head(head_size, num_actions)), _network(_Head(head_size, 1))
    lstm = nn.initializers.lecun_normal()
    recurrent = nn.initializers.orthogonal()
    num_inputs = torso_size + num_actions + 1 + time_buckets

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> Parameters:
        torso_key, input_key, hidden_key, policy_key, value_key = jax.random.split(key, 5)
        hidden = jnp.zeros((1, lstm_size))
        # One kernel for all inputs, as for their concatenation; the forget gate starts open.
        bias = jnp.zeros(4 * lstm_size).at[lstm_size : 2 * lstm_size].set(1.0)
        return {
            "torso": torso.init(torso_key, rows[:1]),
            "lstm": {
                "input": lstm(input_key, (num_inputs, 4 * lstm_size)),
                "hidden": recurrent(hidden_key, (lstm_size, 4 * lstm_size)),
                "bias": bias,
            },
            "policy": policy_head.init(policy_key, hidden),
            "value": value_head.init(value_key, hidden),
        }

    def row_terms(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows gates"]:
        features = torso.apply(parameters["torso"], rows)
        return features @ parameters["lstm"]["input"][:torso_size] + parameters["lstm"]["bias"][None]

    def tables(parameters: Parameters) -> Tables:
        kernel = parameters["lstm"]["input"][torso_size:]
        times = soft_one_hot(jnp.arange(horizon + 1.0), time_buckets, 0.0, float(horizon))
        return Tables(
            action=jnp.concatenate([kernel[:num_actions], jnp.zeros((1, 4 * lstm_size))]),
            reward=kernel[num_actions],
            time=times @ kernel[num_actions + 1 :],
        )

    def step(parameters: Parameters, inputs: Float[Array, "worlds gates"], memory: Memory) -> Memory:
        gates = inputs + memory.hidden @ parameters["lstm"]["hidden"]
        enter, forget, new, leave = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * memory.cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        return Memory(jax.nn.sigmoid(leave) * jnp.tanh(cell), cell)

    def heads(parameters: Parameters, hidden: Float[Array, "*batch H"]):
        value = value_head.apply(parameters["value"], hidden)
        return policy_head.apply(parameters["policy"], hidden), value[..., 0]

    def initial_memory(num_worlds: int) -> Memory:
        return Memory(jnp.zeros((num_worlds, lstm_size)), jnp.zeros((num_worlds, lstm_size)))

    return AgentNetwork(init, row_terms, tables, step, heads, initial_memory)


def lstm_inputs(
    tables: Tables, row_terms: Float[Array, "*batch gates"], inputs: Inputs
) -> Float[Array, "*batch gates"]:
    """What enters the LSTM: the sum of the four terms."""
    reward = inputs.previous_reward[..., None] * tables.reward.reshape((1,) * inputs.time.ndim + (-1,))
    return row_terms + tables.action[inputs.previous_action] + tables.time[inputs.time] + reward


class _Torso(nn.Module):
    """`tab:continuoustorso`, for vectors and for images of a pixel a square."""

    size: int

    @nn.compact
    def __call__(self, inputs: Float[Array, "rows *shape"]) -> Float[Array, "rows features"]:
        return nn.relu(nn.Dense(self.size)(inputs.reshape(inputs.shape[0], -1)))


class _Head(nn.Module):
    """Linear, relu, linear."""

    size: int
    outputs: int

    @nn.compact
    def __call__(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        return nn.Dense(self.outputs)(nn.relu(nn.Dense(self.size)(inputs)))


class _TorsoAndHeads(nn.Module):
    torso_size: int
    head_size: int
    outputs: tuple[int, ...]

    @nn.compact
    def __call__(self, inputs: Float[Array, "rows *shape"]) -> Float[Array, "rows outputs"]:
        features = _Torso(self.torso_size)(inputs)
        return jnp.concatenate([_Head(self.head_size, size)(features) for size in self.outputs], axis=-1)


def _network(module: nn.Module) -> Network:
    def apply(parameters: Parameters, inputs: Array) -> Array:
        return module.apply(parameters, inputs)  # pyright: ignore[reportReturnType]

    return Network(module.init, apply)

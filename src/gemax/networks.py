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
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from gemax.core.encoding import soft_one_hot
from gemax.patches import Images, Layer, convolve, images_of, linear, magnify, reduce_kernel, size_of

Parameters: TypeAlias = Any
"""A tree of arrays, in plain dictionaries."""


CONVOLUTIONS = ((32, 8, 4), (32, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of the torso's convolutions, `tab:commonhyper`. Without padding."""

_kernel = nn.initializers.lecun_normal()


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

    previous_action: Int[Array, "*batch"] | Shaped[Array, "*batch parts"]
    """A row of `Tables.action`, of which the last stands for none, at the start of an episode. Or several rows; or
    continuous numbers, none of them at the start: zero."""
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
    """Outputs of the policy, such as logits, and the value."""
    initial_memory: Callable[[int], Memory]
    ignore_reward: Callable[[Parameters], Parameters]
    """The same, but the reward before says nothing: for parameters that never learned what it means."""


def mlp(sizes: Sequence[int]) -> Network:
    """Linear layers of these sizes with relu in between; the last one is linear."""
    layers: list[Any] = []
    for size in sizes[:-1]:
        layers += [nn.Dense(size), nn.relu]
    return _network(nn.Sequential([*layers, nn.Dense(sizes[-1])]))


def torso(size: int, pixels_per_square: int | None = None) -> Network:
    """The torso alone: what RND predicts, and predicts with. For `pixels_per_square` see `torso_and_heads`."""
    return _network(_Torso(size, pixels_per_square))


def torso_and_heads(
    torso_size: int, head_size: int, output_sizes: Sequence[int], pixels_per_square: int | None = None
) -> Network:
    """A torso with several heads side by side: f and g of `tab:commonhyper`. Outputs are concatenated.

    With `pixels_per_square` the torso has convolutions, as if every pixel of the images it is given were a square of
    so many pixels each way.
    """
    return _network(_TorsoAndHeads(torso_size, pixels_per_square, head_size, tuple(output_sizes)))


def agent_network(
    num_actions: int,
    horizon: int,
    *,
    torso_size: int,
    lstm_size: int,
    head_size: int,
    time_buckets: int,
    pixels_per_square: int | None = None,
    num_outputs: int | None = None,
) -> AgentNetwork:
    """π and V of `tab:commonhyper`: torso, LSTM, and a head each. For `pixels_per_square` see `torso_and_heads`.

    The policy has as many outputs as there are actions, unless `num_outputs` says otherwise.
    """
    body = torso(torso_size, pixels_per_square)
    policy_head = _network(_Head(head_size, num_actions if num_outputs is None else num_outputs))
    value_head = _network(_Head(head_size, 1))
    recurrent = nn.initializers.orthogonal()
    num_inputs = torso_size + num_actions + 1 + time_buckets

    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> Parameters:
        torso_key, input_key, hidden_key, policy_key, value_key = jax.random.split(key, 5)
        hidden = jnp.zeros((1, lstm_size))
        # One kernel for all inputs, as for their concatenation; the forget gate starts open.
        bias = jnp.zeros(4 * lstm_size).at[lstm_size : 2 * lstm_size].set(1.0)
        return {
            "torso": body.init(torso_key, rows[:1]),
            "lstm": {
                "input": _kernel(input_key, (num_inputs, 4 * lstm_size)),
                "hidden": recurrent(hidden_key, (lstm_size, 4 * lstm_size)),
                "bias": bias,
            },
            "policy": policy_head.init(policy_key, hidden),
            "value": value_head.init(value_key, hidden),
        }

    def row_terms(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows gates"]:
        features = body.apply(parameters["torso"], rows)
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

    def ignore_reward(parameters: Parameters) -> Parameters:
        # The row that `tables` gives as that of the reward; other axes may lead.
        kernel = parameters["lstm"]["input"].at[..., torso_size + num_actions, :].set(0.0)
        return parameters | {"lstm": parameters["lstm"] | {"input": kernel}}

    return AgentNetwork(init, row_terms, tables, step, heads, initial_memory, ignore_reward)


def lstm_inputs(
    tables: Tables, row_terms: Float[Array, "*batch gates"], inputs: Inputs
) -> Float[Array, "*batch gates"]:
    """What enters the LSTM: the sum of the four terms."""
    reward = inputs.previous_reward[..., None] * tables.reward.reshape((1,) * inputs.time.ndim + (-1,))
    return row_terms + _action_term(tables, inputs) + tables.time[inputs.time] + reward


def _action_term(tables: Tables, inputs: Inputs) -> Float[Array, "*batch gates"]:
    previous = inputs.previous_action
    if jnp.issubdtype(previous.dtype, jnp.floating):
        return previous @ tables.action[:-1]
    rows = tables.action[previous]
    return rows if previous.ndim == inputs.time.ndim else rows.sum(axis=-2)


class _Torso(nn.Module):
    """What an observation becomes: of `tab:commonhyper` for images by pixels, of `tab:continuoustorso` otherwise."""

    size: int
    pixels_per_square: int | None

    @nn.compact
    def __call__(self, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows features"]:
        if rows.ndim != 4:
            return nn.relu(nn.Dense(self.size)(rows.reshape(rows.shape[0], -1)))
        images = images_of(rows)
        if self.pixels_per_square is not None:
            images = self._convolutions(images, self.pixels_per_square)
        height, width, channels = size_of(images)
        kernel = self.param("kernel", _kernel, (height * width * channels, self.size))
        return nn.relu(linear(images, kernel, self.param("bias", nn.initializers.zeros, (self.size,))))

    def _convolutions(self, images: Images, pixels_per_square: int) -> Images:
        for number, (channels, size, stride) in enumerate(CONVOLUTIONS):
            kernel = self.param(f"kernel_{number}", _kernel, (size, size, size_of(images)[2], channels))
            layer = Layer(kernel, self.param(f"bias_{number}", nn.initializers.zeros, (channels,)), stride)
            # Squares are constant over their pixels: steps of the first layer within a square see the same again.
            if number == 0 and pixels_per_square % stride == 0:
                images, layer = magnify(images, pixels_per_square // stride), reduce_kernel(layer, stride)
            elif number == 0:
                images = magnify(images, pixels_per_square)
            images = convolve(images, layer)
        return images


class _Head(nn.Module):
    """Linear, relu, linear."""

    size: int
    outputs: int

    @nn.compact
    def __call__(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        return nn.Dense(self.outputs)(nn.relu(nn.Dense(self.size)(inputs)))


class _TorsoAndHeads(nn.Module):
    torso_size: int
    pixels_per_square: int | None
    head_size: int
    outputs: tuple[int, ...]

    @nn.compact
    def __call__(self, inputs: Float[Array, "rows *shape"]) -> Float[Array, "rows outputs"]:
        features = _Torso(self.torso_size, self.pixels_per_square)(inputs)
        return jnp.concatenate([_Head(self.head_size, size)(features) for size in self.outputs], axis=-1)


def _network(module: nn.Module) -> Network:
    def apply(parameters: Parameters, inputs: Array) -> Array:
        return module.apply(parameters, inputs)  # pyright: ignore[reportReturnType]

    return Network(module.init, apply)

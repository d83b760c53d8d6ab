"""The agent's network: a torso, an LSTM, and heads for the policy and the value.

The LSTM's inputs are the torso's features, the previous action, the previous reward and the time. Its input
projection is the sum of one term per input. Observations repeat, and actions and times are finite, so three of the
four terms are looked up in tables. A step is then a sum of table look-ups and one product with the hidden state.
"""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.core.encoding import soft_one_hot
from gemax.networks.base import Parameters
from gemax.networks.lstm import LSTMState, lstm_step, lstm_unroll
from gemax.networks.torso import head, torso


class AgentInputs(NamedTuple):
    """The agent's inputs other than the observation, with any batch axes in front."""

    previous_action: Int[Array, "*batch"] | Shaped[Array, "*batch parts"]
    """Row indices of `InputTables.action`: one, or one per part of the action. The last row means "no previous
    action". For continuous actions, the action itself; zeros mean "no previous action"."""
    previous_reward: Float[Array, "*batch"]
    time: Int[Array, "*batch"]
    """Number of actions taken in this episode so far."""


class InputTables(NamedTuple):
    """Terms of the LSTM's input projection: one row per action and per time, and one vector for a reward of 1."""

    action: Float[Array, "actions_and_none gates"]
    reward: Float[Array, " gates"]
    time: Float[Array, "times gates"]


class AgentNetwork(NamedTuple):
    """Policy and value networks over an LSTM, as pure functions."""

    init: Callable[[PRNGKeyArray, Float[Array, "rows *shape"]], Parameters]
    """Returns initial parameters for observations of this shape."""
    observation_terms: Callable[[Parameters, Float[Array, "rows *shape"]], Float[Array, "rows gates"]]
    """Returns the observation's term of the LSTM's input projection, bias included."""
    tables: Callable[[Parameters], InputTables]
    """Returns the other terms of the LSTM's input projection."""
    step: Callable[[Parameters, Float[Array, "envs gates"], LSTMState], LSTMState]
    """Advances the LSTM by one step, given the sum of the input terms."""
    unroll: Callable[
        [Parameters, Float[Array, "time envs gates"], Bool[Array, "time envs"], LSTMState], LSTMState
    ]
    """`unroll(parameters, inputs, is_first, lstm_state)`: returns the LSTM state after each step, [time, envs, H].

    The state is reset before the first step of an episode.
    """
    heads: Callable[
        [Parameters, Float[Array, "*batch H"]], tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]
    ]
    """Returns the policy's outputs, such as logits, and the value."""
    initial_lstm_state: Callable[[int], LSTMState]
    """Returns zeros for this number of environments."""
    ignore_reward: Callable[[Parameters], Parameters]
    """Sets the weights of the previous reward to zero. For parameters trained without an extrinsic reward."""


def agent_network(
    num_actions: int,
    horizon: int,
    *,
    torso_size: int,
    lstm_size: int,
    head_size: int,
    time_buckets: int,
    pixels_per_cell: int | None = None,
    num_outputs: int | None = None,
) -> AgentNetwork:
    """Returns π and V of `tab:commonhyper`: a torso, an LSTM and two heads.

    Args:
        num_actions: Number of inputs that encode the previous action.
        horizon: Largest time step.
        torso_size: Number of features of the torso.
        lstm_size: Number of units of the LSTM.
        head_size: Number of hidden units of each head.
        time_buckets: Number of inputs that encode the time.
        pixels_per_cell: See `torso_and_heads`.
        num_outputs: Number of outputs of the policy; `num_actions` by default.
    """
    torso_network = torso(torso_size, pixels_per_cell)
    policy_head = head(head_size, num_actions if num_outputs is None else num_outputs)
    value_head = head(head_size, 1)
    num_inputs = torso_size + num_actions + 1 + time_buckets

    def init(key: PRNGKeyArray, observations: Float[Array, "rows *shape"]) -> Parameters:
        torso_key, input_key, hidden_key, policy_key, value_key = jax.random.split(key, 5)
        hidden = jnp.zeros((1, lstm_size))
        return {
            "torso": torso_network.init(torso_key, observations[:1]),
            "lstm": {
                # One kernel for the concatenation of all inputs.
                "input": nn.initializers.lecun_normal()(input_key, (num_inputs, 4 * lstm_size)),
                "hidden": nn.initializers.orthogonal()(hidden_key, (lstm_size, 4 * lstm_size)),
                # The forget gate starts open.
                "bias": jnp.zeros(4 * lstm_size).at[lstm_size : 2 * lstm_size].set(1.0),
            },
            "policy": policy_head.init(policy_key, hidden),
            "value": value_head.init(value_key, hidden),
        }

    def observation_terms(parameters: Parameters, observations: Float[Array, "rows *shape"]):
        features = torso_network.apply(parameters["torso"], observations)
        return features @ parameters["lstm"]["input"][:torso_size] + parameters["lstm"]["bias"][None]

    def tables(parameters: Parameters) -> InputTables:
        kernel = parameters["lstm"]["input"][torso_size:]
        times = soft_one_hot(jnp.arange(horizon + 1.0), time_buckets, 0.0, float(horizon))
        return InputTables(
            action=jnp.concatenate([kernel[:num_actions], jnp.zeros((1, 4 * lstm_size))]),
            reward=kernel[num_actions],
            time=times @ kernel[num_actions + 1 :],
        )

    def step(parameters: Parameters, inputs: Float[Array, "envs gates"], lstm_state: LSTMState) -> LSTMState:
        return lstm_step(parameters["lstm"]["hidden"], inputs, lstm_state)

    def unroll(
        parameters: Parameters,
        inputs: Float[Array, "time envs gates"],
        is_first: Bool[Array, "time envs"],
        lstm_state: LSTMState,
    ) -> LSTMState:
        return lstm_unroll(parameters["lstm"]["hidden"], inputs, is_first, lstm_state)

    def heads(parameters: Parameters, hidden: Float[Array, "*batch H"]):
        value = value_head.apply(parameters["value"], hidden)
        return policy_head.apply(parameters["policy"], hidden), value[..., 0]

    def initial_lstm_state(num_envs: int) -> LSTMState:
        return LSTMState(jnp.zeros((num_envs, lstm_size)), jnp.zeros((num_envs, lstm_size)))

    def ignore_reward(parameters: Parameters) -> Parameters:
        # This is the row that `tables` returns as `reward`. The parameters of several seeds have a leading axis.
        kernel = parameters["lstm"]["input"].at[..., torso_size + num_actions, :].set(0.0)
        return parameters | {"lstm": parameters["lstm"] | {"input": kernel}}

    return AgentNetwork(
        init, observation_terms, tables, step, unroll, heads, initial_lstm_state, ignore_reward
    )


def lstm_inputs(
    tables: InputTables, observation_terms: Float[Array, "*batch gates"], inputs: AgentInputs
) -> Float[Array, "*batch gates"]:
    """Returns the LSTM's input projection: the sum of its four terms."""
    reward = inputs.previous_reward[..., None] * tables.reward.reshape((1,) * inputs.time.ndim + (-1,))
    return observation_terms + _action_terms(tables, inputs) + tables.time[inputs.time] + reward


def _action_terms(tables: InputTables, inputs: AgentInputs) -> Float[Array, "*batch gates"]:
    action = inputs.previous_action
    if jnp.issubdtype(action.dtype, jnp.floating):
        return action @ tables.action[:-1]
    rows = tables.action[action]
    return rows if action.ndim == inputs.time.ndim else rows.sum(axis=-2)

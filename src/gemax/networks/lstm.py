"""The LSTM: one step to act, and whole unrolls to learn.

The gradient of an unroll is written by hand. Differentiating the loop would add a small product to the gradient of the
kernel at every step, and store each factor of every derivative. Here the backward loop returns the gradients of all
gates, which the input terms need anyway, and one large product with them is the gradient of the kernel.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gemax.types import tree_where

LARGE_KERNEL = 2**18
"""From this many entries of the kernel, its gradient takes a transposed copy of the hidden states.

XLA has a slower product for transposed matrices on the CPU, which is worth a copy only if the product is large.
"""


class LSTMState(NamedTuple):
    """The recurrent state of the agent, one row per environment."""

    hidden: Float[Array, "envs H"]
    cell: Float[Array, "envs H"]


class Gates(NamedTuple):
    """The gates of a step after their nonlinearities, in the order of the kernel's columns."""

    input: Float[Array, "envs H"]
    forget: Float[Array, "envs H"]
    candidate: Float[Array, "envs H"]
    output: Float[Array, "envs H"]


def lstm_step(
    kernel: Float[Array, "H gates"], inputs: Float[Array, "envs gates"], lstm_state: LSTMState
) -> LSTMState:
    """Advances the LSTM by one step, given the input projection with its bias."""
    return _step(kernel, inputs, lstm_state)[0]


def lstm_unroll(
    kernel: Float[Array, "H gates"],
    inputs: Float[Array, "time envs gates"],
    is_first: Bool[Array, "time envs"],
    lstm_state: LSTMState,
) -> LSTMState:
    """Returns the LSTM state after each step, [time, envs, H]. It is zero before the first step of an episode."""
    return _unroll(kernel, inputs, is_first, lstm_state)


@jax.custom_vjp
def _unroll(kernel, inputs, is_first, lstm_state) -> LSTMState:
    return _unroll_with_gates(kernel, inputs, is_first, lstm_state)[0]


def _unroll_with_gates(kernel, inputs, is_first, lstm_state) -> tuple[LSTMState, Gates]:
    def one_step(lstm_state: LSTMState, step):
        term, is_first = step
        lstm_state, gates = _step(kernel, term, _zero_where(is_first, lstm_state))
        return lstm_state, (lstm_state, gates)

    return jax.lax.scan(one_step, lstm_state, (inputs, is_first))[1]


def _step(kernel, inputs, lstm_state: LSTMState) -> tuple[LSTMState, Gates]:
    before = jnp.split(inputs + lstm_state.hidden @ kernel, 4, axis=-1)
    gates = Gates(
        jax.nn.sigmoid(before[0]), jax.nn.sigmoid(before[1]), jnp.tanh(before[2]), jax.nn.sigmoid(before[3])
    )
    cell = gates.forget * lstm_state.cell + gates.input * gates.candidate
    return LSTMState(gates.output * jnp.tanh(cell), cell), gates


def _forward(kernel, inputs, is_first, lstm_state):
    states, gates = _unroll_with_gates(kernel, inputs, is_first, lstm_state)
    return states, (kernel, is_first, lstm_state, states, gates)


def _backward(residuals, gradient: LSTMState):
    """Returns the gradients of the kernel, the inputs and the initial state, given those of all states."""
    kernel, is_first, lstm_state, states, gates = residuals
    before = jax.tree.map(lambda first, after: jnp.concatenate([first[None], after[:-1]]), lstm_state, states)
    before = _zero_where(is_first, before)

    def one_step(after: LSTMState, step):
        gradient, gates, cell, cell_before, is_first = step
        hidden_gradient = gradient.hidden + after.hidden
        tanh_cell = jnp.tanh(cell)
        cell_gradient = gradient.cell + after.cell + hidden_gradient * gates.output * (1.0 - tanh_cell**2)
        gate_gradients = jnp.concatenate(
            [
                cell_gradient * gates.candidate * gates.input * (1.0 - gates.input),
                cell_gradient * cell_before * gates.forget * (1.0 - gates.forget),
                cell_gradient * gates.input * (1.0 - gates.candidate**2),
                hidden_gradient * tanh_cell * gates.output * (1.0 - gates.output),
            ],
            axis=-1,
        )
        earlier = LSTMState(gate_gradients @ kernel.T, cell_gradient * gates.forget)
        return _zero_where(is_first, earlier), gate_gradients

    zeros = jax.tree.map(jnp.zeros_like, lstm_state)
    initial_gradient, gate_gradients = jax.lax.scan(
        one_step, zeros, (gradient, gates, states.cell, before.cell, is_first), reverse=True
    )
    kernel_gradient = _product_of_steps(before.hidden, gate_gradients)
    return kernel_gradient, gate_gradients, None, initial_gradient


def _product_of_steps(
    hidden: Float[Array, "time envs H"], gate_gradients: Float[Array, "time envs gates"]
) -> Float[Array, "H gates"]:
    """Returns the sum over all steps of hᵀ times the gradients of the gates."""
    size, num_gates = hidden.shape[-1], gate_gradients.shape[-1]
    transposed = hidden.reshape(-1, size).T
    if size * num_gates >= LARGE_KERNEL:
        # The barrier keeps XLA from folding the transposition into the product.
        transposed = jax.lax.optimization_barrier(transposed)
    return transposed @ gate_gradients.reshape(-1, num_gates)


def _zero_where(is_first: Bool[Array, "*batch"], states: LSTMState) -> LSTMState:
    return tree_where(is_first, jax.tree.map(jnp.zeros_like, states), states)


_unroll.defvjp(_forward, _backward)

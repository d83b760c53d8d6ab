import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.networks.lstm import LARGE_KERNEL, LSTMState, lstm_step, lstm_unroll

TIME, ENVS = 6, 3


def random_unroll(seed: int, size: int):
    keys = jax.random.split(jax.random.key(seed), 5)
    kernel = jax.random.normal(keys[0], (size, 4 * size)) / np.sqrt(size)
    inputs = jax.random.normal(keys[1], (TIME, ENVS, 4 * size))
    is_first = jax.random.bernoulli(keys[2], 0.3, (TIME, ENVS))
    lstm_state = LSTMState(*(jax.random.normal(key, (ENVS, size)) for key in keys[3:]))
    return kernel, inputs, is_first, lstm_state


def unroll_by_steps(kernel, inputs, is_first, lstm_state):
    """One step after the other, differentiated by JAX."""
    states = []
    for t in range(TIME):
        lstm_state = jax.tree.map(
            lambda leaf, first=is_first[t]: jnp.where(first[:, None], 0.0, leaf), lstm_state
        )
        lstm_state = lstm_step(kernel, inputs[t], lstm_state)
        states.append(lstm_state)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def gradients(unroll, kernel, inputs, is_first, lstm_state):
    """Gradients of a sum of the squared hidden states and the cells, which differs between steps."""

    def loss(kernel, inputs, lstm_state):
        states = unroll(kernel, inputs, is_first, lstm_state)
        weight = jnp.arange(1.0, TIME + 1)[:, None, None]
        return jnp.sum(weight * (states.hidden**2 + states.cell))

    return jax.grad(loss, argnums=(0, 1, 2))(kernel, inputs, lstm_state)


@pytest.mark.parametrize("size", [4, int(np.sqrt(LARGE_KERNEL / 4))])
def test_gradients_of_an_unroll_are_those_of_its_steps(size):
    arguments = random_unroll(0, size)
    jax.tree.map(
        lambda ours, reference: np.testing.assert_allclose(ours, reference, rtol=2e-4, atol=2e-5),
        gradients(lstm_unroll, *arguments),
        gradients(unroll_by_steps, *arguments),
    )


def test_an_unroll_returns_the_states_of_its_steps():
    arguments = random_unroll(1, 4)
    jax.tree.map(
        lambda ours, reference: np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6),
        lstm_unroll(*arguments),
        unroll_by_steps(*arguments),
    )


def test_no_gradient_crosses_the_start_of_an_episode():
    kernel, inputs, _, lstm_state = random_unroll(2, 4)
    is_first = jnp.zeros((TIME, ENVS), bool).at[3].set(True)

    def loss(inputs):
        return jnp.sum(lstm_unroll(kernel, inputs, is_first, lstm_state).hidden[3:])

    gradient = jax.grad(loss)(inputs)
    assert not gradient[:3].any()
    assert gradient[3:].any()


def test_seeds_can_be_vectorised():
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), random_unroll(3, 4), random_unroll(4, 4))
    together = jax.vmap(lambda *arguments: gradients(lstm_unroll, *arguments))(*both)
    jax.tree.map(
        lambda ours, alone: np.testing.assert_allclose(ours[1], alone, rtol=1e-4, atol=1e-5),
        together,
        gradients(lstm_unroll, *random_unroll(4, 4)),
    )

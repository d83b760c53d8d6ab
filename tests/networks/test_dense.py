"""The linear layer whose gradient is fast on CPUs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.networks.dense import dense, product
from gemax.networks.torso import torso_and_heads


@pytest.mark.parametrize("num_outputs", [1, 3, 8, 20])
@pytest.mark.parametrize("batch", [(5,), (4, 5)])
def test_a_dense_layer_and_its_gradients_equal_those_of_flax(num_outputs, batch, key):
    inputs = jax.random.normal(key, (*batch, 8))
    parameters = nn.Dense(num_outputs).init(key, inputs)

    def results(layer):
        def loss(parameters, inputs):
            outputs = layer.apply(parameters, inputs)
            return jnp.sum(outputs**2), outputs

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(parameters, inputs)

    ours, reference = results(dense(num_outputs)), results(nn.Dense(num_outputs))
    assert jax.tree.structure(dense(num_outputs).init(key, inputs)) == jax.tree.structure(parameters)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5), ours, reference
    )


@pytest.mark.parametrize("num_outputs", [3, 20])
def test_gradients_of_several_layers_together_and_of_the_kernel_alone_equal_those_of_the_plain_product(
    num_outputs, key
):
    inputs, kernels = jax.random.normal(key, (2, 5, 8)), jax.random.normal(key, (2, 8, num_outputs))

    def gradients(multiply):
        def loss(kernel, inputs):
            return jnp.sum(jnp.sin(multiply(inputs, kernel)))

        return jax.jit(jax.vmap(jax.grad(loss)))(kernels, inputs)

    np.testing.assert_allclose(gradients(product), gradients(jnp.matmul), rtol=2e-5, atol=1e-5)


def test_heads_are_the_parts_of_the_output(key):
    network, rows = torso_and_heads(16, 8, (4, 1)), jax.random.normal(key, (5, 3))
    parameters = network.init(key, rows)
    heads = network.apply_heads(parameters, rows)
    assert [head.shape for head in heads] == [(5, 4), (5, 1)]
    np.testing.assert_array_equal(jnp.concatenate(heads, axis=1), network.apply(parameters, rows))
    # The first head has its own parameters, and does not depend on those of the second.
    changed = jax.tree.map(jnp.copy, parameters)
    second = changed["params"]["_Head_1"]
    changed["params"]["_Head_1"] = jax.tree.map(jnp.zeros_like, second)
    first, zero = network.apply_heads(changed, rows)
    np.testing.assert_array_equal(first, heads[0])
    assert not zero.any()

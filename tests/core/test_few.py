"""A function of few steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.core.few import apply_to_few


@pytest.mark.parametrize("num_chosen", [0, 1, 6, 7, 48])
def test_a_function_is_applied_to_few_steps_and_to_many(num_chosen, key):
    steps = {"vector": jax.random.normal(key, (6, 8, 3)), "scalar": jnp.arange(48.0).reshape(6, 8)}
    order = jax.random.permutation(key, 48)
    is_chosen = (order < num_chosen).reshape(6, 8)

    def function(steps):
        return steps["vector"].sum(axis=-1) + steps["scalar"]

    found = apply_to_few(function, is_chosen, steps)
    assert found.shape == (6, 8)
    np.testing.assert_allclose(found[is_chosen], function(steps)[is_chosen], rtol=1e-6)


def test_only_an_eighth_of_the_steps_is_computed_if_few_are_chosen():
    shapes = []

    def function(steps):
        shapes.append(steps.shape)
        return steps

    apply_to_few(function, jnp.zeros((6, 8), bool), jnp.zeros((6, 8)))
    assert set(shapes) == {(1, 6), (6, 8)}


def test_results_may_be_trees_of_any_dtype_and_several_may_be_computed_together(key):
    steps = jax.random.normal(key, (2, 6, 8))
    is_chosen = jnp.stack([jnp.zeros((6, 8), bool).at[2, 3].set(True), jnp.ones((6, 8), bool)])

    def function(steps):
        return {"sign": steps > 0, "rounded": steps.astype(jnp.int32), "half": steps.astype(jnp.bfloat16)}

    found = jax.jit(jax.vmap(lambda is_chosen, steps: apply_to_few(function, is_chosen, steps)))(
        is_chosen, steps
    )
    for name, expected in function(steps).items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name][is_chosen], expected[is_chosen])


def test_results_may_have_features_and_gradients(key):
    weights, steps = jax.random.normal(key, (3, 2)), jax.random.normal(key, (6, 8, 3))
    is_chosen = jnp.zeros((6, 8), bool).at[2, 3].set(True).at[5, 0].set(True)

    def total(weights, apply):
        return jnp.sum(
            jnp.where(is_chosen[..., None], apply(lambda steps: jnp.tanh(steps @ weights)), 0.0) ** 2
        )

    few = jax.grad(total)(weights, lambda function: apply_to_few(function, is_chosen, steps))
    all_steps = jax.grad(total)(weights, lambda function: function(steps))
    np.testing.assert_allclose(few, all_steps, rtol=1e-5)

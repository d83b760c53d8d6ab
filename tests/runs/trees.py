"""Small trees of arrays for the checkpoint tests."""

import jax
import jax.numpy as jnp
import numpy as np


def small_tree(value=0):
    return {
        "weights": jnp.full(16, value, jnp.float32),
        "update": jnp.int32(value),
        "key": jax.random.key(value),
    }


def bits(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def assert_same(tree, other):
    """Asserts equal structure, shapes, dtypes, weak types and bits."""
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    for leaf, other_leaf in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        assert (leaf.shape, leaf.dtype, bits(leaf)) == (other_leaf.shape, other_leaf.dtype, bits(other_leaf))
        assert getattr(leaf, "weak_type", False) == getattr(other_leaf, "weak_type", False)

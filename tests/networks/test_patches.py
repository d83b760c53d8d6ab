"""Layers over indexed images have the values and gradients of flax's layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.core.moments import standardise, table_moments
from gemax.envs.registry import make_env
from gemax.networks import torso_and_heads
from gemax.networks.patches import (
    IndexedImages,
    Layer,
    convolve,
    index_images,
    linear,
    sum_kernel_blocks,
    upsample,
)
from gemax.networks.torso import CONVOLUTIONS

COLOURS = np.asarray([[0, 0, 0], [9, 2, 4], [1, 5, 7], [3, 3, 3]], np.float32) / 9


def random_images(rows=7, height=9, width=8, seed=0):
    return jnp.asarray(COLOURS[np.random.default_rng(seed).integers(4, size=(rows, height, width))])


def random_layer(size, channels, outputs, stride, seed=0):
    keys = jax.random.split(jax.random.key(seed))
    return Layer(
        jax.random.normal(keys[0], (size, size, channels, outputs)),
        jax.random.normal(keys[1], (outputs,)),
        stride,
    )


def flax_convolution(images, layer):
    size, outputs = layer.kernel.shape[0], layer.kernel.shape[3]
    module = nn.Conv(outputs, (size, size), (layer.stride, layer.stride), "VALID")
    return nn.relu(module.apply({"params": {"kernel": layer.kernel, "bias": layer.bias}}, images))


def in_full(images):
    return images.values[images.indices] if isinstance(images, IndexedImages) else images


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (4, 3)])
@pytest.mark.parametrize("indexed", [True, False])
def test_convolution_equals_that_of_flax(size, stride, indexed):
    rows, layer = random_images(), random_layer(size, 3, 5, stride)
    images = index_images(rows) if indexed else rows
    np.testing.assert_allclose(
        in_full(convolve(images, layer)), flax_convolution(rows, layer), rtol=1e-5, atol=1e-5
    )


def test_each_distinct_patch_is_computed_once():
    rows = jnp.tile(random_images(rows=1), (50, 1, 1, 1))
    convolved = convolve(index_images(rows), random_layer(2, 3, 5, 1))
    assert isinstance(convolved, IndexedImages)
    assert len(convolved.values) <= 4**4
    assert convolved.indices.shape == (50, 8, 7)


def test_summed_kernel_over_reduced_images_equals_the_full_convolution():
    rows, layer = random_images(height=5, width=4), random_layer(8, 3, 5, 4)
    small = convolve(upsample(rows, 2), sum_kernel_blocks(layer, 4))
    np.testing.assert_allclose(small, flax_convolution(upsample(rows, 8), layer), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("changes", "colours"), [(0, 4), (3, 4), (40, 2), (40, 4)])
def test_linear_over_indexed_images_equals_a_linear_layer(changes, colours):
    """Covers identical images, gathered terms, the 0/1 matrix, and the full product."""
    rng = np.random.default_rng(0)
    images = np.tile(rng.integers(colours, size=(1, 42)), (200, 1))
    for image in images:
        image[rng.integers(42, size=changes)] = rng.integers(colours, size=changes)
    rows = jnp.asarray(COLOURS[images.reshape(200, 6, 7)])
    kernel, bias = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(126, 5), (5,)]))

    def loss_and_gradient(images):
        loss = jax.value_and_grad(lambda kernel, bias: jnp.sum(jnp.sin(linear(images, kernel, bias))), (0, 1))
        return jax.jit(loss)(kernel, bias)

    indexed, full = loss_and_gradient(index_images(rows)), loss_and_gradient(rows)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), indexed, full)


def test_torso_equals_the_torso_of_the_paper_with_its_gradients():
    """Compares indexed images with flax's convolutions over 8 × 8 pixels per cell."""
    env = make_env("two-rooms", observation="pixels")
    assert env.finite is not None
    table = env.finite.observation_table
    rows = standardise(table_moments(table), table)[::4]
    network = torso_and_heads(16, 8, (4, 1), pixels_per_cell=8)
    parameters = network.init(jax.random.key(0), rows[:1])
    target = jax.random.normal(jax.random.key(1), (rows.shape[0], 5))

    def reference(parameters, images):
        torso = parameters["params"]["_Torso_0"]
        for i, (_, _, stride) in enumerate(CONVOLUTIONS):
            images = flax_convolution(images, Layer(torso[f"kernel_{i}"], torso[f"bias_{i}"], stride))
        features = nn.relu(images.reshape(images.shape[0], -1) @ torso["kernel"] + torso["bias"][None])
        heads = [parameters["params"][f"_Head_{i}"] for i in range(2)]
        return jnp.concatenate([apply_head(head, features) for head in heads], axis=-1)

    def apply_head(head, features):
        first, second = head["Dense_1"], head["Dense_0"]
        hidden = nn.relu(features @ first["kernel"] + first["bias"][None])
        return hidden @ second["kernel"] + second["bias"][None]

    def loss_and_gradient(apply):
        return jax.jit(jax.value_and_grad(lambda parameters: jnp.mean((apply(parameters) - target) ** 2)))

    expected = loss_and_gradient(lambda parameters: reference(parameters, upsample(rows, 8)))(parameters)
    indexed = loss_and_gradient(lambda parameters: network.apply(parameters, rows))(parameters)
    traced = jax.jit(jax.value_and_grad(lambda p, rows: jnp.mean((network.apply(p, rows) - target) ** 2)))(
        parameters, rows
    )
    for ours in (indexed, traced):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, expected)


def test_many_distinct_patches_do_not_overflow_their_codes():
    """Patches of 16 pixels with thousands of distinct values, so that the codes are renumbered on the way."""
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.normal(size=(3, 40, 40, 3)).astype(np.float32))
    layer = random_layer(4, 3, 5, 2)
    np.testing.assert_allclose(
        in_full(convolve(index_images(rows), layer)), flax_convolution(rows, layer), rtol=1e-4, atol=1e-4
    )

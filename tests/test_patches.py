"""Layers over images that repeat give the numbers and the gradients of the library's own convolutions."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.networks import CONVOLUTIONS, torso_and_heads
from gemax.patches import Layer, Repeating, convolve, images_of, linear, magnify, reduce_kernel
from gemax.training.centring import centre, centring_of_table
from gemax.worlds.registry import make_world

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


def library_convolution(images, layer):
    size, outputs = layer.kernel.shape[0], layer.kernel.shape[3]
    module = nn.Conv(outputs, (size, size), (layer.stride, layer.stride), "VALID")
    return nn.relu(module.apply({"params": {"kernel": layer.kernel, "bias": layer.bias}}, images))


def written_out(images):
    return images.values[images.pointer] if isinstance(images, Repeating) else images


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (4, 3)])
@pytest.mark.parametrize("known", [True, False])
def test_convolutions_are_those_of_the_library(size, stride, known):
    rows, layer = random_images(), random_layer(size, 3, 5, stride)
    images = images_of(rows) if known else rows
    np.testing.assert_allclose(
        written_out(convolve(images, layer)), library_convolution(rows, layer), rtol=1e-5, atol=1e-5
    )


def test_each_distinct_patch_is_convolved_once():
    rows = jnp.tile(random_images(rows=1), (50, 1, 1, 1))
    convolved = convolve(images_of(rows), random_layer(2, 3, 5, 1))
    assert isinstance(convolved, Repeating)
    assert len(convolved.values) <= 4**4
    assert convolved.pointer.shape == (50, 8, 7)


def test_equal_pixels_can_be_reduced_beforehand():
    rows, layer = random_images(height=5, width=4), random_layer(8, 3, 5, 4)
    small = convolve(magnify(rows, 2), reduce_kernel(layer, 4))
    np.testing.assert_allclose(small, library_convolution(magnify(rows, 8), layer), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("changes", "colours"), [(0, 4), (3, 4), (40, 2), (40, 4)])
def test_a_linear_layer_over_images_that_repeat_is_a_linear_layer(changes, colours):
    """For images that are all alike; by look-ups; by a matrix that chooses; and as it stands, if that is less work."""
    rng = np.random.default_rng(0)
    images = np.tile(rng.integers(colours, size=(1, 42)), (200, 1))
    for image in images:
        image[rng.integers(42, size=changes)] = rng.integers(colours, size=changes)
    rows = jnp.asarray(COLOURS[images.reshape(200, 6, 7)])
    kernel, bias = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(126, 5), (5,)]))

    def loss_and_gradient(images):
        loss = jax.value_and_grad(lambda kernel, bias: jnp.sum(jnp.sin(linear(images, kernel, bias))), (0, 1))
        return jax.jit(loss)(kernel, bias)

    known, plain = loss_and_gradient(images_of(rows)), loss_and_gradient(rows)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), known, plain)


def test_the_torso_by_patches_is_the_torso_of_the_paper_with_its_gradients():
    """The table of a world, its distinct patches only, against 8 x 8 pixels a square through flax's convolutions."""
    world = make_world("two-rooms", observation="pixels")
    assert world.finite is not None
    table = world.finite.observation_table
    rows = centre(centring_of_table(table), table)[::4]
    network = torso_and_heads(16, 8, (4, 1), pixels_per_square=8)
    parameters = network.init(jax.random.key(0), rows[:1])
    target = jax.random.normal(jax.random.key(1), (rows.shape[0], 5))

    def reference(parameters, images):
        torso = parameters["params"]["_Torso_0"]
        for number, (_, _, stride) in enumerate(CONVOLUTIONS):
            images = library_convolution(
                images, Layer(torso[f"kernel_{number}"], torso[f"bias_{number}"], stride)
            )
        features = nn.relu(images.reshape(images.shape[0], -1) @ torso["kernel"] + torso["bias"][None])
        heads = [parameters["params"][f"_Head_{i}"] for i in range(2)]
        return jnp.concatenate([head_of(head, features) for head in heads], axis=-1)

    def head_of(head, features):
        first, second = head["Dense_1"], head["Dense_0"]
        hidden = nn.relu(features @ first["kernel"] + first["bias"][None])
        return hidden @ second["kernel"] + second["bias"][None]

    def loss_and_gradient(apply):
        return jax.jit(jax.value_and_grad(lambda parameters: jnp.mean((apply(parameters) - target) ** 2)))

    expected = loss_and_gradient(lambda parameters: reference(parameters, magnify(rows, 8)))(parameters)
    by_patches = loss_and_gradient(lambda parameters: network.apply(parameters, rows))(parameters)
    plain = jax.jit(jax.value_and_grad(lambda p, rows: jnp.mean((network.apply(p, rows) - target) ** 2)))(
        parameters, rows
    )
    for ours in (by_patches, plain):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, expected)


def test_many_different_patches_do_not_overflow_their_numbers():
    """Sixteen parts out of thousands of values: their number needs to be made small again on the way."""
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.normal(size=(3, 40, 40, 3)).astype(np.float32))
    layer = random_layer(4, 3, 5, 2)
    np.testing.assert_allclose(
        written_out(convolve(images_of(rows), layer)), library_convolution(rows, layer), rtol=1e-4, atol=1e-4
    )

"""Torsos encode observations into features; heads map features to outputs (`tab:commonhyper`)."""

from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from gemax.networks import patches
from gemax.networks.base import Network, Parameters, to_network
from gemax.networks.dense import dense

CONVOLUTIONS = ((32, 8, 4), (32, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of each convolution of the torso, `tab:commonhyper`. No padding."""


def torso(size: int, pixels_per_cell: int | None = None) -> Network:
    """Returns a torso without heads. See `torso_and_heads` for `pixels_per_cell`."""
    return to_network(_Torso(size, pixels_per_cell))


def head(size: int, num_outputs: int) -> Network:
    """Returns a head: a linear layer, ReLU and a linear layer."""
    return to_network(_Head(size, num_outputs))


def torso_and_heads(
    torso_size: int, head_size: int, output_sizes: Sequence[int], pixels_per_cell: int | None = None
) -> Network:
    """Returns a torso shared by several heads, such as f and g of `tab:commonhyper`. Outputs are concatenated.

    If `pixels_per_cell` is given, the torso applies convolutions. Each pixel of the input image then stands for
    a square of `pixels_per_cell` × `pixels_per_cell` pixels.
    """
    module = _TorsoAndHeads(torso_size, pixels_per_cell, head_size, tuple(output_sizes))

    def apply(parameters: Parameters, rows: Float[Array, "rows *shape"]) -> Float[Array, "rows outputs"]:
        return jnp.concatenate(apply_heads(parameters, rows), axis=-1)

    def apply_heads(
        parameters: Parameters, rows: Float[Array, "rows *shape"]
    ) -> tuple[Float[Array, "rows _"], ...]:
        return module.apply(parameters, rows)  # pyright: ignore[reportReturnType]

    return to_network(module)._replace(apply=apply, apply_heads=apply_heads)


# Flax derives parameter names and initialisation keys from the class names below.


class _Torso(nn.Module):
    """Convolutions (`tab:commonhyper`) or only a linear layer (`tab:continuoustorso`), then ReLU."""

    size: int
    pixels_per_cell: int | None

    @nn.compact
    def __call__(self, observations: Float[Array, "rows *shape"]) -> Float[Array, "rows features"]:
        if observations.ndim != 4:
            return nn.relu(dense(self.size)(observations.reshape(observations.shape[0], -1)))
        images = patches.index_images(observations)
        if self.pixels_per_cell is not None:
            images = self._convolutions(images, self.pixels_per_cell)
        height, width, channels = patches.image_shape(images)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (height * width * channels, self.size))
        bias = self.param("bias", nn.initializers.zeros, (self.size,))
        return nn.relu(patches.linear(images, kernel, bias))

    def _convolutions(self, images: patches.Images, pixels_per_cell: int) -> patches.Images:
        for i, (channels, size, stride) in enumerate(CONVOLUTIONS):
            shape = (size, size, patches.image_shape(images)[2], channels)
            kernel = self.param(f"kernel_{i}", nn.initializers.lecun_normal(), shape)
            layer = patches.Layer(kernel, self.param(f"bias_{i}", nn.initializers.zeros, (channels,)), stride)
            if i == 0 and pixels_per_cell % stride == 0:
                # All pixels of a cell are equal, so each block of `stride` × `stride` pixels is stored as one.
                images = patches.upsample(images, pixels_per_cell // stride)
                layer = patches.sum_kernel_blocks(layer, stride)
            elif i == 0:
                images = patches.upsample(images, pixels_per_cell)
            images = patches.convolve(images, layer)
        return images


class _Head(nn.Module):
    size: int
    num_outputs: int

    @nn.compact
    def __call__(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        return dense(self.num_outputs)(nn.relu(dense(self.size)(inputs)))


class _TorsoAndHeads(nn.Module):
    torso_size: int
    pixels_per_cell: int | None
    head_size: int
    output_sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, inputs: Float[Array, "rows *shape"]) -> tuple[Float[Array, "rows _"], ...]:
        features = _Torso(self.torso_size, self.pixels_per_cell)(inputs)
        return tuple(_Head(self.head_size, size)(features) for size in self.output_sizes)

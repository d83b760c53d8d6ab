"""Layers over images that repeat: whatever two images have in common is computed once.

The images of a gridworld are a table that is known before anything is compiled. They differ from one another in a
few squares, so that most of the patches which a convolution looks at occur again and again, in the same image and in
others: the 1,520 images of 16-Leaves hold 1.9 million patches, of which some hundred are distinct. A layer is applied
to each distinct patch, and the next layer looks at patches of patches. The numbers and the gradients are those of the
plain layers, for a fraction of the work.

What is not known while compiling takes the plain way: patches by strided slices and a matrix product a layer, which
runs several times faster in a compiled loop on a CPU than the library's own convolution.
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gemax.core.checks import is_known

SUMMED_BY_LOOKING_UP = 8
"""Sums of up to this many terms are looked up and added; longer ones are products with a matrix of ones and zeros."""


class Layer(NamedTuple):
    """A convolution without padding; its kernel is [height, width, channels, outputs]."""

    kernel: Float[Array, "k k C D"]
    bias: Float[Array, " D"]
    stride: int


class Repeating(NamedTuple):
    """Images as pointers to the distinct values that they are made of."""

    pointer: Int[np.ndarray, "rows height width"]
    """Which value each pixel has."""
    values: Float[Array, "distinct channels"]


Images: TypeAlias = Float[Array, "rows _ _ _"] | Repeating
"""[rows, height, width, channels], or what they are made of. Layers change all but the rows."""


def images_of(rows: Float[Array, "rows height width channels"]) -> Images:
    """The images as they are, or by their distinct values where these are known."""
    if not is_known(rows):
        return rows
    numbers, number = np.unique(np.asarray(rows), return_inverse=True)
    distinct, pointer = _distinct(number.reshape(rows.shape))
    return Repeating(pointer, jnp.asarray(numbers[distinct]))


def size_of(images: Images) -> tuple[int, int, int]:
    """Height, width and channels."""
    if isinstance(images, Repeating):
        return images.pointer.shape[1], images.pointer.shape[2], images.values.shape[1]
    return images.shape[1], images.shape[2], images.shape[3]


def magnify(images: Images, factor: int) -> Images:
    """Every pixel becomes a square of pixels."""
    if isinstance(images, Repeating):
        return Repeating(images.pointer.repeat(factor, axis=1).repeat(factor, axis=2), images.values)
    return jnp.repeat(jnp.repeat(images, factor, axis=1), factor, axis=2)


def reduce_kernel(layer: Layer, factor: int) -> Layer:
    """The same layer for images in which every square of `factor` × `factor` pixels is one pixel.

    Where pixels are equal, their weights can be added up beforehand. The stride must be a multiple of the factor.
    """
    size = layer.kernel.shape[0] // factor
    blocks = layer.kernel.reshape(size, factor, size, factor, *layer.kernel.shape[2:])
    return Layer(blocks.sum(axis=(1, 3)), layer.bias, layer.stride // factor)


def convolve(images: Images, layer: Layer) -> Images:
    """A convolution and relu."""
    size, channels, outputs = layer.kernel.shape[0], layer.kernel.shape[2], layer.kernel.shape[3]
    kernel, bias = layer.kernel.reshape(-1, outputs), layer.bias[None]
    if isinstance(images, Repeating):
        distinct, pointer = _distinct(np.asarray(_patches(images.pointer[..., None], size, layer.stride)))
        patches = images.values[distinct].reshape(-1, size * size * channels)
        return Repeating(pointer, jax.nn.relu(patches @ kernel + bias))
    patches = _patches(images, size, layer.stride)
    values = jax.nn.relu(patches.reshape(-1, size * size * channels) @ kernel + bias)
    return values.reshape(*patches.shape[:3], outputs)


def linear(
    images: Images, kernel: Float[Array, "pixels_and_channels D"], bias: Float[Array, " D"]
) -> Float[Array, "rows D"]:
    """A linear layer over the whole image."""
    if not isinstance(images, Repeating):
        return images.reshape(images.shape[0], -1) @ kernel + bias[None]
    num_rows, places = images.pointer.shape[0], images.pointer[0].size
    index = images.pointer.reshape(num_rows, places)
    contents = _contents(index)
    if contents.differs.shape[1] > SUMMED_BY_LOOKING_UP and 2 * contents.num_unusual > kernel.shape[0]:
        return images.values[index].reshape(num_rows, -1) @ kernel + bias[None]
    # What is usual at each place adds up to one vector; an image adds what differs from it.
    usual = images.values[contents.usual]
    unusual = images.values[contents.unusual] - usual[:, None, :]
    terms = jnp.einsum("pnc,pcd->pnd", unusual, kernel.reshape(places, -1, kernel.shape[1]))
    terms = terms.reshape(-1, kernel.shape[1])
    return usual.reshape(1, -1) @ kernel + bias[None] + _sums(terms, contents.differs)


def _sums(terms: Float[Array, "terms D"], chosen: Int[np.ndarray, "rows at_most"]) -> Float[Array, "rows D"]:
    """For each row, the sum of the terms chosen for it."""
    num_rows, num_terms = chosen.shape[0], terms.shape[0]
    if chosen.shape[1] <= SUMMED_BY_LOOKING_UP:
        padded = jnp.concatenate([terms, jnp.zeros((1, terms.shape[1]))])
        return padded[chosen].sum(axis=1)
    used = np.unique(chosen[chosen < num_terms])
    choice = np.zeros((num_rows, len(used) + 1), np.float32)
    choice[np.arange(num_rows)[:, None], np.searchsorted(used, chosen)] = 1.0
    return jnp.asarray(choice[:, :-1]) @ terms[used]


class _Contents(NamedTuple):
    """What images hold at each place."""

    usual: Int[np.ndarray, " places"]
    """The value most often found there."""
    unusual: Int[np.ndarray, "places most"]
    """All others found there; filled up with the usual one."""
    differs: Int[np.ndarray, "rows at_most"]
    """For each image, where its values stand in `unusual` laid out flat; filled up with one beyond its end."""
    num_unusual: int


def _contents(index: Int[np.ndarray, "rows places"]) -> _Contents:
    places = index.shape[1]
    usual = np.asarray([np.bincount(values).argmax() for values in index.T])
    others = [np.setdiff1d(values, [value]) for values, value in zip(index.T, usual, strict=True)]
    most = max(1, *(len(values) for values in others))
    unusual = np.repeat(usual[:, None], most, axis=1)
    slot = np.full(index.shape, places * most)
    for place, values in enumerate(others):
        unusual[place, : len(values)] = values
        is_other = index[:, place] != usual[place]
        slot[is_other, place] = place * most + np.searchsorted(values, index[is_other, place])
    # Sorted, what differs comes first in every row.
    at_most = max(1, (index != usual[None]).sum(axis=1).max())
    num_unusual = sum(len(values) for values in others)
    return _Contents(usual, unusual, np.sort(slot, axis=1)[:, :at_most], num_unusual)


def _patches(images, size: int, stride: int):
    """All patches of `size` × `size` pixels, each written out along the last axis."""
    height, width = ((length - size) // stride + 1 for length in images.shape[1:3])
    parts = [
        images[:, row : row + stride * height : stride, column : column + stride * width : stride]
        for row in range(size)
        for column in range(size)
    ]
    return (np if isinstance(images, np.ndarray) else jnp).concatenate(parts, axis=-1)


def _distinct(patches: Int[np.ndarray, "rows height width parts"]):
    """The distinct patches, and which of them each one is."""
    flat = patches.reshape(-1, patches.shape[-1])
    base = int(flat.max()) + 1
    # Patches are told apart by one number each, built up part by part and made small again before it overflows.
    number, bound = np.zeros(len(flat), np.int64), 1
    for part in flat.T:
        if bound > np.iinfo(np.int64).max // base:
            number = np.unique(number, return_inverse=True)[1]
            bound = int(number.max()) + 1
        number, bound = number * base + part, bound * base
    _, first, index = np.unique(number, return_index=True, return_inverse=True)
    return flat[first], index.reshape(patches.shape[:3])

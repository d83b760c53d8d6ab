"""Layers over images with repeated patches: each distinct patch is computed once.

The observations of a gridworld are a table that is known before compilation. The images differ in a few cells only,
so most patches that a convolution reads occur many times: the 1,520 images of 16-Leaves contain 1.9 million patches,
of which a few hundred are distinct. A layer is applied to the distinct patches, and the next layer reads patches of
their results. Values and gradients equal those of ordinary layers at a fraction of the cost.

Images that are not known before compilation are processed in full: patches by strided slices, then one matrix
product per layer. On a CPU this is several times faster inside a compiled loop than XLA's convolution.
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gemax.core.checks import is_concrete

MAX_GATHERED_TERMS = 8
"""Sums of at most this many terms are gathered and added. Longer sums are products with a 0/1 matrix."""


class Layer(NamedTuple):
    """A convolution without padding."""

    kernel: Float[Array, "k k C D"]
    """[height, width, channels, outputs]."""
    bias: Float[Array, " D"]
    stride: int


class IndexedImages(NamedTuple):
    """Images stored as indices into a table of their distinct pixels."""

    indices: Int[np.ndarray, "rows height width"]
    """Row of `values` for each pixel."""
    values: Float[Array, "distinct channels"]


Images: TypeAlias = Float[Array, "rows _ _ _"] | IndexedImages
"""Images [rows, height, width, channels], in full or indexed."""


def index_images(images: Float[Array, "rows height width channels"]) -> Images:
    """Indexes the distinct pixels of the images if their values are known; otherwise returns them unchanged."""
    if not is_concrete(images):
        return images
    numbers, number_index = np.unique(np.asarray(images), return_inverse=True)
    pixels, index = _unique_patches(number_index.reshape(images.shape))
    return IndexedImages(index, jnp.asarray(numbers[pixels]))


def image_shape(images: Images) -> tuple[int, int, int]:
    """Returns height, width and number of channels."""
    if isinstance(images, IndexedImages):
        return images.indices.shape[1], images.indices.shape[2], images.values.shape[1]
    return images.shape[1], images.shape[2], images.shape[3]


def upsample(images: Images, factor: int) -> Images:
    """Repeats every pixel `factor` times along both axes."""
    if isinstance(images, IndexedImages):
        return IndexedImages(images.indices.repeat(factor, axis=1).repeat(factor, axis=2), images.values)
    return jnp.repeat(jnp.repeat(images, factor, axis=1), factor, axis=2)


def sum_kernel_blocks(layer: Layer, factor: int) -> Layer:
    """Returns the equivalent layer for images in which each block of `factor` × `factor` equal pixels is one pixel.

    The weights of equal pixels are summed. The stride must be a multiple of the factor.
    """
    size = layer.kernel.shape[0] // factor
    blocks = layer.kernel.reshape(size, factor, size, factor, *layer.kernel.shape[2:])
    return Layer(blocks.sum(axis=(1, 3)), layer.bias, layer.stride // factor)


def convolve(images: Images, layer: Layer) -> Images:
    """Applies a convolution and ReLU."""
    size, channels, outputs = layer.kernel.shape[0], layer.kernel.shape[2], layer.kernel.shape[3]
    kernel, bias = layer.kernel.reshape(-1, outputs), layer.bias[None]
    if isinstance(images, IndexedImages):
        distinct, index = _unique_patches(np.asarray(_patches(images.indices[..., None], size, layer.stride)))
        patches = images.values[distinct].reshape(-1, size * size * channels)
        return IndexedImages(index, jax.nn.relu(patches @ kernel + bias))
    patches = _patches(images, size, layer.stride)
    values = jax.nn.relu(patches.reshape(-1, size * size * channels) @ kernel + bias)
    return values.reshape(*patches.shape[:3], outputs)


def linear(
    images: Images, kernel: Float[Array, "pixels_and_channels D"], bias: Float[Array, " D"]
) -> Float[Array, "rows D"]:
    """Applies a linear layer to each flattened image."""
    if not isinstance(images, IndexedImages):
        return images.reshape(images.shape[0], -1) @ kernel + bias[None]
    index = images.indices.reshape(images.indices.shape[0], -1)
    num_rows, num_pixels = index.shape
    diff = _diff_from_mode(index)
    if diff.changed.shape[1] > MAX_GATHERED_TERMS and 2 * diff.num_others > kernel.shape[0]:
        return images.values[index].reshape(num_rows, -1) @ kernel + bias[None]
    # The image of modes contributes one vector. Each image then adds the terms of the pixels in which it differs.
    mode = images.values[diff.mode]
    others = images.values[diff.others] - mode[:, None, :]
    terms = jnp.einsum("pnc,pcd->pnd", others, kernel.reshape(num_pixels, -1, kernel.shape[1]))
    changes = _sum_terms(terms.reshape(-1, kernel.shape[1]), diff.changed)
    return mode.reshape(1, -1) @ kernel + bias[None] + changes


def _sum_terms(terms: Float[Array, "terms D"], chosen: Int[np.ndarray, "rows k"]) -> Float[Array, "rows D"]:
    """Returns the sum of the chosen terms of each row. The index `len(terms)` is padding and adds nothing."""
    num_rows, num_terms = chosen.shape[0], terms.shape[0]
    if chosen.shape[1] <= MAX_GATHERED_TERMS:
        padded = jnp.concatenate([terms, jnp.zeros((1, terms.shape[1]))])
        return padded[chosen].sum(axis=1)
    used = np.unique(chosen[chosen < num_terms])
    is_chosen = np.zeros((num_rows, len(used) + 1), np.float32)
    is_chosen[np.arange(num_rows)[:, None], np.searchsorted(used, chosen)] = 1.0
    return jnp.asarray(is_chosen[:, :-1]) @ terms[used]


class _DiffFromMode(NamedTuple):
    """Images as differences from the most common value of each pixel."""

    mode: Int[np.ndarray, " pixels"]
    """Most common value of each pixel."""
    others: Int[np.ndarray, "pixels max_others"]
    """All other values of each pixel, padded with the mode."""
    changed: Int[np.ndarray, "rows max_changed"]
    """Flat indices into `others` of the pixels in which an image differs, padded with `others.size`."""
    num_others: int
    """Number of entries of `others` without the padding."""


def _diff_from_mode(index: Int[np.ndarray, "rows pixels"]) -> _DiffFromMode:
    """Returns indexed images as differences from the most common value of each pixel."""
    mode = np.asarray([np.bincount(values).argmax() for values in index.T])
    others_of = [np.setdiff1d(values, [value]) for values, value in zip(index.T, mode, strict=True)]
    max_others = max(1, *(len(values) for values in others_of))
    others = np.repeat(mode[:, None], max_others, axis=1)
    changed = np.full(index.shape, others.size)
    for pixel, values in enumerate(others_of):
        others[pixel, : len(values)] = values
        differs = index[:, pixel] != mode[pixel]
        changed[differs, pixel] = pixel * max_others + np.searchsorted(values, index[differs, pixel])
    # Sorting moves the padding to the end of every row.
    max_changed = max(1, (index != mode[None]).sum(axis=1).max())
    num_others = sum(len(values) for values in others_of)
    return _DiffFromMode(mode, others, np.sort(changed, axis=1)[:, :max_changed], num_others)


def _patches(images, size: int, stride: int):
    """Returns all patches of `size` × `size` pixels, flattened along the last axis."""
    height, width = ((length - size) // stride + 1 for length in images.shape[1:3])
    parts = [
        images[:, row : row + stride * height : stride, column : column + stride * width : stride]
        for row in range(size)
        for column in range(size)
    ]
    return (np if isinstance(images, np.ndarray) else jnp).concatenate(parts, axis=-1)


def _unique_patches(patches: Int[np.ndarray, "rows height width parts"]):
    """Returns the distinct patches and the index of each patch among them."""
    flat = patches.reshape(-1, patches.shape[-1])
    base = int(flat.max()) + 1
    # Encodes each patch as one integer, in positional notation. The codes are renumbered before they overflow.
    code, bound = np.zeros(len(flat), np.int64), 1
    for part in flat.T:
        if bound > np.iinfo(np.int64).max // base:
            code = np.unique(code, return_inverse=True)[1]
            bound = int(code.max()) + 1
        code, bound = code * base + part, bound * base
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return flat[first], index.reshape(patches.shape[:3])

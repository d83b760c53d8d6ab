"""Linear layers whose gradient is fast on CPUs."""

from typing import Any

import flax.linen as nn
import jax
from jaxtyping import Array, Float


def dense(size: int) -> nn.Dense:
    """Returns flax's linear layer with `product` as its matrix product. Forward-mode derivatives are not defined."""
    return nn.Dense(size, dot_general=_dot_general)


def _dot_general(inputs: Array, kernel: Array, *_: Any, **__: Any) -> Array:
    return product(inputs, kernel)


@jax.custom_vjp
def product(inputs: Float[Array, "*batch F"], kernel: Float[Array, "F D"]) -> Float[Array, "*batch D"]:
    """Returns the matrix product of the inputs and the kernel."""
    return inputs @ kernel


def _forward(inputs: Array, kernel: Array):
    return product(inputs, kernel), (inputs, kernel)


def _backward(residuals: tuple[Array, Array], gradient: Float[Array, "*batch D"]):
    inputs, kernel = residuals
    kernel_gradient = _kernel_gradient(inputs, gradient)
    return (gradient @ kernel.T).astype(inputs.dtype), kernel_gradient.astype(kernel.dtype)


def _kernel_gradient(inputs: Float[Array, "*batch F"], gradient: Float[Array, "*batch D"]):
    """Returns the gradient of the kernel.

    XLA packs the first factor of such a product, which takes longest if it is the wider one: with 2,048 rows, 256
    inputs and 4 outputs, 0.77 ms instead of 0.06 ms.
    """
    if inputs.shape[-1] <= gradient.shape[-1]:
        return _sum_of_outer_products(inputs, gradient)
    transposed = _sum_of_outer_products(gradient, inputs)
    # Without the barrier, XLA would merge the transpose with the product, and exchange the factors again.
    return jax.lax.optimization_barrier(transposed).T


def _sum_of_outer_products(left: Float[Array, "*batch F"], right: Float[Array, "*batch D"]):
    batch_axes = tuple(range(left.ndim - 1))
    return jax.lax.dot_general(left, right, ((batch_axes, batch_axes), ((), ())))


product.defvjp(_forward, _backward)

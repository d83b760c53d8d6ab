"""Centring observations: images of a map are almost equal to each other, and what is alike is learned slowly."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

LARGEST = 10.0
"""No entry is farther than this many deviations from the mean."""


class Centring(NamedTuple):
    """Mean and deviation of observations, entry by entry."""

    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]
    weight: Float[Array, ""]
    """How many batches were seen."""


def centring_of_table(rows: Shaped[Array, "rows *shape"]) -> Centring:
    """For images that are all known: their mean image, and one deviation for all entries."""
    rows = rows.astype(float)
    variance = jnp.mean(jnp.var(rows, axis=0))
    return Centring(rows.mean(axis=0), jnp.full(rows.shape[1:], variance), jnp.ones(()))


def empty_centring(shape: tuple[int, ...]) -> Centring:
    """Nothing seen yet: leaves observations as they are."""
    return Centring(jnp.zeros(shape), jnp.ones(shape), jnp.zeros(()))


def update_centring(centring: Centring, batch: Shaped[Array, "batch *shape"]) -> Centring:
    """Takes in a batch; all batches ever seen count alike."""
    batch = batch.astype(float)
    weight = centring.weight + 1.0
    step = 1.0 / weight
    surprise = batch.mean(axis=0) - centring.mean
    variance = (1.0 - step) * (centring.variance + step * surprise**2) + step * batch.var(axis=0)
    return Centring(centring.mean + step * surprise, variance, weight)


def centre(centring: Centring, observations: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Mean zero and deviation one, as far as is known."""
    lead = (1,) * (observations.ndim - centring.mean.ndim)
    mean = centring.mean.reshape(lead + centring.mean.shape)
    deviation = jnp.sqrt(centring.variance + 1e-8).reshape(lead + centring.mean.shape)
    return jnp.clip((observations.astype(float) - mean) / deviation, -LARGEST, LARGEST)

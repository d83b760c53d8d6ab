"""The similarity k(x, x') of a configuration."""

import functools
from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Array, Float

from gemax.core.similarity import distances, exponential_similarity
from gemax.rewards.config import IntrinsicConfig

PairSimilarity: TypeAlias = Callable[[Float[Array, "N D"], Float[Array, "M D"]], Float[Array, "N M"]]
"""Returns the similarity of all pairs of embeddings or flattened observations, in [0, 1]. Identical ones have 1."""


def pair_similarity(
    config: IntrinsicConfig, custom: PairSimilarity | None = None, *, by_product: bool = False
) -> PairSimilarity:
    """Returns the custom similarity if there is one, else the similarity that the configuration selects.

    `by_product` is that of `exponential_similarity`. Other similarities ignore it.
    """
    if custom is not None:
        return custom
    if config.similarity == "indicator":
        return lambda points, others: (distances(points, others) == 0).astype(float)
    return functools.partial(exponential_similarity, scale=config.similarity_scale, by_product=by_product)

"""Negatives from a memory of past visits. An extension: the paper's negatives are those of the current rollout.

`alg:moretacomax` estimates the density of the visits of one rollout. What the agent did a few updates ago is forgotten,
whereas the oracle of `sec:sweep2timescale` counts over about a hundred updates. Here both expectations of
`eq:taco.kernel.obj`, over x and over x', are taken over a histogram of the visits with the same decay. As in
`negatives_other_envs`, each half of the environments is compared with the other half.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.negatives import Apply, Comparison, Negatives, Outputs
from gemax.rewards.negatives_other_envs import (
    by_step,
    compare_histograms,
    overlap_of_steps,
    visits_by_half,
)
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, gather_flat


class PastVisits(NamedTuple):
    """Visits to each row of the observation table, each with the weight decay^age, for both halves."""

    first: Float[Array, " rows"]
    second: Float[Array, " rows"]


def past_visits(config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None) -> Negatives:
    """Returns negatives from the past visits of the other half of the environments. All are used; none are sampled."""
    similarity, decay = pair_similarity(config, custom_similarity), config.past_visits_decay

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> PastVisits:
        if num_envs < 2:
            raise ValueError(f"num_envs must be at least 2, one half for x and one for x'; got {num_envs}.")
        return PastVisits(jnp.zeros(rows.shape[0]), jnp.zeros(rows.shape[0]))

    def compare(memory: PastVisits, outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        observations = transitions.next_observation
        if observations.row_index is None:
            raise ValueError(
                "past_visits_decay counts visits to a table of all observations, which this environment does not have. "
                "Use a gridworld without noise, or past_visits_decay=0."
            )
        visits = visits_by_half(observations.row_index, outputs.log_g.size)
        memory = PastVisits(*(decay * old + new for old, new in zip(memory, visits, strict=True)))
        steps = Outputs(*(gather_flat(observations, leaf) for leaf in outputs))
        batches = compare_histograms(outputs, *memory, similarity, config)
        return Comparison(batches, memory, overlap=overlap_of_steps(similarity, steps, transitions))

    return Negatives(init, compare, by_step)

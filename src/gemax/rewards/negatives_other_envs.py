"""Negatives from other environments, `alg:moretacomax`.

The environments are split into two halves by index. The negatives of each half are the states of the other half.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.core.expectation import (
    exact_contrast,
    exact_contrasts_among,
    exact_contrasts_between,
    sample_negatives,
    sampled_contrast,
)
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.negatives import Apply, Batch, Comparison, Negatives, Outputs, negative_power
from gemax.rewards.overlap import mean_nearest, mean_step, overlap
from gemax.rewards.similarity import PairSimilarity, pair_similarity
from gemax.types import Transition, gather_flat

EXPONENTIAL = ("learned", "exponential")
"""Similarities `exp(-c ‖f(x) - f(x')‖)`, whose products need no matrix in memory."""


def other_envs(config: IntrinsicConfig, custom_similarity: PairSimilarity | None = None) -> Negatives:
    """Returns negatives from the other half of the environments: `num_negatives` sampled ones, or all of them if 0."""
    similarity = pair_similarity(config, custom_similarity)
    is_exponential = config.similarity in EXPONENTIAL

    def init(apply: Apply, rows: Float[Array, "rows *shape"], num_envs: int) -> tuple[()]:
        if num_envs < 2:
            raise ValueError(f"num_envs must be at least 2, one half for x and one for x'; got {num_envs}.")
        return ()

    def compare(memory: tuple[()], outputs: Outputs, transitions: Transition, key: PRNGKeyArray):
        observations, num_envs = transitions.next_observation, transitions.reward.shape[1]
        steps = Outputs(*(gather_flat(observations, leaf) for leaf in outputs))
        episodes_overlap = overlap_of_steps(similarity, steps, transitions)
        if config.num_negatives:
            batches = compare_sampled(outputs, observations.row_index, num_envs, key)
        # If the table is small, it has fewer pairs of rows than the rollout has pairs of steps.
        elif (
            observations.row_index is not None and 4 * outputs.log_g.size**2 <= observations.row_index.size**2
        ):
            batches = compare_rows(outputs, observations.row_index)
        else:
            batches = compare_steps(steps, num_envs)
        return Comparison(batches, memory, overlap=episodes_overlap)

    def compare_rows(outputs: Outputs, row: Int[Array, "time envs"]) -> tuple[Batch, Batch]:
        """Compares the distinct rows. Each batch holds all rows, weighted by their visits in one half."""
        return compare_histograms(outputs, *visits_by_half(row, outputs.log_g.size), similarity, config)

    def compare_steps(outputs: Outputs, num_envs: int) -> tuple[Batch, Batch]:
        """Compares all pairs of steps of the two halves."""
        first, second = (
            Outputs(*leaves) for leaves in zip(*(halves(leaf, num_envs) for leaf in outputs), strict=True)
        )
        powers = negative_power(first.log_g, config.alpha), negative_power(second.log_g, config.alpha)
        if is_exponential:
            with_second, with_first = exact_contrasts_between(
                first.embedding, second.embedding, powers, similarity_scale=config.similarity_scale
            )
        else:
            matrix = similarity(first.embedding, second.embedding)
            with_second, with_first = exact_contrast(matrix, powers[1]), exact_contrast(matrix.T, powers[0])
        return Batch(first.log_g, with_second), Batch(second.log_g, with_first)

    def compare_sampled(
        outputs: Outputs, row: Int[Array, "time envs"] | None, num_envs: int, key: PRNGKeyArray
    ) -> tuple[Batch, Batch]:
        """Compares each step with n_neg sampled steps of the other half.

        The similarity of all pairs is one matrix product, which is cheaper than gathering the negatives of all steps.
        """
        steps = jnp.arange(outputs.log_g.size) if row is None else row.reshape(-1)
        first, second = halves(steps, num_envs)
        power = negative_power(outputs.log_g, config.alpha)
        if row is None:
            matrix = similarity(outputs.embedding[first], outputs.embedding[second])
            rows, columns = jnp.arange(first.size), jnp.arange(second.size)
        else:
            matrix = similarity(outputs.embedding, outputs.embedding)
            rows, columns = first, second

        def batch(matrix: Array, steps: Array, rows: Array, others: Array, columns: Array, key: PRNGKeyArray):
            index = sample_negatives(key, (steps.shape[0], config.num_negatives), others.shape[0])
            sampled = matrix[rows[:, None], columns[index]]
            return Batch(outputs.log_g[steps], sampled_contrast(sampled, power[others[index]]))

        first_key, second_key = jax.random.split(key)
        return (
            batch(matrix, first, rows, second, columns, first_key),
            batch(matrix.T, second, columns, first, rows, second_key),
        )

    return Negatives(init, compare, by_step)


def overlap_of_steps(similarity: PairSimilarity, steps: Outputs, transitions: Transition) -> Float[Array, ""]:
    """Returns how much the episodes of different environments have in common."""
    return overlap(
        mean_nearest(similarity, steps.embedding, transitions.reward.shape[1]),
        mean_step(similarity, steps.embedding, transitions.is_first),
    )


def visits_by_half(
    row: Int[Array, "time envs"], num_rows: int
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Returns the number of visits to each row, in the first and in the second half of the environments."""
    is_in_first = jnp.broadcast_to(in_first_half(row.shape[1])[None], row.shape)
    first, second = (
        jnp.zeros(num_rows).at[row].add(mask.astype(float)) for mask in (is_in_first, ~is_in_first)
    )
    return first, second


def compare_histograms(
    outputs: Outputs,
    first: Float[Array, " rows"],
    second: Float[Array, " rows"],
    similarity: PairSimilarity,
    config: IntrinsicConfig,
) -> tuple[Batch, Batch]:
    """Compares all rows, weighted by the visits of one half, with those of the other half."""
    power = negative_power(outputs.log_g, config.alpha)
    if config.similarity in EXPONENTIAL:
        with_second, with_first = exact_contrasts_among(
            outputs.embedding, power, (second, first), similarity_scale=config.similarity_scale
        )
    else:
        matrix = similarity(outputs.embedding, outputs.embedding)
        with_second, with_first = (exact_contrast(matrix, power, weight) for weight in (second, first))
    return Batch(outputs.log_g, with_second, first), Batch(outputs.log_g, with_first, second)


def by_step(
    values: list[Float[Array, " N"]], comparison: Comparison, transitions: Transition
) -> Float[Array, "time envs"]:
    """Returns the value of each step, taken from the batch of its environment's half."""
    num_steps, num_envs = transitions.reward.shape
    first, second = values
    if comparison.batches[0].weight is None:
        return jnp.concatenate([first.reshape(num_steps, -1), second.reshape(num_steps, -1)], axis=1)
    row = transitions.next_observation.row_index
    return jnp.where(in_first_half(num_envs)[None], first[row], second[row])


def in_first_half(num_envs: int) -> Bool[Array, " envs"]:
    """Returns which environments are in the first half."""
    return jnp.arange(num_envs) < num_envs // 2


def halves(steps: Shaped[Array, "steps *rest"], num_envs: int) -> tuple[Array, Array]:
    """Splits values in order of time and environment into the first and the second half of the environments."""
    by_env = steps.reshape(-1, num_envs, *steps.shape[1:])
    split = num_envs // 2
    return by_env[:, :split].reshape(-1, *steps.shape[1:]), by_env[:, split:].reshape(-1, *steps.shape[1:])

"""The overlap of episodes, and the weight of the entropy within episodes that follows from it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.networks import torso_and_heads
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_episode import own_episode
from gemax.rewards.negatives_other_envs import other_envs
from gemax.rewards.overlap import mean_nearest, mean_step, overlap
from gemax.rewards.similarity import pair_similarity
from gemax.testing import example_transitions
from gemax.types import Observations

TIME, ENVS, SIZE = 12, 8, 4
# The embedding is the observation, so that its geometry is known.
CONFIG = IntrinsicConfig(
    similarity="exponential", embedding_size=SIZE, intrinsic_scale=1.0, intrinsic_shift=0.0
)
NETWORK = torso_and_heads(8, 8, (SIZE, 1, 1))
SIMILARITY = pair_similarity(CONFIG)


def walks(layout_distance):
    """Returns episodes along a line, one step apart, in layouts that are this far from each other."""
    time, env = np.meshgrid(np.arange(TIME), np.arange(ENVS), indexing="ij")
    # A simplex: all layouts have the same distance.
    layout = np.eye(ENVS)[env] * layout_distance / np.sqrt(2)
    rows = np.concatenate([time[..., None], layout], axis=-1).reshape(TIME * ENVS, -1).astype(np.float32)
    steps = example_transitions(0, jnp.asarray(rows), ENVS, TIME)
    no = jnp.zeros((TIME, ENVS), bool)
    observations = Observations(jnp.asarray(rows), None)
    return steps._replace(
        observation=observations, next_observation=observations, is_first=no, terminated=no, truncated=no
    )


def overlap_of(layout_distance):
    steps = walks(layout_distance)
    rows = steps.next_observation.rows
    return overlap(mean_nearest(SIMILARITY, rows, ENVS), mean_step(SIMILARITY, rows, steps.is_first))


@pytest.mark.parametrize(("layout_distance", "expected"), [(0.0, 1.0), (0.5, 1.0), (2.0, 0.5), (8.0, 0.125)])
def test_overlap_is_the_length_of_a_step_over_the_distance_to_other_episodes(layout_distance, expected):
    np.testing.assert_allclose(overlap_of(layout_distance), expected, rtol=1e-4)


def test_overlap_is_between_0_and_1_for_every_similarity():
    for nearest in (0.0, 1e-9, 0.5, 1.0):
        for step in (0.0, 1e-9, 0.5, 1.0):
            assert 0 <= overlap(jnp.asarray(nearest), jnp.asarray(step)) <= 1
    assert jnp.isnan(mean_step(SIMILARITY, jnp.zeros((3, 2)), jnp.ones((1, 3), bool)))


def build(episodic_weight):
    config = IntrinsicConfig(**{**vars(CONFIG), "episodic_weight": episodic_weight})
    terms = Term(other_envs(config)), Term(own_episode(config, capacity=TIME), "episode_")
    return gem(NETWORK, optax.sgd(0.1), config, terms)


@pytest.mark.parametrize("layout_distance", [0.0, 2.0, 8.0])
def test_auto_weights_the_entropy_within_episodes_by_what_episodes_do_not_share(layout_distance, key):
    steps, method = walks(layout_distance), build("auto")
    state = method.init(key, steps.next_observation.rows, ENVS)
    _, state, metrics = jax.jit(method.step)(state, steps, key)
    np.testing.assert_allclose(metrics["episodic_weight"], 1 - overlap_of(layout_distance), atol=1e-5)
    np.testing.assert_allclose(metrics["overlap"], state.overlap.mean)


def test_the_reward_is_the_standardised_sum_of_both_standardised_rewards(key):
    steps, weight = walks(2.0), 0.3
    method = build(weight)
    state = method.init(key, steps.next_observation.rows, ENVS)

    def standardised(values):
        return (values - values.mean()) / values.std()

    parts = []
    for index in range(2):
        config = IntrinsicConfig(**{**vars(CONFIG), "episodic_weight": float(index)})
        negatives = own_episode(config, capacity=TIME) if index else other_envs(config)
        network = NETWORK._replace(apply=partial(only_one_g, index), apply_heads=None)
        alone = gem(network, optax.sgd(0.1), config, (Term(negatives),))
        first = alone.init(key, steps.next_observation.rows, ENVS)._replace(parameters=state.parameters)
        parts.append(standardised(np.asarray(alone.reward(first, steps, key))))
    expected = standardised((1 - weight) * parts[0] + weight * parts[1])
    found = method.reward(state, steps, key)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def only_one_g(index, parameters, rows):
    """Applies the network without the other g."""
    outputs = NETWORK.apply(parameters, rows)
    return jnp.concatenate([outputs[:, :SIZE], outputs[:, SIZE + index, None]], axis=1)

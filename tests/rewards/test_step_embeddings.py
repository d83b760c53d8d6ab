import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.step_embeddings import embeddings_before, max_starts
from gemax.types import Observations, Transition

TIME, ENVS, SHORTEST = 12, 5, 6
WEIGHT = jax.random.normal(jax.random.key(9), (3, 4))


def embed(weight, rows):
    return jnp.tanh(rows @ weight)


def consecutive_transitions(is_first, seed=0):
    """Returns steps whose observation is the next observation before, except at the start of an episode."""
    generator = np.random.default_rng(seed)
    next_observation, observation = generator.normal(size=(2, *is_first.shape, 3)).astype(np.float32)
    observation[1:] = np.where(is_first[1:, :, None], observation[1:], next_observation[:-1])
    nothing, never = jnp.zeros(is_first.shape), jnp.zeros(is_first.shape, bool)
    action = jnp.zeros(is_first.shape, int)
    return Transition(
        Observations(jnp.asarray(observation.reshape(-1, 3)), None),
        Observations(jnp.asarray(next_observation.reshape(-1, 3)), None),
        action,
        nothing,
        nothing,
        never,
        never,
        jnp.asarray(is_first),
        action,
        action,
    )


def resets_at(*times_of_envs):
    is_first = np.zeros((TIME, len(times_of_envs)), bool)
    for env, times in enumerate(times_of_envs):
        is_first[list(times), env] = True
    return is_first


def before(weight, transitions, min_episode_steps):
    next_observation = embed(weight, transitions.next_observation.rows)
    return embeddings_before(
        lambda rows: embed(weight, rows), next_observation, transitions, min_episode_steps
    )


RESETS = {
    "none": resets_at((), (), (), (), ()),
    "all at the same time": resets_at(*[(4,)] * ENVS),
    "as often as possible": resets_at((1, 7), (0, 6), (5, 11), (3,), ()),
}


@pytest.mark.parametrize("is_first", RESETS.values(), ids=RESETS)
def test_embeddings_of_the_step_before_equal_those_of_the_observations(is_first):
    transitions = consecutive_transitions(is_first)
    target = jax.random.normal(jax.random.key(1), (TIME, ENVS, 4))

    def value(weight, min_episode_steps):
        return jnp.sum(target * before(weight, transitions, min_episode_steps))

    expected = embed(WEIGHT, transitions.observation.rows).reshape(TIME, ENVS, -1)
    for shortest in (SHORTEST, 1):
        np.testing.assert_array_equal(before(WEIGHT, transitions, shortest), expected)
    embedded = jax.grad(
        lambda weight: jnp.sum(target * embed(weight, transitions.observation.rows).reshape(TIME, ENVS, -1))
    )(WEIGHT)
    for shortest in (SHORTEST, 1):
        np.testing.assert_allclose(jax.grad(value)(WEIGHT, shortest), embedded, rtol=1e-5, atol=1e-5)


def test_steps_of_padding_keep_their_own_observation():
    transitions = consecutive_transitions(RESETS["none"])
    # Step 3 of environment 1 repeats step 2.
    by_time = transitions.observation.rows.reshape(TIME, ENVS, -1)
    by_time = by_time.at[3, 1].set(by_time[2, 1])
    padded = transitions._replace(
        observation=Observations(by_time.reshape(TIME * ENVS, -1), None),
        is_valid=jnp.ones((TIME, ENVS), bool).at[3, 1].set(False),
    )
    found = before(WEIGHT, padded, 1)
    np.testing.assert_array_equal(
        found[:4], embed(WEIGHT, padded.observation.rows).reshape(TIME, ENVS, -1)[:4]
    )


def test_only_first_observations_are_embedded():
    sizes = []

    def count(rows):
        sizes.append(rows.shape[0])
        return rows

    transitions = consecutive_transitions(RESETS["none"])
    embeddings_before(count, transitions.next_observation.rows, transitions, SHORTEST)
    assert sizes == [3 * ENVS]
    # If episodes can have any length, an eighth of the steps, or all of them if more are first ones.
    embeddings_before(count, transitions.next_observation.rows, transitions, 1)
    assert set(sizes[1:]) == {-(-TIME * ENVS // 8), TIME * ENVS}


def test_an_episode_that_is_too_short_gives_nan():
    transitions = consecutive_transitions(resets_at((1, 3, 5), (), (), (), ()))
    assert jnp.isnan(before(WEIGHT, transitions, SHORTEST)).all()


@pytest.mark.parametrize("num_steps", [1, 2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("shortest", [1, 2, 6, 30])
def test_max_starts_equals_a_count_of_the_earliest_resets(num_steps, shortest):
    resets = range(1, num_steps, shortest)
    assert max_starts(num_steps, shortest) == 1 + len(resets)

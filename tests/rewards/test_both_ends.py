import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.both_ends import embeddings_before, most_starts
from gemax.types import Observations, Rollout

TIME, WORLDS, SHORTEST = 12, 5, 6
WEIGHT = jax.random.normal(jax.random.key(9), (3, 4))


def embed(weight, rows):
    return jnp.tanh(rows @ weight)


def consecutive_rollout(is_first, seed=0):
    """Steps that start where the one before led to, except where an episode starts."""
    generator = np.random.default_rng(seed)
    arrived, seen = generator.normal(size=(2, *is_first.shape, 3)).astype(np.float32)
    seen[1:] = np.where(is_first[1:, :, None], seen[1:], arrived[:-1])
    nothing, never = jnp.zeros(is_first.shape), jnp.zeros(is_first.shape, bool)
    action = jnp.zeros(is_first.shape, int)
    return Rollout(
        Observations(jnp.asarray(seen.reshape(-1, 3)), None),
        Observations(jnp.asarray(arrived.reshape(-1, 3)), None),
        action,
        nothing,
        nothing,
        never,
        never,
        jnp.asarray(is_first),
        action,
    )


def resets_at(*times_of_worlds):
    is_first = np.zeros((TIME, len(times_of_worlds)), bool)
    for world, times in enumerate(times_of_worlds):
        is_first[list(times), world] = True
    return is_first


def before(weight, rollout, shortest_episode):
    arrived = embed(weight, rollout.arrived.rows)
    return embeddings_before(lambda rows: embed(weight, rows), arrived, rollout, shortest_episode)


RESETS = {
    "none": resets_at((), (), (), (), ()),
    "all at once": resets_at(*[(4,)] * WORLDS),
    "as often as can be": resets_at((1, 7), (0, 6), (5, 11), (3,), ()),
}


@pytest.mark.parametrize("is_first", RESETS.values(), ids=RESETS)
def test_what_is_taken_over_from_the_step_before_equals_what_was_seen(is_first):
    rollout = consecutive_rollout(is_first)
    target = jax.random.normal(jax.random.key(1), (TIME, WORLDS, 4))

    def value(weight, shortest_episode):
        return jnp.sum(target * before(weight, rollout, shortest_episode))

    expected = embed(WEIGHT, rollout.seen.rows).reshape(TIME, WORLDS, -1)
    np.testing.assert_array_equal(before(WEIGHT, rollout, SHORTEST), expected)
    taken_over, embedded = (jax.grad(value)(WEIGHT, shortest) for shortest in (SHORTEST, 1))
    np.testing.assert_allclose(taken_over, embedded, rtol=1e-5, atol=1e-5)


def test_only_starts_are_embedded():
    sizes = []

    def count(rows):
        sizes.append(rows.shape[0])
        return rows

    rollout = consecutive_rollout(RESETS["none"])
    for shortest in (SHORTEST, 1):
        embeddings_before(count, rollout.arrived.rows, rollout, shortest)
    assert sizes == [3 * WORLDS, TIME * WORLDS]


def test_an_episode_that_is_too_short_is_not_overlooked():
    rollout = consecutive_rollout(resets_at((1, 3, 5), (), (), (), ()))
    assert jnp.isnan(before(WEIGHT, rollout, SHORTEST)).all()


@pytest.mark.parametrize("num_steps", [1, 2, 3, 7, 8, 9, 20])
@pytest.mark.parametrize("shortest", [1, 2, 6, 30])
def test_most_starts_are_counted_by_trying(num_steps, shortest):
    resets = range(1, num_steps, shortest)
    assert most_starts(num_steps, shortest) == 1 + len(resets)

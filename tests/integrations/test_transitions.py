"""Rollouts hold the transitions of every environment in order."""

import jax
import numpy as np

from gemax.integrations.intrinsic_learner import host_transitions
from gemax.integrations.transitions import MAX_ROLLOUTS_AHEAD, TransitionQueue


def step_with(value):
    never = np.zeros((1, 2), bool)
    observation = np.full((1, 2, 1), value)
    return host_transitions(
        observation=observation, next_observation=observation, action=np.zeros((1, 2), int),
        reward=np.zeros((1, 2)), terminated=never, truncated=never, is_first=never,
    )  # fmt: skip


def test_row_k_of_a_rollout_holds_the_kth_transition_of_every_environment():
    queue = TransitionQueue(num_envs=2, rollout_length=2)
    for value in range(3):
        queue.push(step_with(value), np.asarray([True, value != 1]))
        rollout = queue.pop()
        assert (rollout is None) == (value < 2)
    np.testing.assert_array_equal(rollout.observation[..., 0], [[0, 0], [1, 2]])
    ((waiting, is_valid),) = queue.pending()
    np.testing.assert_array_equal(is_valid, [True, False])
    assert waiting.observation[0, 0, 0] == 2


def test_the_queue_of_an_environment_that_is_far_ahead_is_bounded():
    queue = TransitionQueue(num_envs=2, rollout_length=2)
    for value in range(100):
        queue.push(step_with(value), np.asarray([True, False]))
        assert len(queue.pending()) <= 2 * MAX_ROLLOUTS_AHEAD
    assert queue.pending()[0][0].is_first[0, 0]


def random_step(rng, num_envs):
    shape = (1, num_envs)
    flags = (rng.random(shape) < 0.3 for _ in range(3))
    observation, next_observation = (rng.normal(size=(*shape, 2)).astype(np.float32) for _ in range(2))
    action = rng.integers(4, size=shape).astype(np.int32)
    reward = rng.normal(size=shape).astype(np.float32)
    names = ("terminated", "truncated", "is_first")
    return host_transitions(
        observation=observation, next_observation=next_observation, action=action, reward=reward,
        **dict(zip(names, flags, strict=True)),
    )  # fmt: skip


def test_rollouts_equal_those_of_a_plain_list_per_environment():
    length, often = 3, np.asarray([1.0, 0.9, 0.3, 0.05])
    rng, queue = np.random.default_rng(0), TransitionQueue(len(often), length)
    plain = [[] for _ in often]
    num_rollouts, num_dropped = 0, 0
    for _ in range(500):
        step, is_valid = random_step(rng, len(often)), rng.random(len(often)) < often
        queue.push(step, is_valid)
        for i in np.flatnonzero(is_valid):
            plain[i].append(jax.tree.map(lambda field, i=i: field[0, i], step))
            if len(plain[i]) > MAX_ROLLOUTS_AHEAD * length:
                plain[i] = plain[i][length:]
                plain[i][0] = plain[i][0]._replace(is_first=np.True_)
                num_dropped += 1
        rollout = queue.pop()
        assert (rollout is None) == (min(map(len, plain)) < length)
        if rollout is not None:
            num_rollouts += 1
            assert rollout.is_valid is None
            for i, past in enumerate(plain):
                for field, *column in zip(*map(jax.tree.leaves, (rollout, *past[:length])), strict=True):
                    assert field.shape[:2] == (length, len(often))
                    assert np.array_equal(field[:, i], column)
            plain = [past[length:] for past in plain]
        waiting = queue.pending()
        assert len(waiting) == max(map(len, plain))
        for k, (row, is_there) in enumerate(waiting):
            np.testing.assert_array_equal(is_there, [len(past) > k for past in plain])
            for i in np.flatnonzero(is_there):
                for field, value in zip(*map(jax.tree.leaves, (row, plain[i][k])), strict=True):
                    assert np.array_equal(field[0, i], value)
    assert num_rollouts > 5
    assert num_dropped > 5

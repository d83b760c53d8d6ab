"""The centred reward has the requested mean, however the inner reward drifts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.base import IntrinsicReward
from gemax.rewards.centred import centred
from gemax.testing import example_transitions

TRANSITIONS = example_transitions(0, jnp.eye(5), 4, 6)


def drifting():
    """Returns a reward that is the index of the environment, plus one for each earlier rollout."""

    def reward(state, transitions, key):
        return state + jnp.broadcast_to(
            jnp.arange(float(transitions.reward.shape[1])), transitions.reward.shape
        )

    def step(state, transitions, key):
        return reward(state, transitions, key), state + 1.0, {}

    return IntrinsicReward(lambda key, rows, num_envs: jnp.zeros(()), reward, step)


def rewards_of(method, num_rollouts):
    key = jax.random.key(0)
    state = method.init(key, jnp.eye(5), 4)
    rewards = []
    for _ in range(num_rollouts):
        reward, state, _ = method.step(state, TRANSITIONS, key)
        rewards.append(np.asarray(reward))
    return rewards


@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_first_rollout_has_the_requested_mean(mean):
    (reward,) = rewards_of(centred(drifting(), mean), 1)
    np.testing.assert_allclose(reward.mean(), mean, atol=1e-6)


def test_differences_between_steps_are_kept():
    for reward in rewards_of(centred(drifting()), 3):
        np.testing.assert_allclose(np.diff(reward, axis=1), 1.0, atol=1e-5)


def test_running_mean_follows_a_drift(monkeypatch):
    monkeypatch.setattr("gemax.rewards.centred.WINDOW", 4 * TRANSITIONS.reward.size)
    # The running mean over the four rollouts before lags by four behind a reward that grows by one per rollout.
    assert rewards_of(centred(drifting()), 40)[-1].mean() == pytest.approx(4.0, abs=0.01)


def test_a_rollout_longer_than_the_window_replaces_the_mean(monkeypatch):
    monkeypatch.setattr("gemax.rewards.centred.WINDOW", 1)
    means = [reward.mean() for reward in rewards_of(centred(drifting()), 4)]
    np.testing.assert_allclose(means, [0, 1, 1, 1], atol=1e-5)

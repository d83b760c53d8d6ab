"""What is paid on average is what was asked for, however the reward underneath drifts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.base import IntrinsicReward
from gemax.rewards.centred import centred
from gemax.testing import example_rollout

ROLLOUT = example_rollout(0, jnp.eye(5), 4, 6)


def drifting():
    """Pays each step the number of its world, and one more with every rollout."""

    def reward(state, rollout, key):
        return state + jnp.broadcast_to(jnp.arange(float(rollout.reward.shape[1])), rollout.reward.shape)

    def step(state, rollout, key):
        return reward(state, rollout, key), state + 1.0, {}

    return IntrinsicReward(lambda key, rows, num_worlds: jnp.zeros(()), reward, step)


def paid_in_turn(reward, num_rollouts):
    key = jax.random.key(0)
    state = reward.init(key, jnp.eye(5), 4)
    paid = []
    for _ in range(num_rollouts):
        earned, state, _ = reward.step(state, ROLLOUT, key)
        paid.append(np.asarray(earned))
    return paid


@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_the_first_rollout_has_the_mean_that_was_asked_for(mean):
    (paid,) = paid_in_turn(centred(drifting(), mean), 1)
    np.testing.assert_allclose(paid.mean(), mean, atol=1e-6)


def test_differences_between_steps_stay():
    for paid in paid_in_turn(centred(drifting()), 3):
        np.testing.assert_allclose(np.diff(paid, axis=1), 1.0, atol=1e-5)


def test_a_drift_is_followed(monkeypatch):
    monkeypatch.setattr("gemax.rewards.centred.WINDOW", 4 * ROLLOUT.reward.size)
    # A running mean over four rollouts that ends before this one lags four behind what goes up by one each time.
    assert paid_in_turn(centred(drifting()), 40)[-1].mean() == pytest.approx(4.0, abs=0.01)


def test_a_rollout_longer_than_the_window_leaves_nothing_of_those_before(monkeypatch):
    monkeypatch.setattr("gemax.rewards.centred.WINDOW", 1)
    means = [paid.mean() for paid in paid_in_turn(centred(drifting()), 4)]
    np.testing.assert_allclose(means, [0, 1, 1, 1], atol=1e-5)

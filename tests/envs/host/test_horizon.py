"""The horizon of environments that do not state it."""

import gymnasium
import pytest
from tests.envs.host.toys import Counting, Endless

from gemax.envs.host.horizon import DEFAULT_HORIZON, find_horizon, measure_horizon


class Truncated(Endless):
    """Truncates episodes after 7 steps, and terminates every second one after 3."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        self.steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        self.steps += 1
        return observation, reward, self.episodes % 2 == 1 and self.steps == 3, self.steps == 7, info


class Broken(Endless):
    def step(self, action):
        raise RuntimeError("broken")


def test_the_length_of_a_truncated_episode_is_measured():
    assert measure_horizon(Truncated()) == 7
    horizon, notes = find_horizon("toy", Truncated(), 0)
    assert horizon == 7
    assert notes == ["Episodes of toy are truncated after 7 steps, as measured."]


@pytest.mark.parametrize("make", [Endless, Broken])
def test_without_a_truncated_episode_a_length_is_assumed_and_said(make):
    horizon, (note,) = find_horizon("toy", make(), 0)
    assert horizon == DEFAULT_HORIZON
    assert "1,000 steps are assumed. Set horizon if that is wrong." in note


def test_a_stated_or_given_length_is_not_measured():
    assert find_horizon("CartPole-v1", gymnasium.make("CartPole-v1"), 0) == (500, [])
    assert find_horizon("toy", Counting(), 40) == (40, [])

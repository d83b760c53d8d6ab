import itertools

import numpy as np
from gymnasium import spaces
from tests.envs.host.toys import SamplesSpace

from gemax.envs.host.recording import Recorder


def test_episodes_are_stacked_per_part_and_texts_stay_lists():
    parts = {
        "image": spaces.Box(0, 255, (2, 2), np.uint8),
        "text": spaces.Text(3),
        "pair": spaces.Tuple((spaces.Discrete(3),)),
    }
    env = Recorder(SamplesSpace(spaces.Dict(parts)), itertools.count(5), 1)
    observations = [env.reset()[0]] + [env.step(1)[0] for _ in range(4)]
    (episode,) = env.take()
    np.testing.assert_array_equal(episode.observations["image"], [one["image"] for one in observations])
    assert episode.observations["text"] == [one["text"] for one in observations]
    np.testing.assert_array_equal(episode.observations["pair"][0], [one["pair"][0] for one in observations])
    assert episode.actions.tolist() == [1] * 4
    assert episode.truncations.tolist() == [False] * 3 + [True]
    assert not episode.terminations.any()
    assert episode.seed == 5


def test_episodes_that_are_left_early_are_truncated_and_further_ones_are_not_recorded():
    env = Recorder(SamplesSpace(spaces.Discrete(3)), itertools.count(5), 2)
    for _ in range(4):
        env.reset()
        env.step(0)
    episodes = env.take()
    assert [episode.seed for episode in episodes] == [5, 6]
    assert [episode.truncations.tolist() for episode in episodes] == [[True], [True]]
    assert env.num_remaining == 0
    assert env.take() == []

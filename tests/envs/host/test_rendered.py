"""Environments are filmed with render mode rgb_array, and those without images are refused."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from PIL import Image
from tests.envs.host.toys import Counting
from tests.runs.untrained import untrained

import gemax
from gemax.envs.host.rendered import accepts_render_mode, open_rendered
from gemax.errors import EnvFault
from gemax.training.assemble import CustomParts


class Shown(Counting):
    """Shows the number of the step as a grey level."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (as in Gymnasium)

    def __init__(self, limit=5, render_mode=None, channels=3):
        super().__init__(limit)
        self.render_mode, self._channels = render_mode, channels

    def render(self):
        return np.full((30, 40, self._channels), 40 * self._step, np.uint8)


def test_an_environment_is_made_with_the_render_mode_if_it_has_one():
    assert accepts_render_mode(Shown)
    assert accepts_render_mode(partial(gymnasium.make, "CartPole-v1"))
    assert not accepts_render_mode(Counting)
    env = open_rendered("shown", Shown, 9.0)
    env.reset(seed=0)
    env.step(0)
    np.testing.assert_array_equal(env.render(), np.full((30, 40, 3), 40))


def test_environments_without_images_are_refused():
    with pytest.raises(
        ValueError, match=r"render_mode 'rgb_array' to be filmed; it has render_mode None\. Give"
    ):
        open_rendered("counting", Counting, 9.0)
    env = open_rendered("grey", partial(Shown, channels=1), 9.0)
    env.reset(seed=0)
    with pytest.raises(EnvFault, match=r"render\(\) must return an image .*; got the shape \(30, 40, 1\)"):
        env.render()


def test_a_run_in_a_gymnasium_environment_is_filmed(tmp_path):
    path = untrained(tmp_path / "run", "gym:custom", CustomParts(make_env=Shown), horizon=5)
    run = gemax.load(path, make_env=Shown)
    film = run.record(tmp_path / "film.gif", episodes=2, max_episode_steps=3)
    with Image.open(film) as frames:
        assert frames.n_frames >= 4
    with pytest.raises(ValueError, match="pass another one as make_env"):
        gemax.load(path, make_env=Counting).record(tmp_path / "other.gif")

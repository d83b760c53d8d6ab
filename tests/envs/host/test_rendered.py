"""Environments are filmed with render mode rgb_array, and those without images are refused."""

import time
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


class RendersBadly(Shown):
    """Hangs or raises in `render`."""

    def __init__(self, how, render_mode=None):
        super().__init__(render_mode=render_mode)
        self._how = how

    def render(self):
        if self._how == "hangs":
            time.sleep(1000)
        raise RuntimeError("no screen")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        pytest.param("hangs", r"did not answer within 0\.3 s", marks=pytest.mark.fault(26)),
        pytest.param("raises", "raised RuntimeError: no screen", marks=pytest.mark.fault(25)),
    ],
)
def test_an_environment_that_hangs_or_raises_in_render_is_named(how, words):
    env = open_rendered("bad", partial(RendersBadly, how), 0.3)
    env.reset(seed=0)
    with pytest.raises(EnvFault, match=f"environment 0, start of episode 1, .*{words}"):
        env.render()


def test_a_run_in_a_gymnasium_environment_is_filmed(tmp_path):
    path = untrained(tmp_path / "run", "gym:custom", CustomParts(make_env=Shown), horizon=5)
    run = gemax.load(path, make_env=Shown)
    film = run.record(tmp_path / "film.gif", episodes=2, max_episode_steps=3)
    with Image.open(film) as frames:
        assert frames.n_frames >= 4
    with pytest.raises(ValueError, match="pass another one as make_env"):
        gemax.load(path, make_env=Counting).record(tmp_path / "other.gif")

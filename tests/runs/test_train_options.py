"""Custom environments, frames, a return to stop at, and progress bars."""

import importlib.util
import sys
import types
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tests.envs.host.toys import Counting
from tests.runs.untrained import TINY, untrained

import gemax
from gemax.cli import main
from gemax.envs.host.make import gym_maker
from gemax.runs.progress import NotebookBar, training_bar
from gemax.training.custom_env import name_of_env
from gemax.training.presets import configure

COUNTING = "gym:tests.envs.host.toys:Counting"
MODULE = """
import gymnasium


class Still(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, True, {}


class Envs:
    still = Still
"""


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "jax_environment.py"
    specification = importlib.util.spec_from_file_location("jax_environment", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# Environments


def test_a_class_that_can_be_imported_is_named_and_others_are_kept():
    assert name_of_env(Counting) == (COUNTING, None)
    for factory in (partial(Counting, 3), lambda: Counting()):
        assert name_of_env(factory) == ("gym:custom", factory)


def test_a_run_in_an_environment_that_can_be_imported_needs_nothing_again(tmp_path):
    path = untrained(tmp_path / "run", COUNTING, horizon=5)
    assert gemax.load(path).policy().act(np.zeros(2, np.float32)) in (0, 1)
    assert main(["evaluate", str(path), "--episodes", "4"]) == 0
    assert (path / "evaluation.json").is_file()
    # A function may still replace it.
    assert gemax.load(path, make_env=partial(Counting, 3)).policy().spec.horizon == 5


def test_modules_in_the_current_folder_are_found(tmp_path, monkeypatch):
    (tmp_path / "still_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("Still", "Envs.still"):
        assert isinstance(gym_maker(f"gym:still_module:{name}")(), gymnasium.Env)
    with pytest.raises(ValueError, match=r"the module still_module has no Stil: .* no attribute 'Stil'"):
        gym_maker("gym:still_module:Stil")
    with pytest.raises(ValueError, match=r"needs the module no_module, which is not found: install it, or"):
        gym_maker("gym:no_module:Still")
    monkeypatch.delitem(sys.modules, "still_module")


def test_a_jax_environment_is_trained_evaluated_and_filmed(example, tmp_path):
    settings = {name: value for name, value in TINY.items() if name != "updates"}
    assert example.main(updates=2, out=str(tmp_path / "run"), **settings) is None  # no episode has ended yet
    assert (tmp_path / "run" / "episode.gif").read_bytes().startswith(b"GIF")
    run = gemax.load(tmp_path / "run", make_env=example.corridor)
    assert run.config.env.env_id == "jax:custom"
    assert run.evaluate(4)["sampled"]["coverage"]["mean"] > 0
    assert gemax.load(run.path, make_env=example.corridor).policy().spec.name == "corridor"


def test_an_object_that_is_no_environment_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must make a gymnasium environment; got list"):
        gemax.train(lambda: [], out=tmp_path / "run")


# Length


def test_frames_are_rounded_up_to_whole_calls():
    config = configure("two-rooms", frames=10_000)
    per_call = config.frames_per_update * config.run.updates_per_call
    assert config.run.updates * config.frames_per_update == per_call * -(-10_000 // per_call)
    assert configure("gym:CartPole-v1", frames=1).run.updates == 1


def test_frames_and_updates_exclude_each_other(tmp_path, capsys):
    with pytest.raises(ValueError, match="give either frames or updates; got 10 and 5"):
        configure("two-rooms", frames=10, updates=5)
    with pytest.raises(ValueError, match="frames must be at least 1; got 0"):
        configure("two-rooms", frames=0)
    assert main(["train", "two-rooms", "--frames", "10", "--updates=5", "--out", str(tmp_path / "run")]) == 2
    assert "give either --frames or --updates" in capsys.readouterr().err


def test_a_run_stops_once_it_has_reached_its_return(tmp_path, capsys):
    """Every episode of this environment has at most two steps, so that 100 of them end soon."""
    make = partial(Counting, 2)
    run = gemax.train(
        make, out=tmp_path / "run", **(TINY | {"updates": 100, "stop_at_return": 0.5, "horizon": 2})
    )
    assert run.summary["status"] == "finished"
    assert run.metrics["episodes"][-1] >= 100 > run.metrics["episodes"][-2]
    assert run.summary["updates"] == run.metrics["update"][-1] < 100
    assert "of 100: return" in capsys.readouterr().out


# Progress


def test_a_notebook_shows_one_line_that_changes(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return handle

    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    line = {"update": 10, "frames": 1920, "seconds": 2.0, "recent_return": 0.5, "entropy_share": None}
    with NotebookBar(20) as bar:
        bar.show(line)
    assert shown == ["compiling …", "██████████░░░░░░░░░░ 10 of 20 updates · return 0.50 · 960 frames/s"]
    assert not isinstance(training_bar(20), NotebookBar)  # this is no notebook

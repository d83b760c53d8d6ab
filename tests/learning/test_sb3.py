"""PPO of Stable-Baselines3 learns with the callback, on small maps and in 2-Rooms."""

import importlib.util
import sys
from pathlib import Path

import pytest

SMALL = {"map": "S...\n###.\n....\n.###\n...G\n", "horizon": 16}
"""The goal is thirteen steps away. A random policy reaches it in one of eight million episodes."""
OPEN = {"map": "S....\n.....\n.....\n.....\n....G\n", "horizon": 16}
"""Without walls, PPO finds the goal without an intrinsic reward. The intrinsic reward must not prevent that."""
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sb3.py"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("sb3", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    two_rooms = module.TASKS["two-rooms"]

    def run(method, seed, frames=two_rooms.frames, **map_settings):
        task = two_rooms._replace(frames=frames)
        if map_settings:
            settings = {**task.env_settings, **map_settings}
            task = task._replace(env_id="gemax/Map-v0", env_settings=settings)
        return module.run(method, seed, task)

    yield run
    sys.path[:] = before


@pytest.mark.slow
def test_ppo_solves_a_small_map_with_the_callback(run):
    assert run("gem", 0, 100_000, **SMALL)["solved_at_frame"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ppo_solves_a_small_map_only_with_the_callback(run, seed):
    assert run("none", seed, 100_000, **SMALL)["first_goal_at_frame"] is None
    assert run("gem", seed, 100_000, **SMALL)["solved_at_frame"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gem", "none"])
def test_ppo_solves_an_easy_map_with_and_without_the_callback(run, method):
    assert run(method, 0, 60_000, **OPEN)["solved_at_frame"] is not None


@pytest.mark.slow
def test_ppo_with_the_callback_solves_two_rooms(run):
    assert run("gem", 0)["solved_at_frame"] is not None

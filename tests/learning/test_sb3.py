"""PPO of Stable-Baselines3 learns with the callback: one run of `make bench-sb3`."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sb3_two_rooms.py"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("sb3_two_rooms", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    yield module.run
    sys.path[:] = before


@pytest.mark.slow
def test_ppo_with_the_callback_solves_two_rooms(run):
    assert run("gem", 0)["solved_at_frame"] is not None

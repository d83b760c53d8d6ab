"""The example of a custom environment runs, and finds the reward."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole_runs

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_environment.py"
TINY = {
    "num_envs": 8, "unroll_length": 4, "unroll_period": 4, "torso_size": 6, "lstm_size": 5, "head_size": 5,
    "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
}  # fmt: skip


@pytest.fixture
def example():
    specification = importlib.util.spec_from_file_location("custom_environment", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_example_runs(example, tmp_path):
    assert example.main(updates=2, out=str(tmp_path / "run"), **TINY) in (0.0, 1.0)
    assert (tmp_path / "run" / "summary.json").is_file()


@pytest.mark.slow
def test_the_example_finds_the_reward(example, tmp_path):
    assert example.main(out=str(tmp_path / "run")) == 1.0

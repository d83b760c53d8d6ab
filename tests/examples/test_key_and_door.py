"""The example of two custom environments with sparse rewards runs."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole_runs

EXAMPLE = Path(__file__).parents[2] / "examples" / "key_and_door.py"
TINY = {
    "num_envs": 8, "unroll_length": 4, "unroll_period": 4, "torso_size": 6, "lstm_size": 5, "head_size": 5,
    "embedding_size": 3, "time_buckets": 3, "method": "none",
}  # fmt: skip


@pytest.mark.parametrize("name", ["key-and-door", "point-mass"])
def test_the_example_runs(name, tmp_path):
    specification = importlib.util.spec_from_file_location("key_and_door", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.main(name, updates=2, episodes=2, out=str(tmp_path / "run"), **TINY) == 0.0

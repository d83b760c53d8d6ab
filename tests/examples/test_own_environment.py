"""The example of the documentation, for a few updates."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_environment.py"


def test_the_example_runs(tmp_path, monkeypatch):
    specification = importlib.util.spec_from_file_location("own_environment", EXAMPLE)
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    monkeypatch.setattr("gemax.training.presets.ENVIRONMENT", TINY)
    assert example.main(updates=2, out=str(tmp_path / "run")) in (0.0, 1.0)
    assert (tmp_path / "run" / "summary.json").is_file()


TINY = {
    "num_worlds": 8, "trace_length": 4, "trace_period": 4, "torso_size": 6, "lstm_size": 5, "head_size": 5,
    "embedding_size": 3, "time_buckets": 3,
}  # fmt: skip


@pytest.mark.slow
def test_the_example_finds_the_reward(tmp_path):
    specification = importlib.util.spec_from_file_location("own_environment", EXAMPLE)
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    assert example.main(out=str(tmp_path / "run")) == 1.0

"""The example of pre-training and fine-tuning runs, and solves its task."""

import importlib.util
from pathlib import Path

import minari
import pytest

pytestmark = pytest.mark.whole_runs

EXAMPLE = Path(__file__).parents[2] / "examples" / "pretrain_then_finetune.py"
TINY = {
    "num_envs": 8, "unroll_length": 15, "unroll_period": 15, "torso_size": 6, "lstm_size": 5, "head_size": 5,
    "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
}  # fmt: skip


@pytest.fixture
def example(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    specification = importlib.util.spec_from_file_location("pretrain_then_finetune", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_example_runs(example, tmp_path):
    example.main(updates=2, finetune_updates=4, out=str(tmp_path), **TINY)
    assert (tmp_path / "expert" / "summary.json").is_file()
    assert minari.load_dataset("gemax/explorer-v0").total_episodes == 100


@pytest.mark.slow
def test_the_example_solves_the_task(example, tmp_path):
    assert example.main(out=str(tmp_path)) > 0.9

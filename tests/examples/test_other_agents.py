"""The examples for agents of other libraries run at a tiny size."""

import importlib.util
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
torch.set_num_threads(1)


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ppo_of_stable_baselines3_runs_and_saves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    load("sb3_ppo").main(["--frames", "480", "--num-envs", "16", "--method", "rnd"])
    assert {path.name for path in tmp_path.iterdir()} == {"explorer.zip", "explorer.intrinsic"}
    assert "episodes: 0.00" in capsys.readouterr().out


def test_the_custom_loop_runs(capsys):
    success_rate = load("loop").main(["--rollouts", "2", "--method", "rnd"])
    assert 0 <= success_rate <= 1


@pytest.mark.slow
def test_the_loop_finds_the_reward_with_the_wrapper():
    assert load("loop").main(["--rollouts", "100"]) > 0.1

"""Custom parts, passed from Python, work with every verb."""

import re
import shutil
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runs.children import checkpoints, metrics_but_seconds

import gemax
from gemax.cli import main
from gemax.envs.registry import make_env
from gemax.rewards.base import IntrinsicReward, no_reward
from gemax.runs.checkpoint_format import ARRAYS
from gemax.runs.run_directory import RunDirectory
from gemax.testing import check_reward
from gemax.training.assemble import CustomParts, assemble
from gemax.training.presets import configure

pytestmark = pytest.mark.whole_runs

SMALL = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4, "episodic_weight": 0.0,
}  # fmt: skip


def counts(spec, config):
    """Rewards cells with few visits. The noise makes it depend on keys."""

    def init(key, rows, num_envs):
        return {"visits": jnp.zeros(spec.num_cells), "key": key}

    def reward(state, transitions, key):
        noise = 1.0 + 0.1 * jax.random.uniform(key, transitions.cell.shape)
        return config.intrinsic.intrinsic_scale * noise / jnp.sqrt(1.0 + state["visits"][transitions.cell])

    def step(state, transitions, key):
        visits = state["visits"].at[transitions.cell].add(1.0)
        return reward(state, transitions, key), state | {"visits": visits}, {"visits": jnp.sum(visits)}

    return IntrinsicReward(init, reward, step)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gemax.train("two-rooms", reward=counts, out=tmp_path_factory.mktemp("runs") / "custom", **SMALL)


def test_a_custom_reward_trains_and_its_metrics_are_written(run):
    assert run.summary["status"] == "finished"
    assert [line["visits"] for line in metrics_but_seconds(run.path)] == [96.0, 192.0]


def test_a_run_with_a_custom_reward_is_resumed_bit_exactly(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "resumed"))
    gemax.resume(path, updates=8, reward=counts)
    whole = gemax.train("two-rooms", reward=counts, out=tmp_path / "whole", **{**SMALL, "updates": 8})
    ours, theirs = ((checkpoints(p)[-1] / ARRAYS).read_bytes() for p in (path, whole.path))
    assert ours == theirs
    assert metrics_but_seconds(path) == metrics_but_seconds(whole.path)


def test_a_run_with_a_custom_reward_is_evaluated_and_loaded(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    report = gemax.evaluate(path, episodes=4, reward=counts)
    assert (report["episodes"], report["update"]) == (4, 4)
    policy = gemax.load(path, reward=counts).policy()
    assert 0 <= policy.act(np.zeros(policy.spec.observation.shape)) < policy.spec.num_actions


def test_an_intrinsic_reward_is_used_as_it_is():
    nothing = no_reward()
    assert (
        assemble(configure("two-rooms", method="custom"), custom=CustomParts(reward=nothing)).reward
        is nothing
    )


def test_seeds_are_trained_together_with_a_custom_reward(tmp_path):
    run = gemax.train("two-rooms", reward=counts, seeds=2, out=tmp_path / "run", **SMALL)
    assert run.summary["status"] == "finished"
    assert run.seeds[1].policy().spec.name == "two-rooms"


def test_the_example_of_counts_keeps_the_contract():
    config = configure("two-rooms")
    spec = make_env("two-rooms").spec
    check_reward(counts(spec, config), jnp.eye(6), 4, num_states=spec.num_cells)


def test_the_example_in_the_documentation_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "methods" / "custom.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gemax, "train", partial(gemax.train, **SMALL))
    exec(example.replace("evaluate()", "evaluate(episodes=4)"), {})
    assert (tmp_path / "runs" / "two-rooms-custom-0" / "evaluation.json").is_file()


VERBS = (gemax.resume, gemax.evaluate, lambda path, **custom: gemax.load(path, **custom).policy())


def test_a_run_with_a_custom_reward_is_not_read_without_it(run):
    for verb in VERBS:
        with pytest.raises(ValueError, match="method custom needs a Python object, which is missing"):
            verb(run.path)


def test_a_run_with_another_method_refuses_a_custom_reward(run, tmp_path):
    other = RunDirectory(Path(shutil.copytree(run.path, tmp_path / "run")))
    config = other.read_config()
    config["intrinsic"]["method"] = "rnd"
    other.write_config(config)
    for verb in VERBS:
        with pytest.raises(ValueError, match="was given for a run with another one"):
            verb(other.path, reward=counts)


def test_a_method_and_a_custom_reward_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match=r"reward replaces the method, .* got method 'rnd'"):
        gemax.train("two-rooms", method="rnd", reward=counts, out=tmp_path / "run")
    with pytest.raises(ValueError, match="method custom needs a Python object, which is missing"):
        gemax.train("two-rooms", method="custom", out=tmp_path / "run")


def test_the_command_line_says_that_custom_parts_come_from_python(run, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["train", "two-rooms", "--similarity", "custom"],
        ["resume", run.path],
        ["evaluate", run.path],
    ):
        assert main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr().err
        assert "Pass it from Python, gemax.train(..., " in said
        assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []

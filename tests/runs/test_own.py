"""What a user brings along from Python goes through every verb."""

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
from gemax.rewards.base import IntrinsicReward, no_reward
from gemax.runs.checkpoints import ARRAYS
from gemax.runs.directory import RunDirectory
from gemax.testing import check_reward
from gemax.training.assemble import Own, assemble
from gemax.training.presets import configure
from gemax.worlds.registry import make_world

SMALL = {
    "num_worlds": 8, "trace_length": 6, "trace_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4,
}  # fmt: skip


def counts(world, config):
    """Pays less for every visit to a square; the noise makes it depend on keys."""

    def init(key, rows, num_worlds):
        return {"visits": jnp.zeros(world.places.number), "key": key}

    def reward(state, rollout, key):
        noise = 1.0 + 0.1 * jax.random.uniform(key, rollout.square.shape)
        return config.intrinsic_scale * noise / jnp.sqrt(1.0 + state["visits"][rollout.square])

    def step(state, rollout, key):
        visits = state["visits"].at[rollout.square].add(1.0)
        return reward(state, rollout, key), state | {"visits": visits}, {"visits": jnp.sum(visits)}

    return IntrinsicReward(init, reward, step)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gemax.train("two-rooms", reward=counts, out=tmp_path_factory.mktemp("runs") / "own", **SMALL)


def test_a_reward_of_ones_own_is_trained_with_and_its_metrics_are_written(run):
    assert run.summary["status"] == "finished"
    assert [line["visits"] for line in metrics_but_seconds(run.path)] == [96.0, 192.0]


def test_a_run_with_a_reward_of_ones_own_is_resumed_bit_for_bit(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "resumed"))
    gemax.resume(path, updates=8, reward=counts)
    whole = gemax.train("two-rooms", reward=counts, out=tmp_path / "whole", **{**SMALL, "updates": 8})
    ours, theirs = ((checkpoints(p)[-1] / ARRAYS).read_bytes() for p in (path, whole.path))
    assert ours == theirs
    assert metrics_but_seconds(path) == metrics_but_seconds(whole.path)


def test_a_run_with_a_reward_of_ones_own_is_evaluated_and_loaded(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    report = gemax.evaluate(path, episodes=4, reward=counts)
    assert (report["episodes"], report["update"]) == (4, 4)
    policy = gemax.load(path, reward=counts)
    assert 0 <= policy.act(np.zeros(policy.world.observation.shape)) < policy.world.num_actions


def test_a_reward_that_needs_no_world_is_passed_as_it_is():
    nothing = no_reward()
    assert assemble(configure("two-rooms", method="own"), own=Own(reward=nothing)).reward is nothing


def test_seeds_are_trained_together_with_a_reward_of_ones_own(tmp_path):
    run = gemax.train("two-rooms", reward=counts, seeds=2, out=tmp_path / "run", **SMALL)
    assert run.summary["status"] == "finished"
    gemax.load(run.path / "seed-1", reward=counts)


def test_the_example_of_counts_keeps_the_contract():
    config = configure("two-rooms")
    world = make_world("two-rooms")
    check_reward(counts(world, config), jnp.eye(6), 4, num_squares=world.places.number)


def test_the_example_in_the_documentation_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "methods" / "own.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gemax, "train", partial(gemax.train, **SMALL))
    monkeypatch.setattr(gemax, "evaluate", partial(gemax.evaluate, episodes=4))
    exec(example, {})
    assert (tmp_path / "runs" / "two-rooms-own-0" / "evaluation.json").is_file()


VERBS = (gemax.resume, gemax.evaluate, gemax.load)


def test_a_run_with_a_reward_of_ones_own_is_not_read_without_it(run):
    for verb in VERBS:
        with pytest.raises(
            ValueError, match=r"method own goes with an intrinsic reward, .* got 'own' and None"
        ):
            verb(run.path)


def test_a_run_with_another_method_takes_no_reward(run, tmp_path):
    other = RunDirectory(Path(shutil.copytree(run.path, tmp_path / "run")))
    other.write_config(other.read_config() | {"method": "rnd"})
    for verb in VERBS:
        with pytest.raises(ValueError, match=r"method own goes with an intrinsic reward, .* got 'rnd' and"):
            verb(other.path, reward=counts)


def test_a_method_and_a_reward_are_not_given_together(tmp_path):
    with pytest.raises(ValueError, match=r"reward takes the place of a method: .* got method 'rnd'"):
        gemax.train("two-rooms", method="rnd", reward=counts, out=tmp_path / "run")
    with pytest.raises(ValueError, match="which only Python can pass"):
        gemax.train("two-rooms", method="own", out=tmp_path / "run")


def test_the_command_line_says_that_only_python_can_pass_a_reward(run, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["train", "two-rooms", "--method", "own"],
        ["resume", run.path],
        ["evaluate", run.path],
    ):
        assert main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr().err
        assert "which only Python can pass: gemax.train(..., reward=module)" in said
        assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []

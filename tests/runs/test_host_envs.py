import json
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tests.envs.host.toys import Counting, Faulty, SamplesSpace

import gemax
from gemax.cli import main
from gemax.errors import EnvFault
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory

TINY = {
    "method": "rnd", "num_envs": 4, "unroll_length": 4, "unroll_period": 4, "updates": 3, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
}  # fmt: skip
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
ID = "gym:tests.envs.host.toys:gemax-test/Counting-v0"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", ID, *FLAGS, "--out", str(path)]) == 0
    return RunDirectory(path)


def test_a_run_in_a_gymnasium_environment_has_all_files_of_a_run(run):
    summary = run.read_summary()
    assert (summary["status"], summary["updates"], summary["frames"]) == ("finished", 3, 48)
    assert summary["visitation_entropy"] is summary["entropy_ceiling"] is None
    assert run.read_config()["env"]["env_id"] == ID
    lines = read_metrics(run.metrics)
    assert [line["update"] for line in lines] == [1, 2, 3]
    assert lines[-1]["episodes"] > 0
    assert (run.path / "learning_curve.png").is_file()


def test_evaluation_runs_whole_episodes(run):
    report = gemax.evaluate(run.path, episodes=10)
    assert "coverage" not in report["sampled"]
    assert 1.0 <= report["sampled"]["length"]["mean"] <= 5.0
    assert report["sampled"]["return"]["mean"] >= report["sampled"]["length"]["mean"]
    assert gemax.evaluate(run.path, episodes=10) == report


def test_evaluation_truncates_episodes_that_do_not_end_and_reports_it(run, capsys):
    assert main(["evaluate", str(run.path), "--episodes", "10", "--max-episode-steps", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    report = json.loads((run.path / "evaluation.json").read_text())
    assert report["max_episode_steps"] == 2
    for kind in ("sampled", "greedy"):
        assert report[kind]["length"]["mean"] <= 2
        truncated = report[kind]["truncated"]
        assert 0 < truncated < 10  # some have a length of one or two
        assert f"{truncated} of 10 {kind} episodes did not end within 2 steps and were truncated." in said


def test_a_limit_below_one_step_is_refused(run):
    with pytest.raises(ValueError, match="max_episode_steps must be at least 1; got 0"):
        gemax.evaluate(run.path, max_episode_steps=0)


def test_a_loaded_policy_acts_in_the_environment(run):
    policy, env = gemax.load(run.path).policy(), Counting()
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        action = policy.act(observation)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)


def test_a_resumed_run_continues(run, tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    for file in run.path.rglob("*"):
        if file.is_file():
            (path / file.relative_to(run.path)).parent.mkdir(parents=True, exist_ok=True)
            (path / file.relative_to(run.path)).write_bytes(file.read_bytes())
    before = read_metrics(path / "metrics.jsonl")[-1]
    assert main(["resume", str(path), "--updates", "5"]) == 0
    lines = read_metrics(path / "metrics.jsonl")
    assert [line["update"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[3]["episodes"] >= before["episodes"]


@pytest.mark.fault(25)
def test_a_fault_ends_the_run_after_saving_it(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(EnvFault, match=r"robot fell over.*update 1 is saved.*gemax resume"):
        gemax.train(partial(Faulty, "raises", at=11), out=path, **TINY)
    run = RunDirectory(path)
    assert [folder.name for folder in sorted(run.checkpoints.glob("update-*"))][-1] == "update-00000001"
    assert run.read_summary()["status"] == "stopped"
    with pytest.raises(ValueError, match="needs a Python object, which is missing"):
        gemax.resume(path)
    assert gemax.resume(path, make_env=Counting).summary["status"] == "finished"


@pytest.mark.fault(25)
def test_the_command_line_has_an_exit_code_for_faults(tmp_path, capsys, monkeypatch):
    gymnasium.register("gemax-test/Faulty-v0", entry_point=partial(Faulty, "nan", at=2))
    assert main(["train", "gym:gemax-test/Faulty-v0", *FLAGS, "--out", str(tmp_path / "run")]) == 3
    assert "environment 0, step" in capsys.readouterr().err
    assert main(["train", "gym:gemax-test/Faulti-v0", *FLAGS]) == 2
    assert "gym:gemax-test/Faulty-v0" in capsys.readouterr().err
    gymnasium.registry.pop("gemax-test/Faulty-v0")


def test_continuous_actions_are_trained_and_loaded(tmp_path):
    make = partial(SamplesSpace, spaces.Dict({"a": spaces.Box(-1, 1, (2,))}), spaces.Box(-2.0, 3.0, (2,)))
    run = gemax.train(make, out=tmp_path / "run", **(TINY | {"updates": 1}))
    action = run.policy().act({"a": np.zeros(2, np.float32)})
    assert make().action_space.contains(action)
    assert json.loads((run.path / "config.json").read_text())["env"]["env_id"] == "gym:custom"

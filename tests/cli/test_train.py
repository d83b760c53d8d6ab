import json

import pytest

import gemax
from gemax.cli import main

TINY = [
    "--updates", "4", "--updates-per-call", "2", "--num-envs", "8", "--unroll-length", "10", "--unroll-period", "10",
    "--lstm-size", "8", "--torso-size", "16", "--head-size", "8", "--embedding-size", "4", "--episodic-weight", "0",
]  # fmt: skip


def test_a_custom_map_is_trained_on_resumed_and_evaluated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-maze.txt").write_text("S..\n.#.\n..G\n")
    assert main(["train", "--map", "my-maze.txt", "--horizon", "12", *TINY]) == 0
    run = tmp_path / "runs" / "my-maze-gem-0"
    assert "return" in capsys.readouterr().out
    config, summary = (json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))
    env = config["env"]
    assert (env["env_id"], env["horizon"], env["map_text"]) == ("my-maze", 12, "S..\n.#.\n..G\n")
    assert (summary["status"], summary["updates"], summary["frames"]) == ("finished", 4, 320)
    for name in ("learning_curve.png", "heatmap.png", "embedding.png"):
        assert (run / name).read_bytes().startswith(b"\x89PNG")
    # The run has its own copy of the map.
    (tmp_path / "my-maze.txt").unlink()
    assert main(["resume", str(run)]) == 0
    assert "Already at 4 of 4 updates" in capsys.readouterr().out
    assert main(["resume", str(run), "--updates", "3"]) == 2
    assert "updates must be more than the 4 that" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--episodes", "20"]) == 0
    report = json.loads((run / "evaluation.json").read_text())
    assert 0 < report["sampled"]["entropy_share"]["mean"] <= 1
    assert report["greedy"]["length"]["mean"] <= report["max_episode_steps"] == 12
    assert main(["evaluate", str(run), "--max-episode-steps", "5"]) == 2
    assert "max_episode_steps is for gym: environments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two-room"], "Did you mean two-rooms?"),
        (["two-rooms", "--num-envs", "4"], "num_envs must be at least 8 for gem"),
        (["two-rooms", "--unroll-period", "99"], "unroll_period must be at most unroll_length (30); got 99"),
        (["two-rooms", "--seeds", "0"], "seeds must be at least 1; got 0"),
        (["--map", "nowhere.txt"], "there is no map file nowhere.txt"),
    ],
)
def test_wrong_arguments_are_refused_before_a_folder_is_created(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_trainer(monkeypatch):
    """Fails the test if a trainer is built."""

    def refuse(*_, **__):
        pytest.fail("a trainer was built")

    monkeypatch.setattr("gemax.runs.session.assemble", refuse)


def test_a_folder_that_holds_a_run_is_refused_before_anything_is_built(tmp_path, capsys, no_trainer):
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "config.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", "gym:CartPole-v1", "--out", str(tmp_path / "seed-1")]) == 2
    assert (
        f"{tmp_path / 'seed-1'} already holds a run. Resume it, or choose another" in capsys.readouterr().err
    )
    assert main(["train", "two-rooms", "--seeds", "3", "--out", str(tmp_path)]) == 2
    assert "seed-1 already holds a run" in capsys.readouterr().err
    with pytest.raises(ValueError, match="already holds a run"):
        gemax.train("two-rooms", out=tmp_path / "seed-1")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_path_that_is_not_a_folder_is_refused_before_anything_is_built(tmp_path, capsys, no_trainer):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for out in (blocked, blocked / "run"):
        assert main(["train", "two-rooms", "--out", str(out)]) == 2
        assert f"Cannot write to {out}: {blocked} is not a folder" in capsys.readouterr().err


def test_help_shows_the_preset_of_the_environment(capsys):
    with pytest.raises(SystemExit):
        main(["train", "sixteen-leaves", "--help"])
    out = capsys.readouterr().out
    assert "128" in out
    assert "--reward-free" in out

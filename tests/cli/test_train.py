import json

import pytest

import gemax
from gemax.cli import main

TINY = [
    "--updates", "4", "--updates-per-call", "2", "--num-worlds", "8", "--trace-length", "10", "--trace-period", "10",
    "--lstm-size", "8", "--torso-size", "16", "--head-size", "8", "--embedding-size", "4",
]  # fmt: skip


def test_a_map_of_ones_own_is_trained_on_resumed_and_evaluated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-maze.txt").write_text("S..\n.#.\n..G\n")
    assert main(["train", "--map", "my-maze.txt", "--horizon", "12", *TINY]) == 0
    run = tmp_path / "runs" / "my-maze-gem-0"
    assert "return" in capsys.readouterr().out
    config, summary = (json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))
    assert (config["world"], config["horizon"], config["map_text"]) == ("my-maze", 12, "S..\n.#.\n..G\n")
    assert (summary["status"], summary["updates"], summary["frames"]) == ("finished", 4, 320)
    for name in ("learning_curve.png", "heatmap.png", "embedding.png"):
        assert (run / name).read_bytes().startswith(b"\x89PNG")
    # The file may go: the run has its map.
    (tmp_path / "my-maze.txt").unlink()
    assert main(["resume", str(run)]) == 0
    assert "Already at 4 of 4 updates" in capsys.readouterr().out
    assert main(["resume", str(run), "--updates", "3"]) == 2
    assert "updates must be more than the 4 that" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--episodes", "20"]) == 0
    report = json.loads((run / "evaluation.json").read_text())
    assert 0 < report["sampled"]["entropy_share"]["mean"] <= 1
    assert report["greedy"]["length"]["mean"] <= 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two-room"], "Did you mean two-rooms?"),
        (["two-rooms", "--num-worlds", "4"], "num_worlds must be at least 8 for gem"),
        (["two-rooms", "--trace-period", "99"], "trace_period must be at most trace_length (30); got 99"),
        (["two-rooms", "--seeds", "0"], "seeds must be at least 1; got 0"),
        (["--map", "nowhere.txt"], "there is no map file nowhere.txt"),
    ],
)
def test_wrong_arguments_are_refused_before_a_folder_is_made(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def nothing_is_opened(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a world or an environment was opened")

    monkeypatch.setattr("gemax.training.assemble._place_of", refuse)


def test_a_folder_that_holds_a_run_is_refused_before_anything_is_opened(tmp_path, capsys, nothing_is_opened):
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


def test_a_place_that_is_no_folder_is_refused_before_anything_is_opened(tmp_path, capsys, nothing_is_opened):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for out in (blocked, blocked / "run"):
        assert main(["train", "two-rooms", "--out", str(out)]) == 2
        assert f"Cannot write to {out}: {blocked} is not a folder" in capsys.readouterr().err


def test_help_shows_the_preset_of_the_world(capsys):
    with pytest.raises(SystemExit):
        main(["train", "sixteen-leaves", "--help"])
    out = capsys.readouterr().out
    assert "128" in out
    assert "--reward-free" in out

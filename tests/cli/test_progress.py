import pytest

from gemax.cli.progress import Progress, in_words, tell_outcome
from gemax.runs.session import Run

LINE = {"update": 10, "frames": 1920, "seconds": 2.0, "return": None, "entropy_share": 0.5}
SUMMARY = {
    "status": "finished",
    "updates": 10,
    "frames": 1920,
    "seconds": 2.0,
    "return": None,
    "solved_at_update": None,
    "visitation_entropy": 2.0,
    "entropy_ceiling": 4.0,
}


def test_a_line_says_what_is_known_and_leaves_out_what_is_not():
    assert in_words(LINE) == "return – · entropy 50.0% of the ceiling · 960 frames/s"
    group = {**LINE, "return": 0.25, "entropy_share": None, "seeds": 5, "seeds_solved": 2}
    assert in_words(group) == "return 0.25 · 2 of 5 seeds solved · 4,800 frames/s"


def test_what_is_told_stands_above_the_bar_which_stays_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich then takes anything for a terminal
    with Progress(20, tmp_path) as bar:
        bar.show(LINE)
        bar.tell("Warning at update 10: [all] is lost")
        bar.show({**LINE, "update": 20})
    lines = capsys.readouterr().out.replace("\x1b[2K", "\n").splitlines()
    assert "Warning at update 10: [all] is lost" in lines
    assert all(words in lines[-2] for words in ("20/20", "return –"))


@pytest.mark.parametrize(("stopped_by", "exit_code"), [(None, 0), (2, 130), (15, 143)])
def test_how_a_run_ended_is_told_and_is_the_exit_code(tmp_path, capsys, stopped_by, exit_code):
    path = tmp_path / "a [long] name :smile:"
    assert tell_outcome(Run(path, SUMMARY, stopped_by)) == exit_code
    said = capsys.readouterr().out
    assert "return – over the last 1,000 episodes\n" in said
    assert "entropy 2.000 of at most 4.000 nats (50.0%)" in said
    assert f"pictures: {path}/\n" in said
    assert (f"go on with `gemax resume {path}`" in said) == (stopped_by is not None)


@pytest.mark.parametrize(("stopped_by", "exit_code"), [(None, 5), (2, 130)])
def test_a_frozen_seed_is_named_and_is_an_exit_code(tmp_path, capsys, stopped_by, exit_code):
    frozen = [{"seed": 3, "update": 1210, "not_finite": ["gem_loss"]}]
    summary = {**SUMMARY, "return": 0.5, "solved": {"seeds": 2, "of": 5}, "seeds": [], "frozen": frozen}
    assert tell_outcome(Run(tmp_path, summary, stopped_by)) == exit_code
    said = capsys.readouterr().out
    assert "mean return 0.500 over the last 1,000 episodes, solved by 2 of 5 seeds" in said
    assert "seed 3 was frozen at update 1,210; not finite: gem_loss" in said

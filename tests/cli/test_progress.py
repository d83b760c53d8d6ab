import pytest

from gemax.cli.progress import report_outcome
from gemax.runs.progress import TrainingBar, format_metrics
from gemax.runs.session import Outcome

LINE = {
    "update": 10,
    "frames": 1920,
    "seconds": 2.0,
    "return": None,
    "recent_return": None,
    "entropy_share": 0.5,
}
SUMMARY = {
    "status": "finished",
    "updates": 10,
    "frames": 1920,
    "seconds": 2.0,
    "return": None,
    "first_crossing_update": None,
    "recent_return": None,
    "solved_at_update": None,
    "visitation_entropy": 2.0,
    "entropy_ceiling": 4.0,
}


def test_unknown_metrics_are_left_out():
    assert format_metrics(LINE) == "return – · entropy 50.0% of the maximum · 960 frames/s"
    group = {
        **LINE,
        "return": 0.5,
        "recent_return": 0.25,
        "entropy_share": None,
        "seeds": 5,
        "seeds_solved": 2,
    }
    assert format_metrics(group) == "return 0.25 · 2 of 5 seeds solved · 4,800 frames/s"


def test_messages_are_printed_above_the_bar(monkeypatch, capsys):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # makes rich assume a terminal
    with TrainingBar(20) as bar:
        bar.show(LINE)
        bar.log("Warning at update 10: [all] is lost")
        bar.show({**LINE, "update": 20})
    lines = capsys.readouterr().out.replace("\x1b[2K", "\n").splitlines()
    assert "Warning at update 10: [all] is lost" in lines
    assert all(text in lines[-2] for text in ("20/20", "return –"))


@pytest.mark.parametrize(("stop_signal", "exit_code"), [(None, 0), (2, 130), (15, 143)])
def test_the_outcome_is_printed_and_gives_the_exit_code(tmp_path, capsys, stop_signal, exit_code):
    path = tmp_path / "a [long] name :smile:"
    assert report_outcome(Outcome(path, SUMMARY, stop_signal)) == exit_code
    printed = capsys.readouterr().out
    assert "return – over the last 100 episodes, – over the last 1,000\n" in printed
    assert "best" not in printed
    assert "entropy 2.000 of at most 4.000 nats (50.0%)" in printed
    assert f"plots: {path}/\n" in printed
    assert (f"Continue with `gemax resume {path}`" in printed) == (stop_signal is not None)


@pytest.mark.parametrize(
    ("solved_at", "text"), [(90, "solved at update 90"), (None, "solved at update 70 and lost again")]
)
def test_the_outcome_says_whether_the_environment_stayed_solved(tmp_path, capsys, solved_at, text):
    summary = {**SUMMARY, "return": 0.5, "first_crossing_update": 70, "solved_at_update": solved_at}
    report_outcome(Outcome(tmp_path, summary, None))
    assert f"over the last 1,000, {text}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("stop_signal", "exit_code"), [(None, 5), (2, 130)])
def test_a_frozen_seed_is_printed_and_gives_an_exit_code(tmp_path, capsys, stop_signal, exit_code):
    frozen = [{"seed": 3, "update": 1210, "not_finite": ["gem_loss"]}]
    returns = {"return": 0.5, "recent_return": 0.7}
    summary = {**SUMMARY, **returns, "solved": {"seeds": 2, "of": 5}, "seeds": [], "frozen": frozen}
    assert report_outcome(Outcome(tmp_path, summary, stop_signal)) == exit_code
    printed = capsys.readouterr().out
    returns = "mean return 0.700 over the last 100 episodes, 0.500 over the last 1,000"
    assert f"{returns}, solved by 2 of 5 seeds" in printed
    assert "seed 3 stopped learning at update 1,210, because these were not finite: gem_loss" in printed


def test_the_best_return_is_printed_with_the_flag_that_uses_it(tmp_path, capsys):
    report_outcome(Outcome(tmp_path, {**SUMMARY, "best_update": 1400, "best_return": 0.91}, None))
    assert (
        "best return 0.910 at update 1,400: use that policy with `--checkpoint best`"
        in capsys.readouterr().out
    )

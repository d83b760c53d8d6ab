"""From a name to figures, verdicts and a report."""

import csv
import json
import time

import pytest
from tests.experiments.made_up import made_up

from gemax.cli import main
from gemax.cli.reproduce import tell_outcome, time_left
from gemax.experiments.experiment import configs_of
from gemax.experiments.registry import MODULES, experiment_of
from gemax.experiments.report import write_report
from gemax.experiments.reproduction import Order, Reproduction, reproduce
from gemax.experiments.store import Standing

FEW = ("fig2", "fig10", "beyond-negatives")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Three experiments, in the smallest size."""
    out = tmp_path_factory.mktemp("out")
    told = []
    made = reproduce(Order(FEW, out, smoke=True), lambda standing: None, told.append)
    return out, made, told


def test_every_experiment_asked_for_is_shown(few):
    out, made, told = few
    assert made.failures == {}
    assert made.unfinished == []
    assert [words.split(":")[0] for words in told] == list(FEW)
    for name in FEW:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((out / f"{name}.json").read_text())["command"] == f"gemax reproduce {name} --smoke"


def test_claims_are_listed_with_their_numbers(few):
    out, made, _ = few
    claims = json.loads((out / "claims.json").read_text())
    assert sorted(claim["id"] for claim in claims) == sorted(claim.id for claim in made.claims)
    for claim in claims:
        assert claim["holds"] is (claim["verdict"] == "holds")
        assert {"figure", "claim", "measure", "value", "interval", "bar", "numbers"} <= set(claim)


def test_curves_are_there_number_by_number(few):
    text = (few[0] / "curves" / "beyond-negatives.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 2 * 20
    assert {row["label"] for row in rows} == {"all negatives", "32 sampled negatives"}
    assert (rows[19]["update"], rows[19]["frames"]) == ("20", str(20 * 8 * 6))


def test_the_report_is_one_page_that_needs_nothing_else(few):
    page = (few[0] / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "src=" not in page.replace('src="data:image', "")
    assert "http" not in page
    assert "A smoke test" in page
    for name in FEW:
        assert f'id="{name}"' in page


def test_the_repository_page_has_the_same(few):
    text = (few[0] / "README.md").read_text()
    assert "| fig10: 2-Keys: GEM solves" in text
    assert "![The gridworlds](fig2.png)" in text


def test_a_second_time_nothing_is_trained(few):
    out = few[0]
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.npz")}
    standings = []
    reproduce(Order(FEW, out, smoke=True), standings.append, lambda words: None)
    assert standings == []
    assert before == {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.npz")}


def test_what_is_missing_makes_an_experiment_unfinished(tmp_path, monkeypatch):
    """A run that cannot be made is told; the others are shown."""
    broken = experiment_of("fig10")._replace(
        sweep=lambda preset: {"GEM": made_up(map_text="no map", horizon=3).config}
    )
    monkeypatch.setattr(
        "gemax.experiments.reproduction.experiment_of",
        lambda name: broken if name == "fig10" else experiment_of(name),
    )
    made = reproduce(
        Order(["fig10", "fig9"], tmp_path, smoke=True, jobs=1), lambda standing: None, lambda words: None
    )
    assert made.unfinished == ["fig10"]
    assert len(made.failures) == 1
    assert (tmp_path / "fig9.png").exists()


def test_the_report_of_an_empty_folder_is_none(tmp_path):
    write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_more_to_say_comes_last(few, tmp_path):
    (tmp_path / "fig2.json").write_bytes((few[0] / "fig2.json").read_bytes())
    (tmp_path / "fig2.png").write_bytes((few[0] / "fig2.png").read_bytes())
    (tmp_path / "more.md").write_text("## Other measurements\n")
    write_report(tmp_path)
    assert (tmp_path / "README.md").read_text().endswith("## Other measurements\n")


@pytest.mark.parametrize("name", list(MODULES))
def test_every_experiment_has_words_and_a_sweep_of_five_seeds(name):
    experiment = experiment_of(name)
    assert experiment.name == name
    assert experiment.title
    assert experiment.claim.endswith(".")
    for configs in configs_of(experiment, "laptop", smoke=False).values():
        assert [config.seed for config in configs] == list(range(experiment.num_seeds))


def test_the_paper_preset_reaches_every_run():
    for config in experiment_of("fig4").sweep("paper").values():
        assert (config.preset, config.updates, config.num_worlds) == ("paper", 100_000, 256)


def test_an_unknown_figure_is_refused_by_name(capsys):
    assert main(["reproduce", "fig99"]) == 2
    assert "figure must be one of fig1, fig2" in capsys.readouterr().err


def test_time_left_is_told_in_words():
    def standing(share):
        return Standing(1, 2, share, 1.0, ())

    assert time_left(standing(0.0), 60.0) == "time left not known yet"
    assert time_left(standing(0.5), 600.0) == "10 min left"
    assert time_left(standing(0.1), 3600.0) == "9.0 h left"


def test_exit_codes_tell_how_it_ended(tmp_path, capsys):
    assert tell_outcome(Reproduction([], {}, [], None), tmp_path, smoke=False) == 0
    assert tell_outcome(Reproduction([], {"run": "words"}, ["fig4"], None), tmp_path, smoke=False) == 1
    assert tell_outcome(Reproduction([], {}, ["fig4"], 15), tmp_path, smoke=False) == 143
    said = capsys.readouterr().out
    assert "run could not be finished: words" in said
    assert "Not complete yet: fig4. The same command goes on." in said


@pytest.mark.slow
def test_everything_in_under_three_minutes(tmp_path):
    started = time.monotonic()
    made = reproduce(Order(list(MODULES), tmp_path, smoke=True), lambda standing: None, lambda words: None)
    assert made.failures == {}
    assert made.unfinished == []
    assert time.monotonic() - started < 180

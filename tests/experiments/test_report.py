"""The report marks claims with what decided them: preset, commits, older code and unsolved runs."""

import json

import pytest
from tests.experiments.fake import fake_seeds

from gemax.experiments import claims
from gemax.experiments.records import GENERATION
from gemax.experiments.report import write_report
from gemax.runs.files import write_json


def write_experiment(out, name, **changes):
    """Writes the JSON file of an experiment whose claim compares ten runs, two of which are not solved."""
    groups = {"gem": fake_seeds(solved_at=20), "rnd": fake_seeds(solved_at=97)}
    claim = claims.decide_by_speed(f"{name}-faster", "GEM is faster", "updates, GEM / RND ≤ 0.5", groups)
    content = {
        "figure": name,
        "title": "Title",
        "claim": "Claim.",
        "command": f"gemax reproduce {name}",
        "preset": "laptop",
        "generation": GENERATION,
        "runs": 10,
        "trained_at": {"0123456789ab": 10},
        "seconds_of_training": 100.0,
        "gemax": "1.0",
        "jax": "1.0",
        "commit": "ba9876543210",
        "machine": "Linux",
        "cores": 2,
        "plots": [],
        "table": "",
        "claims": [claim._asdict()],
        "configurations": {},
    }
    write_json(out / f"{name}.json", content | changes)


@pytest.fixture
def out(tmp_path):
    """The report of an experiment, and of one of older code with another preset."""
    write_experiment(tmp_path, "fig3")
    write_experiment(tmp_path, "fig4", preset="paper", generation=GENERATION - 1, trained_at={"a": 9, "b": 1})
    write_report(tmp_path)
    return tmp_path


def test_claims_have_the_preset_the_commits_and_the_age_of_their_runs(out):
    first, second = json.loads((out / "claims.json").read_text())
    assert (first["preset"], second["preset"]) == ("laptop", "paper")
    assert (first["trained_at"], second["trained_at"]) == ({"0123456789ab": 10}, {"a": 9, "b": 1})
    assert (first["is_older_code"], second["is_older_code"]) == (False, True)


def test_verdicts_of_older_code_are_marked_in_the_tables(out):
    rows = [line for line in (out / "README.md").read_text().splitlines() if "GEM is faster" in line]
    assert rows[0].endswith("| holds |")
    assert rows[1].endswith("| holds, older code |")
    page = (out / "report.html").read_text()
    assert page.count("holds, older code</span>") == 1
    assert page.count("holds</span>") == 1


def test_unsolved_runs_are_counted_in_the_tables(out):
    for name in ("README.md", "report.html"):
        assert (out / name).read_text().count("; not solved: 1 of 5 rnd;") == 2


def test_an_experiment_without_runs_has_no_seconds_of_training(tmp_path):
    write_experiment(tmp_path, "fig1", runs=0, trained_at={}, seconds_of_training=0.0)
    write_report(tmp_path)
    assert "`gemax reproduce fig1`. Analysed at commit ba9876543210." in (tmp_path / "README.md").read_text()

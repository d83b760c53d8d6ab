"""`reproduce` writes figures, claims and a report."""

import csv
import dataclasses
import json
import re
import time

import pytest
from tests.experiments.fake import fake_record

from gemax.cli import main
from gemax.cli.reproduce import print_outcome
from gemax.cli.runs_bar import time_left
from gemax.experiments import reproduction
from gemax.experiments.experiment import seed_configs
from gemax.experiments.records import save_record
from gemax.experiments.registry import ALL, EXPERIMENTS
from gemax.experiments.report import write_report
from gemax.experiments.reproduction import Options, Reproduction, reproduce
from gemax.runs.provenance import provenance

pytestmark = pytest.mark.whole_runs

FEW = ("fig2", "fig10", "extension-negatives")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Three experiments as a smoke test."""
    out = tmp_path_factory.mktemp("out")
    log = []
    result = reproduce(Options(FEW, out, smoke=True), lambda progress: None, log.append)
    return out, result, log


def test_every_requested_experiment_is_written(few):
    out, result, log = few
    assert result.failures == {}
    assert result.unfinished == []
    assert [line.split(":")[0] for line in log] == list(FEW)
    for name in FEW:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((out / f"{name}.json").read_text())["command"] == f"gemax reproduce {name} --smoke"


def test_claims_are_listed_with_their_numbers(few):
    out, result, _ = few
    claims = json.loads((out / "claims.json").read_text())
    assert sorted(claim["id"] for claim in claims) == sorted(claim.id for claim in result.claims)
    for claim in claims:
        assert claim["holds"] is (claim["verdict"] == "holds")
        assert {"figure", "claim", "measure", "value", "interval", "bar", "numbers"} <= set(claim)


def test_curves_have_one_line_per_label_seed_and_bucket(few):
    text = (few[0] / "curves" / "extension-negatives.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 2 * 20
    assert {row["label"] for row in rows} == {"all negatives", "32 sampled negatives"}
    assert (rows[19]["update"], rows[19]["frames"]) == ("20", str(20 * 8 * 6))


def test_the_report_needs_no_external_files(few):
    page = (few[0] / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "src=" not in page.replace('src="data:image', "")
    assert "http" not in page
    assert "A smoke test" in page
    for name in FEW:
        assert f'id="{name}"' in page


def test_the_readme_has_claims_and_plots(few):
    text = (few[0] / "README.md").read_text()
    assert "| fig10: 2-Keys: GEM solves" in text
    assert "![The gridworlds](fig2.png)" in text
    assert "| seeds that solved it: 0 of 1: too few seeds | – to – | every seed | undecided |" in text
    assert (
        "; by the first crossing 1 (– to –); ratio of the updates to half of the return 1 (– to –); " in text
    )
    assert re.search(
        r"; difference of the final returns \S+ \(– to –\) \| – to – \| ≤ 1\.1 \| undecided \|", text
    )


def test_finished_runs_are_not_trained_again(few):
    out = few[0]
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.npz")}
    progress = []
    reproduce(Options(FEW, out, smoke=True), progress.append, lambda line: None)
    assert progress == []
    assert before == {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.npz")}


def test_a_failed_run_is_reported_and_other_experiments_are_written(tmp_path, monkeypatch):
    run = {"env_id": "two-rooms", "map_text": "no map"}
    broken = dataclasses.replace(EXPERIMENTS["fig10"], sweep={"GEM": run})
    monkeypatch.setitem(EXPERIMENTS, "fig10", broken)
    options = Options(["fig10", "fig9"], tmp_path, smoke=True, jobs=1)
    result = reproduce(options, lambda progress: None, lambda line: None)
    assert result.unfinished == ["fig10"]
    assert len(result.failures) == 1
    assert (tmp_path / "fig9.png").exists()


def test_an_empty_folder_has_no_report(tmp_path):
    write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_more_md_is_appended_to_the_readme(few, tmp_path):
    (tmp_path / "fig2.json").write_bytes((few[0] / "fig2.json").read_bytes())
    (tmp_path / "fig2.png").write_bytes((few[0] / "fig2.png").read_bytes())
    (tmp_path / "more.md").write_text("## Other measurements\n")
    write_report(tmp_path)
    assert (tmp_path / "README.md").read_text().endswith("## Other measurements\n")


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_every_experiment_has_a_title_a_claim_and_all_seeds(experiment):
    assert experiment.title
    assert experiment.claim.endswith(".")
    for label, configs in seed_configs(experiment, "laptop").items():
        num_seeds = experiment.sweep[label].get("num_seeds", experiment.num_seeds)
        assert [config.run.seed - experiment.first_seed for config in configs] == list(range(num_seeds))
    for configs in seed_configs(experiment, "laptop", num_seeds=3).values():
        assert len(configs) == (1 if experiment.num_seeds == 1 else 3)


def test_figures_3_and_4_have_ten_seeds_in_gridworlds():
    configs = seed_configs(EXPERIMENTS["fig3"], "laptop") | seed_configs(EXPERIMENTS["fig4"], "laptop")
    for label, row in configs.items():
        assert len(row) == (10 if label.startswith(("two-rooms", "sixteen-leaves")) else 5), label


def test_searches_use_seeds_that_no_figure_uses():
    seeds = {
        name: {config.run.seed for row in seed_configs(experiment, "laptop").values() for config in row}
        for name, experiment in EXPERIMENTS.items()
    }
    searched = seeds.pop("tuning") | seeds.pop("tuning-shared")
    assert min(searched) == 100
    assert all(not searched & used for used in seeds.values())


def test_searches_and_the_paper_preset_are_not_part_of_all():
    others = {name for name in EXPERIMENTS if name.startswith(("tuning", "paper"))}
    assert set(ALL) == set(EXPERIMENTS) - others
    for name in others - {"tuning", "tuning-shared"}:
        for config, *_ in seed_configs(EXPERIMENTS[name], "laptop").values():
            assert (config.run.preset, config.env.num_envs) == ("paper", 256)
            assert config.run.updates <= 3000


def test_a_tree_with_uncommitted_changes_is_refused_unless_allowed(tmp_path, monkeypatch):
    changed = provenance() | {"commit": "0123456789ab-dirty"}
    monkeypatch.setattr(reproduction, "provenance", lambda: changed)
    quiet = lambda progress: None, lambda line: None
    with pytest.raises(ValueError, match=r"uncommitted changes.*--allow-dirty"):
        reproduce(Options(["fig9"], tmp_path), *quiet)
    assert list(tmp_path.iterdir()) == []
    assert reproduce(Options(["fig9"], tmp_path, allow_dirty=True), *quiet).unfinished == []
    assert "Analysed at commit 0123456789ab-dirty." in (tmp_path / "README.md").read_text()


def test_the_report_shows_commits_and_marks_runs_of_older_code(few, tmp_path):
    content = json.loads((few[0] / "extension-negatives.json").read_text())
    commit = content["commit"] or "unknown"
    assert content["trained_at"] == {commit: 2}
    assert f"trained at {commit} (2)" in (few[0] / "README.md").read_text()
    assert "Older code" not in (few[0] / "README.md").read_text()
    (tmp_path / "fig2.png").write_bytes((few[0] / "fig2.png").read_bytes())
    (tmp_path / "fig2.json").write_text((few[0] / "fig2.json").read_text())
    (tmp_path / "extension-negatives.png").write_bytes((few[0] / "fig2.png").read_bytes())
    (tmp_path / "extension-negatives.json").write_text(json.dumps(content | {"generation": 0}))
    (tmp_path / "runs").mkdir()
    save_record(tmp_path / "runs" / "two-rooms-gem-0-0123456789.npz", fake_record()._replace(generation=0))
    write_report(tmp_path)
    for text in ((tmp_path / "README.md").read_text(), (tmp_path / "report.html").read_text()):
        assert "mixes them with new runs: extension-negatives." in text
        assert text.count("trained by older code; see above") == 1
        assert "0 runs, 0.0 hours of training on one core each. Of older code there are 1 runs" in text


def test_the_paper_preset_is_used_in_every_run():
    for config, *_ in seed_configs(EXPERIMENTS["fig4"], "paper").values():
        assert (config.run.preset, config.run.updates, config.env.num_envs) == ("paper", 100_000, 256)


def test_an_unknown_figure_is_refused(capsys):
    assert main(["reproduce", "fig99"]) == 2
    assert "figure must be one of fig1, fig2" in capsys.readouterr().err


def test_time_left_is_in_minutes_or_hours():
    assert time_left(0.0, 60.0) == "time left not known yet"
    assert time_left(0.5, 600.0) == "10 min left"
    assert time_left(0.1, 3600.0) == "9.0 h left"


def test_exit_code_depends_on_the_outcome(tmp_path, capsys):
    assert print_outcome(Reproduction([], {}, [], None), tmp_path, smoke=False) == 0
    assert print_outcome(Reproduction([], {"run": "message"}, ["fig4"], None), tmp_path, smoke=False) == 1
    assert print_outcome(Reproduction([], {}, ["fig4"], 15), tmp_path, smoke=False) == 143
    output = capsys.readouterr().out
    assert "run failed: message" in output
    assert "Not complete yet: fig4. Run the same command to continue." in output


@pytest.mark.slow
def test_the_smoke_test_takes_less_than_three_minutes(tmp_path):
    started = time.monotonic()
    options = Options(list(ALL), tmp_path, smoke=True)
    result = reproduce(options, lambda progress: None, lambda line: None)
    assert result.failures == {}
    assert result.unfinished == []
    assert time.monotonic() - started < 180

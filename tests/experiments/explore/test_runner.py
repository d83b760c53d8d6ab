"""`gemax bench explore` trains what is missing and writes one table."""

import json
import shutil

import pytest

from gemax.cli import main
from gemax.experiments.explore import runner
from gemax.experiments.explore.runner import Options, bench_explore, check_clean, check_packages
from gemax.experiments.explore.suite import METHODS, TASKS, find_methods, find_tasks

pytestmark = pytest.mark.whole_runs

OPTIONS = {"methods": find_methods(["none"]), "smoke": True, "jobs": 1}


@pytest.fixture(scope="module")
def out(trained, tmp_path_factory):
    """A folder with the record of an earlier command, and that of a run trained in a worker process."""
    out = tmp_path_factory.mktemp("out")
    (out / "explore").mkdir()
    shutil.copy(trained.path, out / "explore")
    options = Options(find_tasks(["key-and-door"]), out, **OPTIONS)
    outcome = bench_explore(options, lambda progress: None, lambda record: None)
    assert outcome.failures == {}
    return out


def test_the_table_has_the_runs_of_earlier_commands(out):
    text = (out / "explore.md").read_text()
    assert "| key and door | none | 0 of 1 | never |" in text
    assert "| DeepSea 10 | none | 0 of 1 | never |" in text
    assert (out / "explore.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_run_is_reported_and_not_trained_again(out):
    progress, records = [], []
    options = Options(find_tasks(["key-and-door"]), out, **OPTIONS)
    outcome = bench_explore(options, progress.append, records.append)
    assert (outcome, progress) == (({}, None), [])
    assert [record["task"] for record in records] == ["key-and-door"]


def test_nothing_but_records_stays_in_the_folder(out):
    names = {path.name.rsplit("-", 1)[0] for path in (out / "explore").glob("*.json")}
    assert names == {"deep-sea-10-none-0", "key-and-door-none-0"}
    record = json.loads(next((out / "explore").glob("key*.json")).read_text())
    assert record["commit"]
    assert record["evaluation_episodes"] == 2


def test_the_command_prints_the_table(out, capsys):
    arguments = [
        "bench",
        "explore",
        "--out",
        str(out),
        "--tasks",
        "key-and-door",
        "--methods",
        "none",
        "--smoke",
    ]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "key-and-door             none         seed 0  not solved" in output
    assert "| DeepSea 10 | none |" in output


def test_a_dirty_tree_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "provenance", lambda: {"commit": "abc-dirty"})
    options = Options(find_tasks(["deep-sea-10"]), tmp_path)
    with pytest.raises(ValueError, match=r"uncommitted changes.*--allow-dirty"):
        bench_explore(options, lambda progress: None, lambda record: None)
    assert list(tmp_path.iterdir()) == []


def test_a_clean_tree_and_an_installed_package_are_accepted():
    check_clean("abc")
    check_clean(None)


def test_a_missing_package_is_named():
    with pytest.raises(ValueError, match="task door-key needs no_such_package: pip install no_such_package"):
        check_packages([TASKS["door-key"]._replace(package="no_such_package")])


def test_an_unknown_task_is_refused(capsys):
    assert main(["bench", "explore", "--tasks", "moon"]) == 2
    assert "task must be one of all, core, deep-sea, large, key-and-door" in capsys.readouterr().err


def test_the_help_names_every_method_and_group(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    words = set(capsys.readouterr().out.replace(",", " ").replace(";", " ").split())
    assert {*METHODS, "core", "deep-sea", "large", "--frames-scale"} <= words

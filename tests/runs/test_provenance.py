"""The commit that is stored with results."""

import subprocess

import pytest

from gemax.runs.provenance import commit_of


@pytest.fixture
def source(tmp_path):
    """Returns a repository with a source file and two results."""
    for name in ("module.py", "results/table.md", "benchmarks/speed.json", "benchmarks/speed.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        [*identity, "commit", "--quiet", "--message", "first"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    return tmp_path


@pytest.mark.parametrize("name", ["results/table.md", "benchmarks/speed.json"])
def test_changed_results_do_not_mark_the_commit(source, name):
    before = commit_of(source)
    (source / name).write_text("after")
    assert before is not None
    assert commit_of(source) == before


@pytest.mark.parametrize("name", ["module.py", "benchmarks/speed.py"])
def test_changed_source_marks_the_commit(source, name):
    before = commit_of(source)
    (source / name).write_text("after")
    assert commit_of(source) == f"{before}-dirty"


def test_an_installed_package_has_no_commit(tmp_path):
    assert commit_of(tmp_path) is None

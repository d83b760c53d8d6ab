import resource
import subprocess
import sys

import pytest

import gemax
from gemax.cli import main


def gemax_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gemax.cli", *arguments], capture_output=True, text=True, timeout=120
    )


def seconds_of_children():
    """Of work, so that others who keep the machine busy do not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_help_names_the_verbs_and_answers_at_once():
    result = gemax_command("--help")
    before = seconds_of_children()
    gemax_command("--help")  # the files are in the cache now
    assert seconds_of_children() - before < 2.0  # half a second on a quiet machine
    assert result.returncode == 0
    assert "reproduce" in result.stdout
    assert "doctor" in result.stdout


def test_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gemax {gemax.__version__}\n"


def test_doctor_lists_versions(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "jax" in out
    assert "untested" not in out


def test_an_unknown_figure_is_refused_with_the_ones_there_are():
    result = gemax_command("reproduce", "fig99")
    assert result.returncode == 2
    assert "fig99" in result.stderr
    assert "fig1" in result.stderr


def test_a_folder_that_cannot_be_written_is_one_line_and_no_traceback(tmp_path, capsys, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert main(["reproduce", "fig9", "--smoke", "--out", str(blocked / "below")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gemax: ")
    assert str(blocked) in error
    assert "Traceback" not in error


def test_debug_shows_where_it_came_from(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(OSError, match="file"):
        main(["reproduce", "fig9", "--smoke", "--debug", "--out", str(blocked / "below")])

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gemax
from gemax import cli
from gemax.cli import VERBS, main


def gemax_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gemax.cli", *arguments], capture_output=True, text=True, timeout=120
    )


def test_help_lists_every_verb_with_the_first_paragraph_of_its_docstring():
    result = gemax_command("--help")
    assert result.returncode == 0
    said = " ".join(result.stdout.split())
    modules = {path.stem for path in Path(cli.__file__).parent.glob("[a-z]*.py")}
    assert set(VERBS) == {name for name in modules if hasattr(import_module(f"gemax.cli.{name}"), name)}
    for name in VERBS:
        verb = getattr(import_module(f"gemax.cli.{name}"), name)
        summary = " ".join((inspect.getdoc(verb) or "").split("\n\n")[0].split())
        assert f"{name} {summary}" in said


def test_dir_lists_the_public_names_and_each_can_be_imported():
    assert set(dir(gemax)) == set(gemax.__all__)
    for name in dir(gemax):
        assert getattr(gemax, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        gemax.trian  # noqa: B018


def test_import_gemax_does_not_import_jax():
    code = "import sys, gemax; sys.exit(any(name in sys.modules for name in ('jax', 'numpy', 'gymnasium')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gemax {gemax.__version__}\n"


def test_doctor_lists_versions(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "jax" in out
    assert "untested" not in out


def test_an_unknown_figure_is_refused_with_the_known_ones():
    result = gemax_command("reproduce", "fig99")
    assert result.returncode == 2
    assert "fig99" in result.stderr
    assert "fig1" in result.stderr


@pytest.mark.fault(13)
def test_a_folder_that_cannot_be_written_gives_one_line_without_traceback(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert main(["reproduce", "fig9", "--smoke", "--out", str(blocked / "below")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gemax: ")
    assert str(blocked) in error
    assert "Traceback" not in error


def test_debug_raises_the_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(OSError, match="file"):
        main(["reproduce", "fig9", "--smoke", "--debug", "--out", str(blocked / "below")])

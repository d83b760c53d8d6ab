"""Nothing in a run directory that was made elsewhere makes gemax import or run code."""

import json
import stat
import sys

import pytest

import gemax
from gemax.cli import main
from gemax.runs.run_directory import CONFIG, SIGNATURE, RunDirectory
from gemax.runs.trust import is_signed, key_path, sign
from gemax.training.presets import configure

MODULE = "gemax_test_foreign_module"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with a module that creates a file if it is imported."""
    code = f"open({str(tmp_path / 'canary')!r}, 'w').close()\n"
    (tmp_path / f"{MODULE}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop(MODULE, None)


def make_run(path, env_id=f"gym:{MODULE}:Evil-v0"):
    path.mkdir()
    run = RunDirectory(path)
    run.metrics.touch()
    run.write_config(configure(env_id).to_json())
    return run


def make_foreign_run(path, monkeypatch, **arguments):
    """A run with a signature, but of another user."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(path.parent / "other user"))
        return make_run(path, **arguments)


@pytest.mark.fault(45)
@pytest.mark.fault(31)
@pytest.mark.parametrize("verb", ["evaluate", "resume", "collect"])
def test_a_run_made_elsewhere_imports_nothing_without_trust(verb, here, monkeypatch, capsys):
    run = make_foreign_run(here / "run", monkeypatch)
    before = list(sys.path)
    assert main([verb, str(run.path)]) == 2
    error = capsys.readouterr().err
    assert f"imports the module {MODULE}" in error
    assert "--trust" in error
    assert not (here / "canary").exists()
    assert sys.path == before


@pytest.mark.fault(45)
@pytest.mark.parametrize(
    "env_id",
    [f"gym:{MODULE}:make", f"jax:{MODULE}:make", "gym:gemax.runs.files:os.getcwd", "jax:gemax.cli:main"],
)
def test_functions_of_a_module_need_trust_too(env_id, here, monkeypatch, capsys):
    run = make_foreign_run(here / "run", monkeypatch, env_id=env_id)
    assert main(["evaluate", str(run.path)]) == 2
    assert "--trust" in capsys.readouterr().err
    assert not (here / "canary").exists()


@pytest.mark.fault(45)
@pytest.mark.parametrize("verb", ["evaluate", "resume", "collect"])
def test_trust_imports_the_module_from_the_current_folder(verb, here, monkeypatch, capsys):
    run = make_foreign_run(here / "run", monkeypatch)
    assert main([verb, str(run.path), "--trust"]) == 2
    assert "Gymnasium knows no environment 'Evil-v0'" in capsys.readouterr().err
    assert (here / "canary").exists()


@pytest.mark.fault(45)
@pytest.mark.parametrize("call", [gemax.evaluate, gemax.resume])
def test_python_needs_trust_too(call, here, monkeypatch):
    run = make_foreign_run(here / "run", monkeypatch)
    with pytest.raises(ValueError, match=MODULE):
        call(run.path)
    assert not (here / "canary").exists()
    with pytest.raises(ValueError, match="Evil-v0"):
        call(run.path, trust=True)
    assert (here / "canary").exists()


def test_a_run_of_ones_own_needs_no_trust(here, capsys):
    run = make_run(here / "run")
    assert run.is_own
    assert main(["evaluate", str(run.path)]) == 2
    assert "Evil-v0" in capsys.readouterr().err
    assert (here / "canary").exists()


@pytest.mark.fault(45)
def test_an_edited_configuration_is_not_ones_own(here, capsys):
    run = make_run(here / "run", env_id="gym:CartPole-v1")
    text = (run.path / CONFIG).read_text()
    (run.path / CONFIG).write_text(text.replace("gym:CartPole-v1", f"gym:{MODULE}:Evil-v0"))
    assert not run.is_own
    assert main(["evaluate", str(run.path)]) == 2
    assert not (here / "canary").exists()


def test_a_run_made_elsewhere_that_imports_nothing_needs_no_trust(here, monkeypatch, capsys):
    run = make_foreign_run(here / "run", monkeypatch, env_id="two-rooms")
    assert not run.is_own
    assert main(["evaluate", str(run.path)]) == 4
    assert "There is no checkpoint" in capsys.readouterr().err


def test_only_the_user_can_read_the_key():
    assert sign({}) is not None
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600


@pytest.mark.fault(45)
def test_a_key_that_others_can_read_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    signature = sign({"a": 1})
    assert is_signed({"a": 1}, signature)
    assert not is_signed({"a": 2}, signature)
    key_path().chmod(0o644)
    assert not is_signed({"a": 1}, signature)
    assert is_signed({"a": 1}, sign({"a": 1}))
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600


@pytest.mark.fault(44)
@pytest.mark.fault(45)
def test_without_a_state_folder_runs_are_written_without_a_signature(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run = make_run(tmp_path / "run")
    assert not run.is_own
    assert json.loads((run.path / CONFIG).read_text())[SIGNATURE] is None

"""Standard streams that are closed, full or not UTF-8 do not end a command, by the real command line."""

import json
import os
import subprocess
import sys

import pytest
from tests.runs.children import TINY, flags_of

GEMAX = [sys.executable, "-m", "gemax.cli"]


def run(arguments, setup="", **options):
    """Runs a command in a shell, which can redirect and close its streams."""
    command = " ".join(map(str, [*GEMAX, *arguments])) + setup
    return subprocess.run(["bash", "-c", command], capture_output=True, timeout=280, check=False, **options)


@pytest.mark.fault(47)
@pytest.mark.parametrize("setup", [">&- 2>&-", "> /dev/full", "2> /dev/full >&2", "< /dev/null >&-"])
def test_closed_and_full_streams_change_neither_exit_code_nor_effect(setup):
    answer = run(["--version"], f" {setup}")
    assert answer.returncode == 0
    assert b"Traceback" not in answer.stderr


@pytest.mark.fault(47)
def test_errors_keep_their_exit_code_if_stderr_is_closed():
    assert run(["train", "no-such-env"], " 2>&-").returncode == 2


@pytest.mark.fault(47)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_an_encoding_does_not_have_are_replaced(encoding):
    answer = run(["envs", "ü—π"], env=os.environ | {"PYTHONIOENCODING": encoding})
    assert answer.returncode == 2
    assert b"Traceback" not in answer.stderr
    assert b"environment must be one of" in answer.stderr


@pytest.mark.fault(47)
def test_a_run_goes_on_if_its_reader_goes_away(tmp_path):
    """As `gemax train | head -1` does; stderr is full."""
    path = tmp_path / "run"
    flags = flags_of({**TINY, "updates": 12, "checkpoint_every": 4})
    answer = run(
        ["train", "two-rooms", "--out", path, *flags], " 2> /dev/full | head -1; exit ${PIPESTATUS[0]}"
    )
    assert answer.returncode == 0
    assert answer.stdout.decode() == f"Run directory: {path}\n"
    assert json.loads((path / "summary.json").read_text())["status"] == "finished"

"""Every code block of README and the documentation runs. `blocks.py` explains the marks before blocks."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import gemax
from tests.docs import commands
from tests.docs.blocks import PAGES, REPOSITORY, blocks_of
from tests.parameters import fast_or_slow

NAMES = {str(page.relative_to(REPOSITORY)): page for page in PAGES if blocks_of(page)}
QUICKSTART = "docs/quickstart.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, in which every training is tiny."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setattr(gemax, "train", commands.tiny_train, raising=False)
    yield tmp_path
    sys.modules.pop("rooms", None)


def run_page(name: str) -> None:
    """Runs the shortened blocks of a page in this process, one after the other."""
    namespace = {"__name__": "documentation"}
    for block in blocks_of(NAMES[name]):
        if block.reason_not_to_run is not None:
            continue
        if block.file is not None:
            Path(block.file).write_text(block.short_code)
        elif block.language == "python":
            exec(compile(block.short_code, f"{name}:{block.line}", "exec"), namespace)
        else:
            for words in commands.commands_of(block.short_code):
                commands.run(words)


@pytest.mark.parametrize("name", NAMES)
def test_commands_have_known_flags_and_python_is_valid(name, monkeypatch):
    for block in blocks_of(NAMES[name]):
        if block.language == "python":
            ast.parse(block.short_code)
            continue
        for words in commands.commands_of(block.short_code):
            if words[0] == "gemax":
                commands.parse(words, monkeypatch)


@pytest.mark.parametrize("name", fast_or_slow(sorted({*NAMES} - {QUICKSTART}), ["README.md"]))
def test_the_blocks_of_a_page_run(name, folder):
    shutil.copy(REPOSITORY / "examples" / "rooms.py", folder)
    run_page(name)


def test_every_block_names_its_language():
    for page in PAGES:
        opening = re.findall(r"^```.*$", page.read_text(), re.MULTILINE)[::2]
        assert "```" not in opening, page
        assert "```bash" not in opening, f"{page}: write sh, so that the tests run the block"


def test_only_blocks_that_install_or_do_not_end_are_not_run():
    reasons = {block.reason_not_to_run for page in PAGES for block in blocks_of(page)} - {None}
    assert reasons == {"installs packages", "needs a cluster", "runs until it is stopped", "takes hours"}


@pytest.mark.slow
def test_the_quickstart_trains_evaluates_plots_and_films(folder, capsys):
    run_page(QUICKSTART)
    assert len(mean_returns(capsys.readouterr().out)) == 2
    check_results_of_the_quickstart(folder)


@pytest.mark.slow
def test_the_quickstart_word_for_word_solves_its_environment(tmp_path):
    """Saves every file of the Quickstart in an empty folder, and runs every command in a shell, at full length."""
    transcript = ""
    for block in blocks_of(NAMES[QUICKSTART]):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code)
        elif block.reason_not_to_run is None:
            transcript += f"$ {block.code}{run_shell(block.code, tmp_path)}"
            (tmp_path / "transcript.txt").write_text(transcript)
    of_ppo, of_gemax = mean_returns(transcript)
    assert of_ppo > 0.9
    assert of_gemax > 0.9
    check_results_of_the_quickstart(tmp_path)


def run_shell(code: str, folder: Path) -> str:
    """Runs a shell block in a folder. Returns its output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY / "src")}
    result = subprocess.run(
        code, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{code}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def mean_returns(transcript: str) -> list[float]:
    """Returns the mean returns that the programs of the Quickstart print."""
    return [float(line.split()[-1]) for line in transcript.splitlines() if line.startswith("mean return")]


def check_results_of_the_quickstart(folder: Path) -> None:
    for name in ("episode.gif", "rooms.gif", "two-rooms.gif"):
        with Image.open(folder / name) as film:
            assert film.n_frames > 20
    for name in ("curve.png", "compare.png"):
        with Image.open(folder / name) as plot:
            assert plot.width > 300
    assert (folder / "runs" / "rooms" / "evaluation.json").is_file()
    assert (folder / "runs" / "two-rooms" / "heatmap.png").is_file()

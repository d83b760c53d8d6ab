import subprocess
import sys

import pytest

from gemax.cli import main
from gemax.envs.registry import ENVS


def test_the_list_has_every_environment_with_its_numbers():
    command = [sys.executable, "-m", "gemax.cli", "envs"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert set(ENVS) <= set(lines)
    assert lines["two-rooms"] == ["two-rooms", "72×56×3", "30", "71", "71", "22", "4.251"]
    assert lines["sixteen-leaves"] == ["sixteen-leaves", "136×152×3", "18", "95", "1520", "15–17", "4.438"]
    assert lines["mountain-car"][:3] == ["mountain-car", "3", "1000"]


@pytest.mark.parametrize("name", ["two-keys", "mountain-car"])
def test_one_environment_is_drawn_and_saved(name, tmp_path, capsys):
    assert main(["envs", name, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert name in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    if name == "two-keys":
        assert "#...K...#" in out
        assert "#######D#" in out


def test_a_custom_map_is_drawn(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("S.#\n..G\n")
    assert main(["envs", "--map", str(path), "--horizon", "5", "--out", str(tmp_path)]) == 0
    assert "#..G#" in capsys.readouterr().out
    assert (tmp_path / "mine.png").exists()


def test_the_error_of_a_bad_map_names_line_and_column(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("S.?\n..G\n")
    assert main(["envs", "--map", str(path)]) == 2
    assert (
        capsys.readouterr().err
        == "gemax: line 1, column 3: '?' is not a map character; known are # . S G K D.\n"
    )


def test_an_unknown_environment_is_refused_with_the_nearest_name(capsys):
    assert main(["envs", "mountaincar"]) == 2
    assert "Did you mean mountain-car?" in capsys.readouterr().err

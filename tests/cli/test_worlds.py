import subprocess
import sys

import pytest

from gemax.cli import main
from gemax.worlds.registry import WORLDS


def test_listing_has_every_world_with_its_figures():
    command = [sys.executable, "-m", "gemax.cli", "worlds"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = {line.split()[0]: line.split() for line in answer.stdout.splitlines() if line.strip()}
    assert set(WORLDS) <= set(lines)
    assert lines["two-rooms"] == ["two-rooms", "72×56×3", "30", "71", "71", "22", "4.251"]
    assert lines["sixteen-leaves"] == ["sixteen-leaves", "136×152×3", "18", "95", "1520", "15–17", "4.438"]
    assert lines["mountain-car"][:3] == ["mountain-car", "3", "1000"]


@pytest.mark.parametrize("name", ["two-keys", "mountain-car"])
def test_one_world_is_drawn_and_saved(name, tmp_path, capsys):
    assert main(["worlds", name, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert name in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    if name == "two-keys":
        assert "#...K...#" in out
        assert "#######D#" in out


def test_a_map_of_ones_own_is_drawn(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("S.#\n..G\n")
    assert main(["worlds", "--map", str(path), "--horizon", "5", "--out", str(tmp_path)]) == 0
    assert "#..G#" in capsys.readouterr().out
    assert (tmp_path / "mine.png").exists()


def test_a_bad_map_is_one_line_with_line_and_column(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("S.?\n..G\n")
    assert main(["worlds", "--map", str(path)]) == 2
    assert (
        capsys.readouterr().err
        == "gemax: line 1, column 3: '?' is no map character; known are # . S G K D.\n"
    )


def test_an_unknown_world_is_refused_with_the_nearest(capsys):
    assert main(["worlds", "mountaincar"]) == 2
    assert "Did you mean mountain-car?" in capsys.readouterr().err

"""Arrows point one way: checked by import-linter, and import-linter checked by a wrong arrow."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lint_imports(folder):
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    environment = {"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def copy_of_the_house(folder):
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src" / "gemax"


def test_the_house_as_it_stands_keeps_its_contracts():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


def test_an_arrow_that_points_the_wrong_way_is_found(tmp_path):
    package = copy_of_the_house(tmp_path)
    wrong = package / "core" / "entropy.py"
    wrong.write_text(wrong.read_text() + "\nimport gemax.networks\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert "gemax.core is not allowed to import gemax.networks" in result.stdout


def test_a_world_that_knows_networks_is_found(tmp_path):
    package = copy_of_the_house(tmp_path)
    wrong = package / "envs" / "base.py"
    wrong.write_text(wrong.read_text() + "\nimport gemax.networks\n")
    assert lint_imports(tmp_path).returncode == 1


def test_every_room_of_the_house_is_in_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = " ".join(next(contract for contract in contracts if contract["type"] == "layers")["layers"])
    rooms = {path.stem for path in (ROOT / "src" / "gemax").iterdir() if path.suffix in ("", ".py")}
    missing = [room for room in rooms - {"__init__", "__pycache__"} if room not in named]
    assert not missing


def test_the_package_is_imported_without_jax_so_that_help_answers_at_once():
    code = "import sys, gemax, gemax.cli; sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

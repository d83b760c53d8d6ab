"""A built wheel works in a fresh environment, outside of the repository, with and without extras.

It downloads all dependencies. Run it with `make test-install`.
"""

import os
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from gemax.extras import EXTRAS

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.install, pytest.mark.timeout(3000)]


def run(*command, cwd, check=True):
    """Runs a command without the settings of this process that would let it find the source tree."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JAX_COMPILATION_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2400,
    )
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """The wheel and the source distribution, built by hatchling."""
    folder = tmp_path_factory.mktemp("packages")
    tools = folder / "tools"
    run(sys.executable, "-m", "venv", tools, cwd=folder)
    run(tools / "bin" / "python", "-m", "pip", "install", "-q", "build", cwd=folder)
    run(tools / "bin" / "python", "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="session")
def fresh(packages, tmp_path_factory):
    """A new environment in an empty folder, with the wheel and no extras."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    (wheel,) = packages.glob("*.whl")
    pip_install(folder, wheel)
    return folder


def pip_install(folder, *what):
    python = folder / "venv" / "bin" / "python"
    return run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *what, cwd=folder)


def test_the_wheel_holds_the_package_and_nothing_else(packages):
    (wheel,) = packages.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"gemax", "gemax-0.2.0.dist-info"}
    expected = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "gemax").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("gemax/")} == expected
    assert "gemax/py.typed" in names
    metadata = zipfile.ZipFile(wheel).read("gemax-0.2.0.dist-info/METADATA").decode()
    for field in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Description-Content-Type"):
        assert field in metadata


def test_the_source_distribution_holds_sources_tests_and_documents(packages):
    (archive,) = packages.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        top = {Path(name).parts[1] for name in files.getnames() if len(Path(name).parts) > 1}
    assert {
        "src",
        "tests",
        "docs",
        "examples",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "pyproject.toml",
    } <= top
    assert "results" not in top


def test_a_fresh_environment_trains_from_another_folder(fresh):
    result = run(fresh / "venv" / "bin" / "gemax", "train", "two-rooms", "--updates", "20", cwd=fresh)
    assert "finished after 20 updates" in result.stdout
    assert (fresh / "runs" / "two-rooms-gem-0" / "summary.json").is_file()


def test_a_missing_extra_is_named_with_a_line_that_installs_it(fresh):
    python, code = fresh / "venv" / "bin" / "python", "import gemax.integrations.stable_baselines3"
    missing = run(python, "-c", code, cwd=fresh, check=False)
    line = EXTRAS["stable-baselines3"].install
    assert missing.stderr.strip().endswith(line)
    pip_install(fresh, *shlex.split(line.removeprefix("pip install ")))
    assert run(python, "-c", code, cwd=fresh).stderr == ""

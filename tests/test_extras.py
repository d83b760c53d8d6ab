"""Missing packages are named with the command that installs them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gemax.extras import EXTRAS, MissingPackageError, require

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_every_extra_exists_and_is_named_in_its_command():
    for name, extra in EXTRAS.items():
        assert name in PROJECT["optional-dependencies"]
        assert f"'gemax[{name}]'" in extra.install


def test_a_missing_package_is_an_import_error_and_a_value_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(
        MissingPackageError, match=r"collect needs Minari, .*: pip install 'gemax\[minari\]'"
    ) as error:
        require("minari", "collect")
    assert isinstance(error.value, ImportError)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("missing", "code", "line"),
    [
        (
            "stable_baselines3 gymnasium",
            "import gemax.integrations.stable_baselines3",
            "pip install torch==2.13.0 'gemax[stable-baselines3]'",
        ),
        ("gymnasium", "import gemax.integrations.gymnasium", "pip install 'gemax[gymnasium]'"),
        ("gymnasium", "import gemax; gemax.train('gym:CartPole-v1')", "pip install 'gemax[gymnasium]'"),
        (
            "minigrid",
            "import gemax; gemax.train('gym:MiniGrid-Empty-5x5-v0')",
            "pip install 'gemax[minigrid]'",
        ),
    ],
)
def test_imports_without_an_optional_package_end_with_its_command(missing, code, line):
    program = f"import sys; sys.modules.update(dict.fromkeys({missing.split()!r})); {code}"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    last = result.stderr.strip().splitlines()[-1]
    assert "MissingPackageError" in last
    assert line in last

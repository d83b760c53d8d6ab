"""Every dependency that users install is imported, and nothing is imported that they do not install."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import gemax

ROOT = Path(__file__).parents[2]
UNPINNED = {"gemax", "stable-baselines3", "sb3-contrib", "wandb"}
"""gemax itself, packages that need torch, which is pinned in their command, and a service of others."""


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements):
    return {re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in requirements}


def imported_distributions():
    """Distributions whose modules the source imports, also by `import_module` and `find_spec` with a fixed name."""
    modules = set()
    for path in Path(gemax.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                modules.add(node.module)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                modules.add(node.value)
    tops = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names)
    found = packages_distributions()
    return {name.lower() for top in tops for name in found.get(top, [])}


def test_every_required_dependency_is_imported():
    required = names(project()["dependencies"])
    assert required <= imported_distributions()


def test_every_extra_is_imported():
    extras = project()["optional-dependencies"]
    of_users = {
        name
        for extra, needed in extras.items()
        if extra not in ("test", "check", "fuzz")
        for name in names(needed)
    }
    installed = {name.lower() for names_of_top in packages_distributions().values() for name in names_of_top}
    assert (of_users & installed) - {"gemax"} <= imported_distributions()


def test_every_dependency_has_a_tested_version():
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+-]+", line)] == []
    pinned = {line.partition("==")[0].lower() for line in lines}
    needed = names(project()["dependencies"]).union(*map(names, project()["optional-dependencies"].values()))
    assert needed - pinned == UNPINNED

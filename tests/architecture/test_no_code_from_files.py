"""No module of gemax can run code that it reads from a file."""

import ast
from pathlib import Path

import pytest

import gemax

SOURCES = sorted(Path(gemax.__file__).parent.rglob("*.py"))
CALLS = {"eval", "exec", "compile", "__import__"}
LOADERS = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "torch", "yaml"}
"""Modules whose `load` can run code."""
IMPORTERS = {"__init__.py", "cli/__init__.py", "settings.py", "envs/imports.py"}
"""Files that import a module by a variable name: a public name, a command, a row of a registry, or an environment."""


def name_of(call):
    function = call.func
    if isinstance(function, ast.Name):
        return "", function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id, function.attr
    return "", ""


@pytest.mark.fault(31, 32)
def test_nothing_is_unpickled_or_evaluated():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            owner, name = name_of(node)
            assert not (owner == "" and name in CALLS), f"{path}:{node.lineno} calls {name}"
            assert not (owner in LOADERS and name.startswith("load")), f"{path}:{node.lineno} loads {owner}"
            for keyword in node.keywords:
                is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                assert not (keyword.arg == "allow_pickle" and is_true), f"{path}:{node.lineno}"


@pytest.mark.fault(31, 45)
def test_few_files_import_modules_by_name():
    package = Path(gemax.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and name_of(node)[1] == "import_module"
        and not isinstance(node.args[0], ast.Constant)
    }
    assert found <= IMPORTERS

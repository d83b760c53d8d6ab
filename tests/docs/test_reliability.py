"""The page about reliability names tests that exist, for every promise."""

import ast
import re
from pathlib import Path

from tests.reliability import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()


def functions_of(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def faults_of(path):
    """Yields the rows of the markers of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault":
            yield from (row.value for row in node.args if isinstance(row, ast.Constant))


def test_every_test_that_the_page_names_exists():
    groups = re.findall(r"`(tests/[\w/]+\.py)`:?\s*\(?((?:`test_\w+`,?\s*)+)", PAGE)
    assert len(groups) > 25
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) == sum(len(re.findall("`test_", names)) for _, names in groups)
    for file, names in groups:
        missing = set(re.findall(r"test_\w+", names)) - functions_of(ROOT / file)
        assert not missing, f"{file} has no {missing}"


def test_every_promise_names_a_test():
    promises = PAGE.split("| promise | held by |\n|---|---|\n")[1:]
    rows = [row for table in promises for row in table.split("\n\n")[0].splitlines()]
    assert len(rows) > 20
    for row in rows:
        assert "`test_" in row, row


def test_every_fault_of_the_table_has_a_test():
    found = {row for path in (ROOT / "tests").rglob("*.py") for row in faults_of(path)}
    assert set(FAULTS) - found == set()

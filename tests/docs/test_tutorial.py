"""The tutorial runs, and has the outputs of a full run in it."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.blocks import REPOSITORY
from tests.docs.commands import TINY

TUTORIAL = REPOSITORY / "docs" / "tutorial.ipynb"
MAX_BYTES = 1_500_000
FULL_LENGTH = "updates=200"


@pytest.fixture
def notebook():
    return nbformat.read(TUTORIAL, nbformat.NO_CONVERT)


def outputs_of(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_the_tutorial_has_curve_film_and_comparison(notebook):
    nbformat.validate(notebook)
    data = [output["data"] for output in outputs_of(notebook) if "data" in output]
    assert sum("image/png" in output for output in data) == 2  # the map and the curve
    assert sum("image/gif" in output for output in data) == 1
    assert (
        sum("text/html" in output for output in data) >= 2
    )  # the run and the comparison, each with a figure
    assert TUTORIAL.stat().st_size < MAX_BYTES


def test_the_tutorial_has_no_errors_and_no_paths_of_a_machine(notebook):
    assert not [output for output in outputs_of(notebook) if output["output_type"] == "error"]
    assert not [output for output in outputs_of(notebook) if output.get("name") == "stderr"]
    assert "/site-packages/" not in TUTORIAL.read_text()


def test_the_environment_of_the_tutorial_is_that_of_the_quickstart(notebook):
    program = (REPOSITORY / "examples" / "rooms.py").read_text()
    cell = next(cell.source for cell in notebook.cells if "class Rooms" in cell.source)
    assert program.endswith(f"\n{cell}\n")


@pytest.mark.slow
@pytest.mark.parametrize("is_short", [True, False])
def test_the_tutorial_runs(notebook, is_short, tmp_path):
    tiny = ", ".join(f"{name}={value}" for name, value in TINY.items())
    for cell in notebook.cells:
        assert FULL_LENGTH in cell.source or "gemax.train(" not in cell.source
        if is_short:
            cell.source = cell.source.replace(FULL_LENGTH, tiny)
    NotebookClient(notebook, timeout=None, resources={"metadata": {"path": tmp_path}}).execute()
    if not is_short:
        (comparison,) = [
            output["text"] for output in outputs_of(notebook) if "reach G" in output.get("text", "")
        ]
        assert "gem: first reward after" in comparison
        assert comparison.splitlines()[0].endswith("100% of the last episodes reach G")

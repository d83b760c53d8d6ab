"""Sphinx directives that write the reference from the code: `gemax-settings SECTION` and `gemax-help VERB`."""

import contextlib
import io
import os
import textwrap
from dataclasses import MISSING, Field, fields
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from gemax.cli import run_command
from gemax.training.config import SECTIONS

HELP_WIDTH = 86
"""Columns of the help texts, as many as a page has."""


class SettingsDirective(SphinxDirective):
    """A table of the settings of one section of `Config`: name, default and meaning."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        section = SECTIONS[self.arguments[0]]
        rows = ["| setting | default | meaning |", "|---|---|---|"]
        rows += [
            f"| `{field.name}` | {default_of(field)} | {docstring_of(section, field.name)} |"
            for field in fields(section)
        ]
        table = nodes.container(classes=["settings"])
        table += self.parse_text_to_nodes("\n".join(rows))
        return [table]


def default_of(field: Field[Any]) -> str:
    """Returns the default of the dataclass, which presets may replace."""
    if field.default is MISSING:
        return "–"
    return "empty" if field.default == "" else f"`{field.default}`"


def docstring_of(section: type, name: str) -> str:
    """Returns the docstring of a field in one line."""
    analyzer = ModuleAnalyzer.for_module(section.__module__)
    lines = analyzer.find_attr_docs()[section.__name__, name]
    return " ".join(line.strip() for line in lines if line.strip()).replace("|", "\\|")


class HelpDirective(SphinxDirective):
    """The output of `gemax VERB --help`. That of `train` ends before the sections of `Config`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the text as a literal block."""
        text = help_of(self.arguments[0]).partition("\n env options\n")[0].strip()
        return [nodes.literal_block(text, text, language="text")]


def help_of(verb: str) -> str:
    """Returns what `gemax VERB --help` prints."""
    output = io.StringIO()
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), str(HELP_WIDTH)
    try:
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            run_command([verb, "--help"])
    finally:
        del os.environ["COLUMNS"]
        if width is not None:
            os.environ["COLUMNS"] = width
    # tyro does not wrap the description.
    return "\n".join(
        textwrap.fill(line, HELP_WIDTH) if len(line) > HELP_WIDTH else line
        for line in output.getvalue().splitlines()
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directives with Sphinx."""
    app.add_directive("gemax-settings", SettingsDirective)
    app.add_directive("gemax-help", HelpDirective)
    return {"parallel_read_safe": True}

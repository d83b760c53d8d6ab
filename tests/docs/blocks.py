"""Reads the code blocks of Markdown pages, and the marks that say how the tests run them.

A mark is a comment before a block:

    <!-- shorten: 300_000 → 600; episodes=200 → episodes=4 -->   text to replace, so that the block ends soon
    <!-- not run: installs packages -->                          a reason not to run the block
"""

import re
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>shorten|not run): (?P<text>.*?) -->\n)?"
    r"^```(?P<language>python|sh|\{literalinclude\} \S+\.py)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    line: int
    language: str
    """`python` or `sh`."""
    code: str
    file: str | None
    """The name under which a reader saves the block, from its first line or its caption."""
    replacements: tuple[tuple[str, str], ...]
    reason_not_to_run: str | None

    @property
    def short_code(self) -> str:
        """The code with the replacements of its mark."""
        return shorten(self.code, self.replacements)


def shorten(text: str, replacements: tuple[tuple[str, str], ...]) -> str:
    """Replaces texts, each of which must occur."""
    for old, new in replacements:
        assert old in text, f"{old!r} is to be shortened, and is not in the block"
        text = text.replace(old, new)
    return text


def blocks_of(page: Path) -> list[Block]:
    """Returns the blocks of a page that contain Python or shell commands."""
    text = page.read_text()
    return [
        _block(page, text.count("\n", 0, match.start("language")) + 1, match)
        for match in BLOCK.finditer(text)
    ]


def _block(page: Path, line: int, match: re.Match[str]) -> Block:
    language, code = match["language"], match["code"]
    file = re.match(r"# (\w+\.py)\n", code)
    if language.startswith("{literalinclude}"):
        source = (page.parent / language.split()[1]).resolve()
        caption = re.search(r":caption: (\S+)", code)
        language, code, file = "python", source.read_text(), caption
    pairs = match["text"].split("; ") if match["mark"] == "shorten" else []
    return Block(
        page,
        line,
        language,
        code,
        file[1] if file else None,
        tuple(tuple(pair.split(" → ")) for pair in pairs),
        match["text"] if match["mark"] == "not run" else None,
    )

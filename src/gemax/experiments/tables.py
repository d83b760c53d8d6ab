"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    first, *rest = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([first, "|---" * len(head) + "|", *rest])

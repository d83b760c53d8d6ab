"""A claim of the paper, and what became of it."""

from typing import Any, NamedTuple


class Claim(NamedTuple):
    """One sentence of the paper that numbers can decide."""

    id: str
    figure: str
    claim: str
    holds: bool
    numbers: dict[str, Any]
    """What the verdict rests on."""

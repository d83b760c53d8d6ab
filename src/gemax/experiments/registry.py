"""The figures by name, each imported only when it is asked for."""

from collections.abc import Callable
from typing import TypeAlias

from gemax.experiments.claims import Claim

FIGURES = ("fig1",)
"""What `gemax reproduce` knows."""

Reproduce: TypeAlias = Callable[..., list[Claim]]
"""`reproduce(out, *, smoke, tell)`: runs the experiment, writes its files to `out` and gives the verdicts."""


def reproduction_of(figure: str) -> Reproduce:
    """The function that reproduces a figure."""
    match figure:
        case "fig1":
            from gemax.experiments import fig1

            return fig1.reproduce
        case _:
            raise ValueError(f"figure must be one of {', '.join(FIGURES)}; got {figure!r}.")

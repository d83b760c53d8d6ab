"""`gemax reproduce`: the paper's figures, with a verdict on every claim."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional


def reproduce(
    figures: Positional[tuple[Literal["fig1", "all"], ...]] = ("all",),
    /,
    out: Path = Path("results"),
    smoke: bool = False,
) -> int:
    """Reproduces figures of the paper: runs the experiment, plots it and decides its claims.

    Args:
        figures: Which figures; all of them by default.
        out: The folder for plots (PNG) and numbers (JSON).
        smoke: A quick pass that only shows that everything runs. Its verdicts mean nothing.
    """
    from rich.console import Console
    from rich.status import Status
    from rich.table import Table

    from gemax.experiments.registry import FIGURES, reproduction_of

    console = Console()
    claims = []
    for figure in FIGURES if "all" in figures else figures:
        with console.status(figure) as status:

            def tell(words: str, figure: str = figure, status: Status = status) -> None:
                status.update(f"{figure}: {words}")
                if not console.is_terminal:
                    console.print(f"{figure}: {words}")

            claims += reproduction_of(figure)(out, smoke=smoke, tell=tell)
    table = Table(
        "claim", "holds", "seeds", title="Smoke test: these verdicts mean nothing" if smoke else None
    )
    for claim in claims:
        seeds = f"{claim.numbers['seeds_that_hold']} of {claim.numbers['seeds']}"
        table.add_row(f"{claim.figure}: {claim.claim}", "yes" if claim.holds else "[red]no[/]", seeds)
    console.print(table)
    console.print(f"Plots and numbers are in {out}/")
    return 0

"""`gemax compare`: compares several runs."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def compare(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN", help_behavior_hint="(one or more)")],
    /,
    out: Annotated[Path, arg(metavar="FILE")] = Path("compare.png"),
) -> int:
    """Compares runs in a table and one figure, grouped by environment, method and settings.

    Args:
        runs: Run directories. A run of several seeds counts as several runs.
        out: PNG file for the figure: mean return over frames, with 95 % confidence intervals.
    """
    from rich.table import Table

    from gemax.experiments.compare import COLUMNS
    from gemax.experiments.compare import compare as compare_runs
    from gemax.runs.progress import make_console

    console = make_console()
    comparison = compare_runs(*runs, out=out)
    table = Table(*COLUMNS)
    for row in comparison.rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"Figure: {out}. ± is half of a 95 % confidence interval over runs.", soft_wrap=True)
    return 0

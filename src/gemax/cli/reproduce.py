"""`gemax reproduce`: the paper's figures, with a verdict on every claim."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from gemax.experiments.claims import Claim
    from gemax.experiments.reproduction import Reproduction
    from gemax.experiments.store import Standing

SECONDS_BETWEEN_LINES = 30.0
INCOMPLETE = 1


def reproduce(
    figures: Annotated[Positional[tuple[str, ...]], arg(metavar="FIG")] = ("all",),
    /,
    out: Path = Path("results"),
    smoke: bool = False,
    jobs: int = 2,
    preset: Literal["laptop", "paper"] = "laptop",
    seeds: int | None = None,
) -> int:
    """Reproduces the paper: trains what is missing, draws every figure and decides every claim.

    Stop it whenever you like: the same command goes on from there. Finished runs are kept by their configuration.

    Args:
        figures: fig1 to fig10, passing-q, passing-normalisation, beyond-tsallis, beyond-negatives, beyond-ceiling,
            methods (all methods in all worlds), tuning; or all.
        out: The folder for report.html, README.md, claims.json, plots, curves and finished runs.
        smoke: A quick pass that only shows that everything runs. Its verdicts mean nothing.
        jobs: How many runs are trained at a time, each on its share of the cores.
        preset: `laptop` takes hours on two cores, `paper` has the paper's tables and takes days.
        seeds: How many seeds, instead of five.
    """
    from gemax.experiments.registry import MODULES
    from gemax.experiments.reproduction import Order
    from gemax.experiments.reproduction import reproduce as make

    names = list(MODULES) if "all" in figures else list(dict.fromkeys(figures))
    with Bar() as bar:
        made = make(Order(names, out, preset, smoke, jobs, seeds), bar.show, bar.tell)
    return tell_outcome(made, out, smoke=smoke)


class Bar:
    """How far all of it is, and how long it will take."""

    def __init__(self) -> None:
        from rich import progress as bars
        from rich.console import Console
        from rich.table import Column

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._bar = bars.Progress(
            bars.TextColumn("{task.fields[finished]} runs"),
            bars.BarColumn(bar_width=20),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[left]}"),
            bars.TextColumn("{task.fields[running]}", table_column=Column(ratio=1, no_wrap=True)),
            console=self._console,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, finished="", left="", running="")
        self._started, self._said = time.monotonic(), 0.0

    def __enter__(self) -> "Bar":
        """Draws the line."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves the line as it is."""
        self._bar.stop()

    def show(self, standing: "Standing") -> None:
        """Moves the line; without a terminal, says something now and then."""
        finished, running = f"{standing.finished} of {standing.of}", ", ".join(standing.running)
        left = time_left(standing, time.monotonic() - self._started)
        self._bar.update(
            self._task, total=standing.work, completed=standing.work_done, finished=finished, left=left,
            running=running,
        )  # fmt: skip
        if not self._console.is_terminal and time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self.tell(f"{finished} runs, {standing.work_done / standing.work:.0%}, {left}: {running}")

    def tell(self, words: str) -> None:
        """Says something above the line."""
        self._console.print(words, soft_wrap=True)


def time_left(standing: "Standing", seconds: float) -> str:
    """By what has been done so far; nothing is said of the first per cent."""
    share = standing.work_done / standing.work
    if share < 0.01:
        return "time left not known yet"
    minutes = seconds * (1 / share - 1) / 60
    return f"{minutes / 60:.1f} h left" if minutes >= 90 else f"{minutes:.0f} min left"


def tell_outcome(made: "Reproduction", out: Path, *, smoke: bool) -> int:
    """Says what holds, and where everything is; gives the exit code."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for name, words in made.failures.items():
        console.print(f"{name} could not be finished: {words}", soft_wrap=True)
    if made.claims:
        _show_claims(made.claims, smoke=smoke)
    if made.claims or not made.unfinished:
        console.print(f"Report: {out / 'report.html'}; plots and numbers beside it.", soft_wrap=True)
    if made.unfinished:
        console.print(
            f"Not complete yet: {', '.join(made.unfinished)}. The same command goes on.", soft_wrap=True
        )
    if made.stopped_by is not None:
        return 128 + made.stopped_by
    return INCOMPLETE if made.unfinished else 0


def _show_claims(claims: "list[Claim]", *, smoke: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("claim", "measured", "bar", "verdict")
    table.title = "Smoke test: these verdicts mean nothing" if smoke else None
    colours = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
    for claim in claims:
        low, high = claim.interval
        measured = f"{claim.value:.3g} ({low:.3g} to {high:.3g})"
        table.add_row(
            f"{claim.figure}: {claim.claim}",
            measured,
            claim.bar,
            f"[{colours[claim.verdict]}]{claim.verdict}[/]",
        )
    Console(emoji=False).print(table)

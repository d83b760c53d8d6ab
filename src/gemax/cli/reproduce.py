"""`gemax reproduce`: reproduces the paper's figures and tests its claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gemax.errors import ExitCode
from gemax.launch.options import RunLaunchOptions

if TYPE_CHECKING:
    from gemax.experiments.claims import Claim
    from gemax.experiments.reproduction import Reproduction


def reproduce(
    figures: Annotated[Positional[tuple[str, ...]], arg(metavar="FIG")] = ("all",),
    /,
    out: Path = Path("results"),
    smoke: bool = False,
    jobs: int = 2,
    preset: Literal["laptop", "paper"] = "laptop",
    seeds: Annotated[int | None, arg(metavar="INT")] = None,
    allow_dirty: bool = False,
    launch: OmitArgPrefixes[RunLaunchOptions] = RunLaunchOptions(),  # noqa: B008 (it is immutable)
) -> int:
    """Reproduces the paper: trains the missing runs, plots every figure and tests every claim.

    It can be stopped at any time, and the same command continues. Finished runs are kept and shared between figures.

    Args:
        figures: fig1 to fig10, ablation-q, ablation-normalisation, ablation-returns, control-shift, extension-tsallis,
            extension-negatives, extension-memory, extension-scales, extension-ceiling, methods (all methods in all
            environments); or all. Not part of all: tuning-shared and tuning (searches), paper-rooms, paper-car,
            paper-leaves and paper-noise (the paper's own settings).
        out: The folder for report.html, README.md, claims.json, plots, curves and finished runs.
        smoke: Run tiny versions of everything, as a quick check. The verdicts have no meaning.
        jobs: Number of runs to train at the same time. They share the cores.
        preset: `laptop` takes hours on two cores, `paper` has the paper's settings and takes days.
        seeds: Number of seeds per experiment. The default is five, and ten for figures 3 and 4 in gridworlds.
        allow_dirty: Train although the source tree has uncommitted changes.
        launch: Where the runs execute.
    """
    from gemax.cli.runs_bar import RunsBar
    from gemax.experiments.registry import ALL
    from gemax.experiments.reproduction import Options
    from gemax.experiments.reproduction import reproduce as reproduce_experiments
    from gemax.launch.ray_worker import run_workers

    names = list(ALL) if "all" in figures else list(dict.fromkeys(figures))
    with RunsBar() as bar, run_workers(launch, jobs, bar.log) as make_workers:
        options = Options(names, out, preset, smoke, jobs, seeds, allow_dirty, make_workers)
        reproduction = reproduce_experiments(options, bar.show, bar.log)
    return print_outcome(reproduction, out, smoke=smoke)


def print_outcome(reproduction: "Reproduction", out: Path, *, smoke: bool) -> int:
    """Prints failures, claims and the path of the report. Returns the exit code."""
    from gemax.runs.progress import make_console

    console = make_console()
    for name, error in reproduction.failures.items():
        console.print(f"{name} failed: {error}", soft_wrap=True)
    if reproduction.claims:
        _print_claims(reproduction.claims, smoke=smoke)
    if reproduction.claims or not reproduction.unfinished:
        console.print(f"Report: {out / 'report.html'}, with plots and numbers beside it.", soft_wrap=True)
    if reproduction.unfinished:
        unfinished = ", ".join(reproduction.unfinished)
        console.print(f"Not complete yet: {unfinished}. Run the same command to continue.", soft_wrap=True)
    if reproduction.stop_signal is not None:
        return 128 + reproduction.stop_signal
    return ExitCode.INCOMPLETE if reproduction.unfinished else ExitCode.OK


def _print_claims(claims: "list[Claim]", *, smoke: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("claim", "measured", "bar", "verdict")
    table.title = "Smoke test: these verdicts have no meaning" if smoke else None
    colours = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
    for claim in claims:
        low, high = claim.interval
        measured = f"{claim.seed_count or f'{claim.value:.3g}'} ({low:.3g} to {high:.3g})"
        measured += f"; not solved: {claim.unsolved}" if claim.unsolved else ""
        verdict = f"[{colours[claim.verdict]}]{claim.verdict}[/]"
        table.add_row(f"{claim.figure}: {claim.claim}", measured, claim.bar, verdict)
    Console(emoji=False).print(table)

"""`gemax bench explore`: compares the methods on sparse-reward tasks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gemax.errors import ExitCode
from gemax.launch.options import RunLaunchOptions

if TYPE_CHECKING:
    from gemax.experiments.store import Outcome


def bench(
    suite: Annotated[Positional[Literal["explore"]], arg(metavar="explore")],
    /,
    out: Annotated[Path | None, arg(metavar="DIR")] = None,
    tasks: Annotated[tuple[str, ...] | None, arg(metavar="TASK …")] = None,
    methods: Annotated[tuple[str, ...] | None, arg(metavar="METHOD …")] = None,
    seeds: Annotated[int | None, arg(metavar="N")] = None,
    jobs: int = 2,
    frames_scale: float = 1.0,
    smoke: bool = False,
    allow_dirty: bool = False,
    launch: OmitArgPrefixes[RunLaunchOptions] = RunLaunchOptions(),  # noqa: B008 (it is immutable)
) -> int:
    """Trains the methods on a suite of sparse-reward tasks with default settings, and writes one table.

    It can be stopped at any time, and the same command continues: finished runs are kept, and the others resume from
    their checkpoints. The table contains all finished runs in the folder, also those of other tasks and methods.

    Args:
        suite: The suite: explore.
        out: The folder for explore.md, explore.png and the records in explore/. The default is results, or
            runs/explore-smoke with --smoke.
        tasks: Names of tasks (key-and-door, door-key, deep-sea-10, …), or groups of tasks: core, deep-sea, large, all.
            The default is core and deep-sea, or all with --smoke.
        methods: gem (the default of `gemax train`), gem-global, gem-episode, ngu, ngu-rnd, rnd, e3b, re3, none; or all.
            If omitted: all of them, but only gem in the group large and in most sizes of DeepSea.
        seeds: Number of seeds per task and method. The default is five for gem and three for the others.
        jobs: Number of runs to train at the same time. They share the cores.
        frames_scale: Factor of the tasks' budgets of frames.
        smoke: Train a few updates of every task with tiny networks, as a quick check. The numbers have no meaning.
        allow_dirty: Train although the source tree has uncommitted changes.
        launch: Where the runs execute.
    """
    from gemax.cli.runs_bar import RunsBar
    from gemax.experiments.explore.runner import Options, bench_explore
    from gemax.experiments.explore.suite import find_methods, find_tasks
    from gemax.launch.ray_worker import run_workers

    folder = out or Path("runs/explore-smoke" if smoke else "results")
    options = Options(
        find_tasks(tasks or (("all",) if smoke else ("core", "deep-sea"))),
        folder,
        None if methods is None else find_methods(methods),
        seeds,
        jobs,
        frames_scale,
        smoke,
        allow_dirty,
    )
    with RunsBar() as bar, run_workers(launch, jobs, bar.log) as make_workers:
        options = options._replace(make_workers=make_workers)
        outcome = bench_explore(options, bar.show, lambda record: bar.log(describe(record)))
    return print_outcome(outcome, folder)


def describe(record: dict[str, Any]) -> str:
    """Returns the line about a finished run."""
    from gemax.experiments.explore.table import format_frames

    solved = "solved" if record["is_solved"] else "not solved"
    first = record["frames_to_solve"]
    return (
        f"{record['task']:<24} {record['method']:<12} seed {record['seed']}  {solved:<10}  "
        f"frames to solve {format_frames(float('inf') if first is None else first):<7}  "
        f"return {record['return_sampled']:.3g} sampled, {record['return_greedy']:.3g} greedy  "
        f"{record['seconds']:,.0f} s"
    )


def print_outcome(outcome: "Outcome", folder: Path) -> int:
    """Prints failures and the table. Returns the exit code."""
    from gemax.experiments.explore.runner import TABLE
    from gemax.runs.progress import make_console

    console = make_console()
    for name, error in outcome.failures.items():
        console.print(f"{name} failed: {error}", soft_wrap=True)
    console.print((folder / TABLE).read_text().split("\n\n", 3)[-1], soft_wrap=True)
    console.print(f"Table: {folder / TABLE}", soft_wrap=True)
    if outcome.stop_signal is not None:
        console.print("Stopped. Run the same command to continue.")
        return 128 + outcome.stop_signal
    return ExitCode.INCOMPLETE if outcome.failures else ExitCode.OK

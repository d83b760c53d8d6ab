"""Trains the missing runs of the suite, and writes their table and figure."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gemax.experiments.damaged import is_readable
from gemax.experiments.explore.plot import plot_curves
from gemax.experiments.explore.records import (
    NUM_EPISODES,
    NUM_SMOKE_EPISODES,
    is_record_of,
    load_record,
    make_record,
    save_record,
)
from gemax.experiments.explore.suite import METHODS, ExploreMethod, ExploreRun, Task, find_tasks, plan_runs
from gemax.experiments.explore.table import write_table
from gemax.experiments.records import settings_digest
from gemax.experiments.store import Outcome, Progress, RunStore, train_missing
from gemax.launch.worker import RUN, MakeWorkers, local_workers, read_commits
from gemax.runs.files import write_bytes, write_figure
from gemax.runs.provenance import check_clean, provenance
from gemax.training.config import Config

FOLDER, TABLE, FIGURE = "explore", "explore.md", "explore.png"
"""Names of the folder of the records, of the table and of the figure."""


class Options(NamedTuple):
    """The arguments of `gemax bench explore`."""

    tasks: Sequence[Task]
    out: Path
    methods: Sequence[ExploreMethod] | None = None
    """By default, all methods of each task."""
    num_seeds: int | None = None
    """By default, the number of each method."""
    jobs: int = 2
    frames_scale: float = 1.0
    smoke: bool = False
    allow_dirty: bool = False
    make_workers: MakeWorkers = local_workers
    """Where the runs execute."""


class ExploreStore(RunStore):
    """A folder of records of the suite."""

    def __init__(self, folder: Path, runs: Sequence[ExploreRun], origin: Mapping[str, Any]) -> None:
        super().__init__(folder)
        self._names = {run.config: run_name(run) for run in runs}
        by_folder = {self.run_folder(run.config).name: run for run in runs}
        self.write_record = partial(write_record, by_folder, origin)

    def name(self, config: Config) -> str:
        """Returns the name of a run."""
        return self._names[config]

    def path(self, config: Config) -> Path:
        """Returns the record of a run."""
        return record_path(self.folder, self.name(config))

    def is_finished(self, config: Config) -> bool:
        """Returns whether there is a record of the run."""
        return is_readable(self.path(config), lambda path: is_record_of(path, config))


def run_name(run: ExploreRun) -> str:
    """Returns the name of a run, which is unique for its settings."""
    return f"{run.task.name}-{run.method.name}-{run.seed}-{settings_digest(run.config)}"


def record_path(folder: Path, name: str) -> Path:
    """Returns the file of a record."""
    return folder / f"{name}.json"


def write_record(
    runs: Mapping[str, ExploreRun], origin: Mapping[str, Any], folder: Path, record: Path, quick: bool
) -> None:
    """Evaluates the finished run in a folder of the store, and writes its record."""
    commit = ", then ".join(read_commits(folder))
    num_episodes = NUM_SMOKE_EPISODES if quick else NUM_EPISODES
    save_record(
        record, make_record(runs[folder.name], folder / RUN, num_episodes, **{**origin, "commit": commit})
    )


def bench_explore(
    options: Options,
    on_progress: Callable[[Progress], None],
    on_record: Callable[[dict[str, Any]], None],
) -> Outcome:
    """Trains the missing runs, `jobs` at a time, and writes the table and the figure after each of them.

    Raises:
        ValueError: A package is missing, or the source tree has uncommitted changes.
    """
    check_packages(options.tasks)
    origin = provenance()
    if not (options.allow_dirty or options.smoke):
        check_clean(origin["commit"])
    settings = {"frames_scale": options.frames_scale, "smoke": options.smoke}
    runs = plan_runs(options.tasks, options.methods, num_seeds=options.num_seeds, **settings)
    folder = options.out / FOLDER
    store, shown = ExploreStore(folder, runs, origin), set()

    def report() -> None:
        for run in runs:
            if run.config not in shown and store.is_finished(run.config):
                shown.add(run.config)
                on_record(load_record(store.path(run.config)))
        write_results(options, runs)

    report()
    outcome = train_missing(
        store,
        [run.config for run in runs],
        options.jobs,
        on_progress,
        report,
        quick=options.smoke,
        make_workers=options.make_workers,
    )
    write_results(options, runs, outcome.failures)
    return outcome


def write_results(
    options: Options, runs: Sequence[ExploreRun], failures: Mapping[str, str] | None = None
) -> None:
    """Writes the table and the figure of all finished runs, including those of tasks that are not selected."""
    plan = partial(plan_runs, find_tasks(["all"]), frames_scale=options.frames_scale, smoke=options.smoke)
    folder, planned = options.out / FOLDER, {run_name(run): run for run in (*runs, *plan())}
    others = {run_name(run): run for run in plan(tuple(METHODS.values()))}
    records = {
        name: load_record(record_path(folder, name))
        for name, run in (planned | others).items()
        if is_readable(record_path(folder, name), lambda path, run=run: is_record_of(path, run.config))
    }
    write_bytes(
        options.out / TABLE,
        write_table(list(planned.values()), list(records.values()), failures or {}).encode(),
    )
    if records:
        write_figure(options.out / FIGURE, plot_curves(list(records.values())))


def check_packages(tasks: Sequence[Task]) -> None:
    """Raises ValueError if a task needs a package that is not installed."""
    for task in tasks:
        if importlib.util.find_spec(task.package) is None:
            raise ValueError(f"task {task.name} needs {task.package}: pip install {task.package}")

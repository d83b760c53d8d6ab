from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gemax.experiments.explore.records import load_record
from gemax.experiments.explore.runner import run_name, write_record
from gemax.experiments.explore.suite import ExploreRun, find_methods, find_tasks, plan_runs
from gemax.launch.worker import COMMITS, CONFIG, DONE, WorkerOptions, train_run
from gemax.runs.files import write_json


class Trained(NamedTuple):
    """A run that was trained in this process for a few updates."""

    run: ExploreRun
    folder: Path
    path: Path
    record: dict[str, Any]


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    (run,) = plan_runs(find_tasks(["deep-sea-10"]), find_methods(["none"]), smoke=True)
    folder = tmp_path_factory.mktemp("explore") / run_name(run)
    write_json(folder / CONFIG, run.config.to_json())
    (folder / COMMITS).write_text("abc\ndef")
    path = folder.with_suffix(".json")
    write = partial(write_record, {run_name(run): run}, {"gemax": "0"})
    assert train_run(folder, path, WorkerOptions(folder, write, quick=True)) == DONE
    return Trained(run, folder, path, load_record(path))

"""Trains several seeds as separate runs, each in a worker: in processes of this machine, or on a cluster."""

import shutil
from collections.abc import Callable
from pathlib import Path

from gemax.experiments.store import Outcome, Progress, RunStore, train_missing
from gemax.launch.worker import RUN, MakeWorkers, WriteRecord
from gemax.runs.seed_directories import seed_folder
from gemax.training.config import Config


def copy_run(folder: Path, record: Path, quick: bool) -> None:
    """Keeps the run directory itself as the record of a run."""
    shutil.copytree(folder / RUN, record)


class SeedStore(RunStore):
    """A folder with one run directory per seed, as `gemax train --seeds N` writes it."""

    write_record: WriteRecord = staticmethod(copy_run)

    def name(self, config: Config) -> str:
        """Returns the name of a run directory."""
        return seed_folder(config.run.seed)

    def path(self, config: Config) -> Path:
        """Returns the run directory of a seed."""
        return self.folder / self.name(config)

    def is_finished(self, config: Config) -> bool:
        """Returns whether the seed has been trained."""
        return (self.path(config) / "summary.json").exists()


def train_seeds(
    config: Config,
    num_seeds: int,
    out: Path,
    make_workers: MakeWorkers,
    jobs: int,
    on_progress: Callable[[Progress], None],
) -> Outcome:
    """Trains consecutive seeds, `jobs` at a time. The same call continues runs that were stopped."""
    store = SeedStore(out)
    configs = [config.replace(seed=config.run.seed + number) for number in range(num_seeds)]
    outcome = train_missing(store, configs, jobs, on_progress, make_workers=make_workers)
    if not store.missing(configs):
        shutil.rmtree(store.unfinished, ignore_errors=True)
    return outcome

"""The directories of a run: one for the run and, with several seeds, one subdirectory per seed."""

import re
from pathlib import Path

from gemax.envs.registry import short_name
from gemax.runs.paths import check_writable, free_path
from gemax.runs.run_directory import CONFIG, RunDirectory, check_no_run, open_nested_run
from gemax.training.config import Config


def new_run_path(config: Config, out: Path | None) -> Path:
    """Returns the directory of a new run, by default runs/ENV-METHOD-SEED.

    Raises:
        ValueError: The directory or one of its seed directories already holds a run.
        OSError: The directory is not writable.
    """
    if out == Path():
        raise ValueError("out must name a folder for the run; got an empty path, or the current folder.")
    path = free_path(Path("runs"), default_name(config)) if out is None else out
    check_writable(path)
    check_no_run(path)
    if config.run.seeds > 1:
        for seed in config.all_seeds:
            check_no_run(path / seed_folder(seed))
    return path


def default_name(config: Config) -> str:
    """Returns the default name of a run directory."""
    last = "" if config.run.seeds == 1 else f"-to-{config.all_seeds[-1]}"
    # Gymnasium ids contain characters that folder names must not have.
    env = re.sub(r"[^\w.-]+", "-", short_name(config.env.env_id))
    return f"{env}-{config.intrinsic.method}-{config.run.seed}{last}"


def check_not_grouped(path: Path, config: Config) -> None:
    """Refuses to resume one seed of several that were trained together."""
    if config.run.grouped:
        raise ValueError(
            f"{path} was trained together with other seeds. Resume them all: `gemax resume {path.parent}`."
        )


def open_seed_directories(run: RunDirectory, config: Config) -> dict[int, RunDirectory]:
    """Returns the directory of each seed. A single seed uses the run directory; others are created in it if needed."""
    if config.run.seeds == 1:
        return {config.run.seed: run}
    return {
        seed: open_nested_run(
            run, seed_folder(seed), config.replace(seed=seed, seeds=1, grouped=True).to_json()
        )
        for seed in config.all_seeds
    }


def seed_directories(run: RunDirectory, config: Config) -> dict[int, RunDirectory]:
    """Returns the directory of each seed, to read from. A single seed uses the run directory."""
    if config.run.seeds == 1:
        return {config.run.seed: run}
    if has_separate_seeds(run, config):
        return started_seeds(run.path, config)
    return {seed: RunDirectory(run.path / seed_folder(seed)) for seed in config.all_seeds}


def started_seeds(path: Path, config: Config) -> dict[int, RunDirectory]:
    """Returns the directories of the seeds that are runs already. Of separate seeds, some may wait for a process."""
    directories = {seed: RunDirectory(path / seed_folder(seed)) for seed in config.all_seeds}
    return {seed: run for seed, run in directories.items() if (run.path / CONFIG).is_file()}


def has_separate_seeds(run: RunDirectory, config: Config) -> bool:
    """Returns whether every seed of a group is a run of its own. Such a group has no metrics and checkpoints itself."""
    return config.run.seeds > 1 and not run.metrics.exists() and not run.checkpoints.exists()


def seed_folders(config: Config) -> str:
    """Returns the folder names of all seeds, as text for messages."""
    return ", ".join(map(seed_folder, config.all_seeds))


def seed_folder(seed: int) -> str:
    """Returns the name of the directory of one of several seeds."""
    return f"seed-{seed}"

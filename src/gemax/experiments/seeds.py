"""Trains several seeds as separate runs, each in a worker: in processes of this machine, or on a cluster.

`gym:` environments are always trained like this. The directory of the group has the configuration, the summary, the
learning curve, and one run directory per seed.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemax.envs.registry import CUSTOM, short_name
from gemax.errors import SeedsFailedError
from gemax.experiments import store
from gemax.experiments.store import RunStore, train_missing
from gemax.launch.worker import LOG, RUN, MakeWorkers, RunOutputs, WorkerOptions, local_workers
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.files import write_figure
from gemax.runs.handle import Run
from gemax.runs.metric_logger import mean_known
from gemax.runs.metrics_file import read_last_metrics, read_metrics
from gemax.runs.plots import learning_curve
from gemax.runs.run_directory import RunDirectory
from gemax.runs.seed_directories import new_run_path, seed_folder
from gemax.runs.session import Hooks, Outcome
from gemax.runs.stored_config import changed_config, read_trusted_config
from gemax.training.assemble import CustomParts, assemble
from gemax.training.config import Config, config_from_json, safe_changes

SECONDS_BETWEEN_READS = 0.5
"""Time between two looks at the metrics of the seeds."""


def copy_run(folder: Path, record: Path, quick: bool) -> None:
    """Keeps the run directory itself as the record of a run."""
    shutil.copytree(folder / RUN, record)


def keep_log(folder: Path, record: Path, quick: bool) -> None:
    """Keeps the output of a run that was trained in place."""
    shutil.copyfile(folder / LOG, record / LOG)


class SeedStore(RunStore):
    """A folder with one run directory per seed.

    Args:
        folder: The directory of the group.
        in_place: Whether runs are trained where they belong, so that they can be watched. A cluster copies them there.
        outputs: What the runs write beside metrics and checkpoints.
        trust: Whether the module of the environment may be imported if the runs were made elsewhere.
    """

    def __init__(self, folder: Path, in_place: bool, outputs: RunOutputs, trust: bool) -> None:
        super().__init__(folder)
        self._in_place, self._outputs, self._trust = in_place, outputs, trust

    def name(self, config: Config) -> str:
        """Returns the name of a run directory."""
        return seed_folder(config.run.seed)

    def path(self, config: Config) -> Path:
        """Returns the run directory of a seed."""
        return self.folder / self.name(config)

    def run_folder(self, config: Config) -> Path:
        """Returns the folder of a run that is being trained. Any version of gemax may continue it."""
        return self.unfinished / self.name(config)

    def is_finished(self, config: Config) -> bool:
        """Returns whether the seed has been trained with these settings."""
        run = RunDirectory(self.path(config))
        if not run.has_summary or run.read_summary()["status"] == "stopped":
            return False
        return not safe_changes(config_from_json(run.read_config()), config)

    def worker_options(self, quick: bool) -> WorkerOptions:
        """Returns what the workers that train the seeds have in common."""
        write_record = keep_log if self._in_place else copy_run
        cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", self.unfinished / "compiled")
        return WorkerOptions(Path(cache), write_record, quick, self._in_place, self._outputs, self._trust)

    def current_path(self, config: Config) -> Path:
        """Returns where the run of a seed is at the moment."""
        path = self.run_folder(config) / RUN
        return path if path.exists() else self.path(config)

    def prepare(self, configs: Sequence[Config]) -> None:
        """Moves interrupted runs to where they are trained."""
        for config in self.missing(configs):
            (self.path(config) / LOG).unlink(missing_ok=True)
            if not self._in_place and self.path(config).exists():
                self.run_folder(config).mkdir(parents=True, exist_ok=True)
                self.path(config).rename(self.run_folder(config) / RUN)
        if self._in_place:
            self.collect(configs)

    def collect(self, configs: Sequence[Config]) -> None:
        """Moves interrupted runs to where users expect them."""
        for config in configs:
            if self.current_path(config) != self.path(config) and not self.path(config).exists():
                self.current_path(config).rename(self.path(config))


def start_seeds(
    config: Config,
    out: Path | None,
    hooks: Hooks,
    custom: CustomParts | None = None,
    *,
    make_workers: MakeWorkers | None = None,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> Outcome:
    """Trains all seeds of a configuration, each as a run of its own.

    Args:
        config: The configuration of the group.
        out: The directory of the group, by default a new one.
        hooks: Receive messages, and the means over the seeds as metrics.
        custom: Refused, since other processes cannot import custom parts.
        make_workers: Makes the workers of a cluster. By default, the seeds share the cores of this machine.
        tensorboard: Also writes TensorBoard events to the directory of every seed.
        wandb: Also sends the metrics of every seed to this Weights & Biases project.

    Raises:
        ValueError: The environment cannot be imported by its name, or the configuration is wrong.
        SeedsFailedError: Some seeds failed. The others were trained to the end.
    """
    _check_importable(config, custom)
    path = new_run_path(config, out)
    # Reports errors of the configuration here, and not once per seed.
    notes = assemble(config.replace(seeds=1)).spec.notes if make_workers is None else ()
    for message in (f"Run directory: {path}", *notes):
        hooks.log(message)
    path.mkdir(parents=True, exist_ok=True)
    RunDirectory(path).write_config(config.to_json())
    outputs = RunOutputs(plots=True, snapshots=hooks.snapshots, tensorboard=tensorboard, wandb=wandb)
    return _train(config, path, hooks, make_workers, outputs)


def resume_seeds(
    path: Path,
    changes: Mapping[str, Any],
    hooks: Hooks,
    custom: CustomParts | None = None,
    *,
    checkpoint: Checkpoint = "newest",
    make_workers: MakeWorkers | None = None,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> Outcome:
    """Resumes the seeds that are not finished, with some settings changed. The arguments are those of `start_seeds`."""
    if checkpoint != "newest":
        raise ValueError(
            f"checkpoint {checkpoint} is for one run, and {path} has several seeds. Resume them one by one."
        )
    run = RunDirectory(path)
    config = changed_config(read_trusted_config(run, custom), changes)
    _check_importable(config, custom)
    run.write_config(config.to_json())
    outputs = RunOutputs(plots=True, snapshots=hooks.snapshots, tensorboard=tensorboard, wandb=wandb)
    trust = custom is not None and custom.trust
    return _train(config, path, hooks, make_workers, outputs, trust=trust)


def _check_importable(config: Config, custom: CustomParts | None) -> None:
    """Raises ValueError for parts that another process cannot import."""
    given = custom or CustomParts()
    if given.reward is not None or given.similarity is not None:
        raise ValueError(
            f"seeds must be 1 with a custom reward or similarity in {config.env.env_id}: every seed has a process of "
            "its own, which cannot import it. Train one run per seed, and put them side by side with gemax.compare."
        )
    if given.make_env is not None or short_name(config.env.env_id) == CUSTOM:
        raise ValueError(
            "seeds must be 1 for an environment that cannot be imported by its name: every seed has a process of its "
            "own. Write its class or function into a file of its own, and import it from there."
        )


def _train(
    config: Config,
    path: Path,
    hooks: Hooks,
    make_workers: MakeWorkers | None,
    outputs: RunOutputs,
    *,
    trust: bool = False,
) -> Outcome:
    seeds = SeedStore(path, make_workers is None, outputs, trust)
    configs = [config.replace(seed=seed, seeds=1) for seed in config.all_seeds]
    seeds.prepare(configs)
    if not seeds.missing(configs):
        hooks.log(f"All {len(configs)} seeds are finished.")
    monitor = SeedMonitor(seeds, configs, hooks)
    # On a cluster, Ray decides how many seeds are trained at the same time.
    jobs = len(configs) if make_workers else min(len(configs), len(os.sched_getaffinity(0)))
    outcome = train_missing(seeds, configs, jobs, monitor.show, make_workers=make_workers or local_workers)
    monitor.look()
    seeds.collect(configs)
    if not seeds.missing(configs):
        shutil.rmtree(seeds.unfinished, ignore_errors=True)
    run = Run(path)
    summary = run.summary
    RunDirectory(path).write_summary(summary)
    _write_curve(run, config)
    if outcome.failures and outcome.stop_signal is None:
        raise SeedsFailedError(_describe_failures(outcome.failures, path, len(configs)))
    return Outcome(path, summary, outcome.stop_signal)


def _write_curve(run: Run, config: Config) -> None:
    lines_of_seeds = [read_metrics(seed.path / "metrics.jsonl") for seed in run.seeds.values()]
    if any(lines_of_seeds):
        title = f"{config.env.env_id}, mean of seeds"
        ceiling = run.summary["entropy_ceiling"]
        figure = learning_curve(title, run._lines, ceiling, lines_of_seeds)
        write_figure(run.path / "learning_curve.png", figure)


def _describe_failures(failures: Mapping[str, str], path: Path, num_seeds: int) -> str:
    reasons = " ".join(f"{name}: {reason.rstrip('.')}." for name, reason in failures.items())
    others = "" if len(failures) == num_seeds else " The other seeds are finished."
    return (
        f"{len(failures)} of {num_seeds} seeds failed.{others} {reasons} `gemax resume {path}` continues all."
    )


class SeedMonitor:
    """Follows the seeds while they train: shows the means of their metrics, and passes their warnings on.

    Args:
        seeds: The store of the seeds.
        configs: The configuration of each seed.
        hooks: Receive the metrics and the warnings.
    """

    def __init__(self, seeds: SeedStore, configs: Sequence[Config], hooks: Hooks) -> None:
        self._store, self._configs, self._hooks = seeds, configs, hooks
        self._next_look = 0.0
        self._updates: list[int] = []
        self._num_logged = dict.fromkeys(map(seeds.name, configs), 0)

    def show(self, progress: store.Progress) -> None:
        """Shows the progress of the seeds, at most every half a second."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SECONDS_BETWEEN_READS
            self.look(progress.running)

    def look(self, running: Sequence[str] = ()) -> None:
        """Reads the last metrics and the new warnings of every seed."""
        for config in self._configs:
            self._pass_warnings_on(config)
        last = {
            self._store.name(config): read_last_metrics(self._store.current_path(config) / "metrics.jsonl")
            for config in self._configs
        }
        updates = [0 if line is None else line["update"] for line in last.values()]
        lines = [line for line in last.values() if line is not None]
        if not lines or updates == self._updates or self._hooks.callback is None:
            return
        self._updates = updates
        frames = [0 if line is None else line["frames"] for line in last.values()]
        speeds = [line["frames"] / max(line["seconds"], 1e-9) for name in running if (line := last[name])]
        self._hooks.callback(
            {name: mean_known([line.get(name) for line in lines]) for name in lines[0]}
            | {
                "update": sum(updates) // len(updates),
                "frames": sum(frames) // len(frames),
                "seeds": len(updates),
                "updates_of_seeds": updates,
                "frames_per_second": sum(speeds),
            }
        )

    def _pass_warnings_on(self, config: Config) -> None:
        name = self._store.name(config)
        for path in (self._store.run_folder(config) / LOG, self._store.path(config) / LOG):
            with contextlib.suppress(OSError):
                # The last line may be incomplete.
                lines = path.read_text(errors="replace").split("\n")[:-1]
                for line in lines[self._num_logged[name] :]:
                    if line.startswith("Warning"):
                        self._hooks.log(f"{name}: {line}")
                self._num_logged[name] = max(self._num_logged[name], len(lines))
                return

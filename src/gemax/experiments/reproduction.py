"""Reproduces experiments: trains the missing runs, then writes figures, claims and the report."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gemax.experiments.claims import Claim
from gemax.experiments.computed import Computed, Training
from gemax.experiments.curves import curves_csv
from gemax.experiments.experiment import Experiment, seed_configs
from gemax.experiments.records import GENERATION, Record, changed_settings
from gemax.experiments.registry import find_experiment
from gemax.experiments.report import write_report
from gemax.experiments.store import Progress, RunStore, train_missing
from gemax.launch.worker import MakeWorkers, local_workers
from gemax.runs.files import write_bytes, write_figure, write_json
from gemax.runs.provenance import check_clean, provenance
from gemax.stopping import check_stop
from gemax.training.config import Config, Preset


class Options(NamedTuple):
    """The arguments of `gemax reproduce`."""

    names: Sequence[str]
    out: Path
    preset: Preset = "laptop"
    smoke: bool = False
    jobs: int = 2
    seeds: int | None = None
    """Number of seeds per label. By default, the number of each experiment."""
    allow_dirty: bool = False
    """Whether to train from a source tree with uncommitted changes."""
    make_workers: MakeWorkers = local_workers
    """Where the runs execute."""


class Reproduction(NamedTuple):
    """The result of `reproduce`."""

    claims: list[Claim]
    failures: dict[str, str]
    """Error messages by the names of the runs."""
    unfinished: list[str]
    """Experiments with missing runs."""
    stop_signal: int | None
    """The signal that stopped the training, if any."""


def reproduce(
    options: Options, on_progress: Callable[[Progress], None], log: Callable[[str], None]
) -> Reproduction:
    """Trains the missing runs and writes each experiment as soon as its runs are complete.

    Raises:
        ValueError: An experiment is unknown, or the source tree has uncommitted changes.
    """
    store = RunStore(options.out / "runs")
    experiments = {name: find_experiment(name) for name in options.names}
    configs = {
        name: seed_configs(experiment, options.preset, smoke=options.smoke, num_seeds=options.seeds)
        for name, experiment in experiments.items()
    }
    # Read before any file is written, since a changed tree marks the commit as dirty.
    versions = provenance()
    if not (options.allow_dirty or options.smoke):
        check_clean(versions["commit"])
    pending, claims = dict(experiments), []
    check_stop()

    def write_complete_experiments() -> None:
        for name in list(pending):
            if store.missing(_ordered_by_seed(configs[name])):
                continue
            experiment = pending.pop(name)
            claims.extend(_write_experiment(name, experiment, configs[name], store, options, versions))
            log(f"{name}: {experiment.title}")

    write_complete_experiments()
    needed = [config for name in pending for config in _ordered_by_seed(configs[name])]
    outcome = train_missing(
        store,
        needed,
        options.jobs,
        on_progress,
        write_complete_experiments,
        quick=options.smoke,
        make_workers=options.make_workers,
    )
    write_report(options.out, smoke=options.smoke)
    return Reproduction(claims, outcome.failures, list(pending), outcome.stop_signal)


def _ordered_by_seed(configs: dict[str, list[Config]]) -> list[Config]:
    """Returns all configurations ordered by seed, so that every label has a result early."""
    num_seeds = max(map(len, configs.values()), default=0)
    return [row[seed] for seed in range(num_seeds) for row in configs.values() if seed < len(row)]


def _write_experiment(
    name: str,
    experiment: Experiment,
    configs: dict[str, list[Config]],
    store: RunStore,
    options: Options,
    versions: dict[str, Any],
) -> Sequence[Claim]:
    """Analyses one experiment and writes its files."""
    out = options.out
    runs: Any
    if experiment.compute is not None:
        check_stop()
        computed = experiment.compute(store.folder, options.smoke)
        runs, trainings = computed if isinstance(computed, Computed) else Computed(computed)
    else:
        runs = {label: [store.load(config) for config in row] for label, row in configs.items()}
        trainings = {label: [_training_of(record) for record in row] for label, row in runs.items()}
        if trainings:
            write_bytes(out / "curves" / f"{name}.csv", curves_csv(runs).encode())
    result = experiment.analyse(runs)
    if result.figure is not None:
        write_figure(out / f"{name}.png", result.figure)
    content = {
        "figure": name,
        "title": experiment.title,
        "claim": experiment.claim,
        "command": _command(name, options),
        "generation": GENERATION,
        **_training_content(trainings),
        **versions,
        "plots": [] if result.figure is None else [f"{name}.png"],
        "table": result.table,
        "choices": dict(result.choices),
        "claims": [claim._asdict() for claim in result.claims],
        "configurations": {label: changed_settings(row[0].config) for label, row in trainings.items()},
    }
    write_json(out / f"{name}.json", content)
    return result.claims


def _training_of(record: Record) -> Training:
    return Training(record.config, ", then ".join(record.commits), record.summary["seconds"])


def _training_content(trainings: Mapping[str, Sequence[Training]]) -> dict[str, Any]:
    """Returns what the JSON file says about the runs. The preset is None if an experiment has no runs.

    The preset is that of the runs, because some experiments have their own.
    """
    rows = [training for row in trainings.values() for training in row]
    commits = Counter[str]()
    for training in rows:
        commits[training.commit] += training.config.run.seeds
    return {
        "preset": next((training.config.run.preset for training in rows), None),
        "runs": commits.total(),
        "trained_at": dict(commits),
        "seconds_of_training": round(sum(training.seconds for training in rows), 1),
    }


def _command(name: str, options: Options) -> str:
    flags = f" --preset {options.preset}" if options.preset != "laptop" else ""
    flags += f" --seeds {options.seeds}" if options.seeds is not None else ""
    return f"gemax reproduce {name}{flags}{' --smoke' if options.smoke else ''}"

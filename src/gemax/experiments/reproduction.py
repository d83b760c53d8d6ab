"""From names of experiments to figures, verdicts and a report: what is missing is trained, the rest is there."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gemax.experiments.claims import Claim
from gemax.experiments.curves import curves_csv
from gemax.experiments.experiment import Experiment, Shown, configs_of
from gemax.experiments.registry import experiment_of
from gemax.experiments.report import write_report
from gemax.experiments.store import Standing, Store, make_missing
from gemax.runs.files import write_bytes, write_figure, write_json
from gemax.runs.provenance import provenance
from gemax.training.config import Config, Preset

Tell = Callable[[str], None]


class Order(NamedTuple):
    """What was asked for."""

    names: Sequence[str]
    out: Path
    preset: Preset = "laptop"
    smoke: bool = False
    jobs: int = 2
    seeds: int | None = None
    """Other than the experiments' own number."""


class Reproduction(NamedTuple):
    """What became of it."""

    claims: list[Claim]
    failures: dict[str, str]
    """Runs that could not be finished, and why."""
    unfinished: list[str]
    """Experiments that lack some of their runs."""
    stopped_by: int | None


def reproduce(order: Order, watch: Callable[[Standing], None], tell: Tell) -> Reproduction:
    """Trains, draws and decides. Each experiment is written as soon as its last run is there."""
    store = Store(order.out / "runs")
    experiments = {name: experiment_of(name) for name in order.names}
    configs = {name: _configs(experiment, order) for name, experiment in experiments.items()}
    # Asked before anything is written, which may itself change what the commit says.
    facts = provenance()
    waiting, claims = dict(experiments), []

    def show_what_is_complete() -> None:
        for name in list(waiting):
            if store.missing(_seed_by_seed(configs[name])):
                continue
            experiment = waiting.pop(name)
            claims.extend(_show(experiment, configs[name], store, order, facts))
            tell(f"{name}: {experiment.title}")

    show_what_is_complete()
    everything = [config for name in waiting for config in _seed_by_seed(configs[name])]
    outcome = make_missing(store, everything, order.jobs, watch, show_what_is_complete, quick=order.smoke)
    write_report(order.out, smoke=order.smoke)
    return Reproduction(claims, outcome.failures, list(waiting), outcome.stopped_by)


def _configs(experiment: Experiment, order: Order) -> dict[str, list[Config]]:
    if order.seeds is not None and experiment.num_seeds > 1:
        experiment = experiment._replace(num_seeds=order.seeds)
    return configs_of(experiment, order.preset, order.smoke)


def _seed_by_seed(configs: dict[str, list[Config]]) -> list[Config]:
    """First seeds first: what is compiled for them serves the others, and a picture of everything comes early."""
    rows = list(configs.values())
    most = max(map(len, rows), default=0)
    return [row[seed] for seed in range(most) for row in rows if seed < len(row)]


def _show(
    experiment: Experiment,
    configs: dict[str, list[Config]],
    store: Store,
    order: Order,
    facts: dict[str, Any],
) -> list[Claim]:
    """Draws and decides one experiment, and writes its files."""
    started, out = time.monotonic(), order.out
    if experiment.work is not None:
        runs: Any = experiment.work(store.folder, order.smoke)
        seconds, num_runs = time.monotonic() - started, 0
    else:
        runs = {label: [store.load(config) for config in row] for label, row in configs.items()}
        records = [record for row in runs.values() for record in row]
        seconds, num_runs = sum(record.facts["seconds"] for record in records), len(records)
        if records:
            write_bytes(out / "curves" / f"{experiment.name}.csv", curves_csv(runs).encode())
    shown: Shown = experiment.show(runs)
    for name, figure in shown.figures.items():
        write_figure(out / f"{name}.png", figure)
    write_json(
        out / f"{experiment.name}.json",
        {
            "figure": experiment.name,
            "title": experiment.title,
            "claim": experiment.claim,
            "command": _command(experiment.name, order),
            "preset": order.preset,
            "runs": num_runs,
            "seconds_of_training": round(seconds, 1),
            **facts,
            "pictures": [f"{name}.png" for name in shown.figures],
            "table": shown.table,
            "claims": [claim._asdict() for claim in shown.claims],
            "configurations": {label: _differences(row[0]) for label, row in configs.items()},
        },
    )
    return shown.claims


def _differences(config: Config) -> dict[str, Any]:
    """What a configuration has that is not the default: enough to type it."""
    default = Config()
    return {name: value for name, value in vars(config).items() if value != getattr(default, name)}


def _command(name: str, order: Order) -> str:
    flags = f" --preset {order.preset}" if order.preset != "laptop" else ""
    flags += f" --seeds {order.seeds}" if order.seeds is not None else ""
    return f"gemax reproduce {name}{flags}{' --smoke' if order.smoke else ''}"

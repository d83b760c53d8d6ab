"""The search for the settings that all methods share: one search, in which every method takes part.

One setting at a time is changed, for every method. A value's score is the mean over methods of the area under the curve
of the return, relative to the method's largest area in that environment, so that no method counts more than another. A
method that learns with no value has no vote. C only matters to GEM. Its values are tried in the same search, and the
other methods' areas do not depend on them. All values of the number of environments train for the same frames.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.fig4 import ENV_IDS, TITLES
from gemax.experiments.measures import return_areas
from gemax.experiments.records import solved_return
from gemax.experiments.tables import markdown_table

FIRST_SEED = 100
"""First seed of both searches. Figures use seeds from 0."""
FIGURE_UPDATES = {"two-rooms": 500, "sixteen-leaves": 1800, "mountain-car": 1000, "cartpole-swingup": 4500}
"""Length of the runs of the figures, with the number of environments of `START`."""
UPDATES = {"two-rooms": 500, "sixteen-leaves": 1200, "mountain-car": 1000, "cartpole-swingup": 3400}
"""Length of the runs of both searches, with the number of environments of `START`. In 16-Leaves it is two thirds of
that of the figures and in the swing-up three quarters, since these two take most of the time. In half of it, GEM learns
too little in the swing-up to tell its trials apart."""
START: dict[str, dict[str, Any]] = {
    "two-rooms": {"entropy_cost": 1e-3, "num_envs": 64, "vtrace_lambda": 0.95, "adjacency_scale": 1.0},
    "sixteen-leaves": {"entropy_cost": 4e-3, "num_envs": 128, "vtrace_lambda": 0.97, "adjacency_scale": 1.0},
    "mountain-car": {"entropy_cost": 1e-2, "num_envs": 64, "vtrace_lambda": 0.95, "adjacency_scale": 1.0},
    "cartpole-swingup": {
        "entropy_cost": 2e-2,
        "num_envs": 64,
        "vtrace_lambda": 0.95,
        "adjacency_scale": 10.0,
    },
}
"""The settings that the search starts from. They are not read from the presets, which its result changes."""
START_SCALES: dict[str, dict[str, dict[str, float]]] = {
    "two-rooms": {
        "gem": {"intrinsic_scale": 0.005, "intrinsic_shift": 0.005},
        "rnd": {"intrinsic_scale": 0.5},
        "ngu": {"intrinsic_scale": 0.009},
        "ngu-rnd": {"intrinsic_scale": 0.003},
    },
    "sixteen-leaves": {
        "gem": {"intrinsic_scale": 0.02, "intrinsic_shift": 0.02},
        "rnd": {"intrinsic_scale": 0.5},
        "ngu": {"intrinsic_scale": 0.0009},
        "ngu-rnd": {"intrinsic_scale": 0.0009},
    },
    "mountain-car": {
        "gem": {"intrinsic_scale": 0.25, "intrinsic_shift": 0.7},
        "rnd": {"intrinsic_scale": 50.0},
        "ngu": {"intrinsic_scale": 0.15},
        "ngu-rnd": {"intrinsic_scale": 0.07},
    },
    "cartpole-swingup": {
        "gem": {"intrinsic_scale": 0.15, "intrinsic_shift": 0.15},
        "rnd": {"intrinsic_scale": 3.0},
        "ngu": {"intrinsic_scale": 0.02},
        "ngu-rnd": {"intrinsic_scale": 0.01},
    },
}
"""Scale and shift of each method in this search."""
LEARNING_RATE = 1e-3
LAMBDAS = (0.9, 0.95, 1.0)
MULTIPLES = {"learning_rate": (0.3, 3.0), "entropy_cost": (0.3, 3.0), "num_envs": (0.5, 2.0)}
GEM_MULTIPLES = {"adjacency_scale": (0.1, 10.0)}
LOWEST_RETURNS = {"mountain-car": -1000.0}
"""The return of a policy that never reaches the goal, 0 if not listed."""
MIN_PROGRESS = 0.05
"""A method has a vote if its largest area is at least this share of the way from the lowest return to a solution."""
MARGIN = 0.05
"""Another value replaces that of the start if its score is higher by at least this. Smaller differences of single runs
are noise."""


def start_settings(env_id: str, method: str) -> dict[str, Any]:
    """Returns the settings of the trial that all others differ from in one setting."""
    return {"learning_rate": LEARNING_RATE, **START[env_id], **START_SCALES[env_id][method]}


def values_of(env_id: str, method: str) -> dict[str, list[Any]]:
    """Returns the values of each setting that a method tries, the one of the start first."""
    start = start_settings(env_id, method)
    multiples = MULTIPLES | (GEM_MULTIPLES if method == "gem" else {})
    found = {
        name: [start[name], *(_like(start[name], multiple) for multiple in factors)]
        for name, factors in multiples.items()
    }
    others = [value for value in LAMBDAS if value != start["vtrace_lambda"]]
    return found | {"vtrace_lambda": [start["vtrace_lambda"], *others]}


def _like(value: Any, multiple: float) -> Any:
    """Returns a multiple of a number, which is an integer if the number is one."""
    return round(value * multiple) if isinstance(value, int) else float(f"{value * multiple:.3g}")


def label_of(env_id: str, method: str, name: str, value: Any) -> str:
    """Returns the label of a trial."""
    return f"{env_id} {method} {name} {value:g}"


def updates_for(env_id: str, num_envs: int) -> int:
    """Returns the number of updates of a trial. One with twice the environments has half the updates."""
    return round(UPDATES[env_id] * START[env_id]["num_envs"] / num_envs)


def trial(env_id: str, method: str, name: str, value: Any) -> dict[str, Any]:
    """Returns the settings of a trial. Methods other than GEM have no shift."""
    settings = {**start_settings(env_id, method), name: value}
    if method != "gem":
        settings["intrinsic_shift"] = 0.0
    return {
        "env_id": env_id,
        "method": method,
        "updates": updates_for(env_id, settings["num_envs"]),
        **settings,
    }


def scores(runs: Runs, env_id: str, name: str) -> dict[Any, float]:
    """Returns the score of each value of a setting in an environment. 0 if no method learns with any value."""
    shares = []
    for method in TITLES:
        tried = values_of(env_id, method)
        if name not in tried:
            continue
        areas = [return_areas(runs[label_of(env_id, method, name, value)]).mean() for value in tried[name]]
        shares += [share for share in [_relative(env_id, areas)] if share is not None]
    values = values_of(env_id, "gem")[name]
    means = np.mean(shares, axis=0) if shares else np.zeros(len(values))
    return dict(zip(values, means.tolist(), strict=True))


def learns(env_id: str, areas: Sequence[float]) -> bool:
    """Returns whether the largest area is `MIN_PROGRESS` of the way from the lowest return to a solution."""
    lowest = LOWEST_RETURNS.get(env_id, 0.0)
    return bool(max(areas) - lowest >= MIN_PROGRESS * (solved_return(env_id) - lowest))


def _relative(env_id: str, areas: list[float]) -> list[float] | None:
    """Returns areas between 0, the lowest return, and 1, the largest area. None if the method does not learn."""
    if not learns(env_id, areas):
        return None
    lowest = LOWEST_RETURNS.get(env_id, 0.0)
    return [max(area - lowest, 0.0) / (max(areas) - lowest) for area in areas]


def choose(found: dict[Any, float]) -> Any:
    """Returns the value with the highest score, or the first one, that of the start, if it is within `MARGIN`."""
    start, best = next(iter(found)), max(found, key=found.__getitem__)
    return best if found[best] - found[start] >= MARGIN else start


def analyse(runs: Runs) -> FigureResult:
    """Makes the table of the scores, the value of the start first, and chooses a value of each setting."""
    rows: list[list[str]] = []
    choices: dict[str, dict[str, Any]] = {env_id: {} for env_id in ENV_IDS}
    for env_id in ENV_IDS:
        for name in values_of(env_id, "gem"):
            found = scores(runs, env_id, name)
            best = choices[env_id][name] = choose(found)
            if name == "num_envs":
                # As many frames as in the search.
                choices[env_id]["figure_updates"] = round(
                    FIGURE_UPDATES[env_id] * START[env_id]["num_envs"] / best
                )
            cells = [f"{value:g}: {score:.2f}" for value, score in found.items()]
            rows.append([ENVS[env_id].title, name, "; ".join(cells), f"**{best:g}**"])
    head = ["environment", "setting", "value: mean share of each method's best area", "chosen"]
    return FigureResult(None, table=markdown_table(head, rows), choices=choices)


EXPERIMENT = Experiment(
    "The search for shared settings",
    f"Every method takes part. One seed ({FIRST_SEED}), one setting changed at a time, the value of the start first. "
    f"Another value is chosen if it is better by at least {MARGIN}.",
    analyse,
    {
        label_of(env_id, method, name, value): trial(env_id, method, name, value)
        for env_id in ENV_IDS
        for method in TITLES
        for name, values in values_of(env_id, method).items()
        for value in values
    },
    num_seeds=1,
    first_seed=FIRST_SEED,
    is_in_all=False,
)

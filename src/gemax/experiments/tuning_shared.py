"""The search for the settings that all methods share: one search, in which every method takes part.

One setting at a time is changed, for every method. A value's score is the mean over methods of the area under the curve
of the return, divided by the method's largest area in that environment, so that no method counts more than another. C
only matters to GEM. Its values are tried in the same search, and the other methods' areas do not depend on them.
"""

from typing import Any

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments.experiment import Experiment, FigureResult, Runs, figure_config
from gemax.experiments.fig4 import ENV_IDS, TITLES
from gemax.experiments.measures import return_areas
from gemax.experiments.tables import markdown_table
from gemax.experiments.tuning import FIRST_SEED, search_settings

LAMBDAS = (0.9, 0.95, 1.0)
MULTIPLES = {"learning_rate": (0.3, 3.0), "entropy_cost": (0.3, 3.0), "num_envs": (0.5, 2.0)}
GEM_MULTIPLES = {"adjacency_scale": (0.1, 10.0)}


def values_of(env_id: str, method: str) -> dict[str, list[Any]]:
    """Returns the values of each setting that a method tries, the present one first."""
    present = figure_config(env_id, "laptop", method=method).flat
    multiples = MULTIPLES | (GEM_MULTIPLES if method == "gem" else {})
    found = {
        name: [present[name], *(_like(present[name], multiple) for multiple in factors)]
        for name, factors in multiples.items()
    }
    others = [value for value in LAMBDAS if value != present["vtrace_lambda"]]
    return found | {"vtrace_lambda": [present["vtrace_lambda"], *others]}


def _like(value: Any, multiple: float) -> Any:
    """Returns a multiple of a number, which is an integer if the number is one."""
    return round(value * multiple) if isinstance(value, int) else float(f"{value * multiple:.3g}")


def label_of(env_id: str, method: str, name: str, value: Any) -> str:
    """Returns the label of a trial."""
    return f"{env_id} {method} {name} {value:g}"


def scores(runs: Runs, env_id: str, name: str) -> dict[Any, float]:
    """Returns the score of each value of a setting in an environment."""
    shares = []
    for method in TITLES:
        tried = values_of(env_id, method)
        if name not in tried:
            continue
        areas = [return_areas(runs[label_of(env_id, method, name, value)]).mean() for value in tried[name]]
        shares.append(_relative(areas))
    values = values_of(env_id, "gem")[name]
    return dict(zip(values, np.mean(shares, axis=0).tolist(), strict=True))


def _relative(areas: list[float]) -> list[float]:
    """Returns areas between 0, the smallest or zero, and 1, the largest. Returns can be negative."""
    low = min(0.0, *areas)
    spread = max(areas) - low
    return [(area - low) / spread if spread > 0 else 1.0 for area in areas]


def analyse(runs: Runs) -> FigureResult:
    """Makes the table of the scores. The first value of each setting is the present one."""
    rows = []
    for env_id in ENV_IDS:
        for name in values_of(env_id, "gem"):
            found = scores(runs, env_id, name)
            best = max(found, key=found.__getitem__)
            cells = [f"{value:g}: {score:.2f}" for value, score in found.items()]
            rows.append([ENVS[env_id].title, name, "; ".join(cells), f"**{best:g}**"])
    head = ["environment", "setting", "value: mean share of each method's best area", "best"]
    return FigureResult(None, table=markdown_table(head, rows))


EXPERIMENT = Experiment(
    "The search for shared settings",
    f"Every method takes part. One seed ({FIRST_SEED}), one setting changed at a time, the present value first.",
    analyse,
    {
        label_of(env_id, method, name, value): {**search_settings(env_id, method), name: value}
        for env_id in ENV_IDS
        for method in TITLES
        for name, values in values_of(env_id, method).items()
        for value in values
    },
    num_seeds=1,
    first_seed=FIRST_SEED,
    is_in_all=False,
)

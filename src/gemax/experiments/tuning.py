"""The search for the scale of the intrinsic reward, with the same budget for every method.

The other settings of the agent are the same for all methods. For each method, five multiples of its scale in
`tab:envhyper` are trained with one seed. For GEM, s and m are multiplied together. The `laptop` preset has the multiple
with the largest area under the curve of the return. In the first three environments GEM keeps its earlier values, which
lie between the two best multiples. This favours the baselines.
"""

from typing import Any

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.fig4 import ENV_IDS, TITLES
from gemax.experiments.measures import return_areas
from gemax.experiments.tables import markdown_table

MULTIPLES = (0.3, 1.0, 3.0, 10.0, 30.0)
FEWER_MULTIPLES = {"cartpole-swingup": (1.0, 3.0, 10.0)}
"""Fewer multiples for environments where a run takes minutes. All methods have the same."""


def scaled_run(env_id: str, method: str, multiple: float) -> dict[str, Any]:
    """Returns a run of the sweep with a multiple of the paper's scale, and for GEM of the paper's shift."""
    row = ENVS[env_id]
    paper = row.paper if method == "gem" else {"intrinsic_scale": row.paper_scales[method]}
    scales = {name: paper[name] for name in ("intrinsic_scale", "intrinsic_shift") if name in paper}
    scaled = {name: float(f"{multiple * value:.3g}") for name, value in scales.items()}
    return {"env_id": env_id, "method": method, **scaled}


def analyse(runs: Runs) -> FigureResult:
    """Makes the table of all scores and the best scales."""
    rows = []
    for env_id in ENV_IDS:
        for method in TITLES:
            groups = [runs.get(f"{env_id} {method} {multiple:g}") for multiple in MULTIPLES]
            scores = [-np.inf if records is None else return_areas(records)[0] for records in groups]
            best = int(np.argmax(scores))
            cells = ["–" if np.isinf(score) else f"{score:.3g}" for score in scores]
            cells[best] = f"**{cells[best]}**"
            chosen = (groups[best] or [])[0].config.intrinsic.intrinsic_scale
            rows.append([env_id, method, *cells, f"{chosen:g}"])
    multiples = [f"× {multiple:g}" for multiple in MULTIPLES]
    return FigureResult(
        None, table=markdown_table(["environment", "method", *multiples, "chosen scale"], rows)
    )


EXPERIMENT = Experiment(
    "The search for the scales",
    "All methods have the same search budget. Area under the curve of the return, one seed each.",
    analyse,
    {
        f"{env_id} {method} {multiple:g}": scaled_run(env_id, method, multiple)
        for env_id in ENV_IDS
        for method in TITLES
        for multiple in FEWER_MULTIPLES.get(env_id, MULTIPLES)
    },
    num_seeds=1,
)

"""The search for the scale and the shift of the intrinsic reward, with the same number of trials for every method.

Every method has `NUM_TRIALS` trials per environment around the values of `tab:envhyper`, on seeds that no figure uses.
A method without a shift tries seven scales. GEM tries five scales, which multiply the whole reward with its mean, as
those of the other methods do, and two more shifts at the paper's scale. The trial with the largest mean area under the
curve of the return is the method's choice. The choices become the `laptop` presets of the paper's environments. The
search does not affect Gymnasium environments.

`tuning_shared` has the settings that all methods share. It comes first, and this search uses what it chose.
"""

from typing import Any

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.fig4 import ENV_IDS, TITLES
from gemax.experiments.measures import return_areas
from gemax.experiments.tables import markdown_table
from gemax.experiments.tuning_shared import FIRST_SEED, learns, updates_for
from gemax.training.config import Config

NUM_SEEDS = {env_id: 1 if env_id == "cartpole-swingup" else 2 for env_id in ENV_IDS}
"""Seeds of each trial. Runs in the swing-up take three to six times as long."""
SCALES = (1.0, 0.3, 3.0, 0.1, 10.0, 0.03, 30.0)
"""Multiples of the scale, for methods without a shift. Of equal trials the first is chosen, nearest to the centre."""
CENTRES = {"rnd": 50.0}
"""The multiple of the paper's scale that a method's scales lie around, if not 1. RND's return has a standard deviation
of 24 to 84 times that of its error, so that scales around the paper's value would all be too small for this agent."""
SCALES_WITH_SHIFT, SHIFTS = (1.0, 0.3, 3.0, 0.1, 10.0), (0.3, 3.0)
"""Multiples of scale and shift together, and of the shift alone, for GEM."""
NUM_TRIALS = len(SCALES)


def search_settings(env_id: str, method: str) -> dict[str, Any]:
    """Returns what all trials of a method in an environment have in common.

    Methods without a shift have the shift 0, so that their runs stay the same when the search changes GEM's preset.
    """
    settings = {
        "env_id": env_id,
        "method": method,
        "updates": updates_for(env_id, ENVS[env_id].laptop.get("num_envs", Config().env.num_envs)),
    }
    return settings if method == "gem" else settings | {"intrinsic_shift": 0.0}


def trials(env_id: str, method: str) -> list[dict[str, Any]]:
    """Returns the settings of a method's trials in an environment, from the centre outwards."""
    row = ENVS[env_id]
    if method != "gem":
        centre = row.paper_scales[method] * CENTRES.get(method, 1.0)
        return [{"intrinsic_scale": _rounded(centre * multiple)} for multiple in SCALES]
    scale, shift = row.paper["intrinsic_scale"], row.paper["intrinsic_shift"]
    multiples = [(of_both, of_both) for of_both in SCALES_WITH_SHIFT] + [
        (1.0, of_shift) for of_shift in SHIFTS
    ]
    return [
        {"intrinsic_scale": _rounded(scale * of_scale), "intrinsic_shift": _rounded(shift * of_shift)}
        for of_scale, of_shift in multiples
    ]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def label_of(env_id: str, method: str, settings: dict[str, Any]) -> str:
    """Returns the label of a trial."""
    return f"{env_id} {method} {_describe(settings)}"


def _describe(settings: dict[str, Any]) -> str:
    names = {"intrinsic_scale": "scale", "intrinsic_shift": "shift"}
    return ", ".join(f"{names[name]} {value:g}" for name, value in settings.items())


def _is_at_edge(settings: list[dict[str, Any]], chosen: dict[str, Any]) -> bool:
    """Returns whether the chosen scale is the smallest or the largest one, so that a better one may lie beyond it."""
    scales = [trial["intrinsic_scale"] for trial in settings]
    return chosen["intrinsic_scale"] in (min(scales), max(scales))


def analyse(runs: Runs) -> FigureResult:
    """Makes the table of all trials, best first, with the choice of each method.

    A method that learns in no trial has the first one, the centre. Scales at the edge of those tried are marked.
    """
    rows: list[list[str]] = []
    choices: dict[str, dict[str, Any]] = {env_id: {} for env_id in ENV_IDS}
    for env_id in ENV_IDS:
        for method in TITLES:
            settings = trials(env_id, method)
            areas = [return_areas(runs[label_of(env_id, method, trial)]).mean() for trial in settings]
            order = np.argsort(-np.array(areas), kind="stable").tolist()
            is_learned = learns(env_id, areas)
            best, *others = order if is_learned else range(len(areas))
            choices[env_id][method] = settings[best]
            described = [
                f"{_describe(trial)}: {area:.3g}" for trial, area in zip(settings, areas, strict=True)
            ]
            remark = "" if is_learned else " (no trial learned)"
            remark += " (at the edge)" if is_learned and _is_at_edge(settings, settings[best]) else ""
            chosen = f"**{described[best]}**{remark}"
            rest = "; ".join(described[index] for index in others)
            rows.append([ENVS[env_id].title, method, chosen, rest])
    head = ["environment", "method", "best trial: area under the curve", "other trials"]
    return FigureResult(None, table=markdown_table(head, rows), choices=choices)


EXPERIMENT = Experiment(
    "The search for scales and shifts",
    f"{NUM_TRIALS} trials for every method and environment, on seeds from {FIRST_SEED}: one in the swing-up, two in "
    "the other environments. Area under the curve of the return.",
    analyse,
    {
        label_of(env_id, method, settings): {
            **search_settings(env_id, method),
            **settings,
            "num_seeds": NUM_SEEDS[env_id],
        }
        for env_id in ENV_IDS
        for method in TITLES
        for settings in trials(env_id, method)
    },
    first_seed=FIRST_SEED,
    is_in_all=False,
)

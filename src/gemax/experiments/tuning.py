"""The search for the scale of the intrinsic reward: as long for every method, and before the figures are made.

The other settings of the agent are the same for all methods. Each method gets the same five multiples of the scale
that `tab:envhyper` has for it (GEM: of s and m together), with one seed. The multiple with the largest area under the
curve of the return is taken into the `laptop` preset. In the first three worlds GEM keeps the values that it had, which
lie between the two best multiples: its rivals are given the better of it.
"""

import dataclasses

import numpy as np

from gemax.experiments.budgets import configured
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import areas
from gemax.training.config import Preset
from gemax.training.presets import PAPER, PAPER_RIVALS

WORLDS = ("two-rooms", "sixteen-leaves", "mountain-car", "cartpole-swingup")
METHODS = ("gem", "rnd", "ngu", "ngu-rnd")
MULTIPLES = (0.3, 1.0, 3.0, 10.0, 30.0)
FEWER_MULTIPLES = {"cartpole-swingup": (1.0, 3.0, 10.0)}
"""Where a run takes minutes; the same for all methods."""


def sweep(preset: Preset) -> Sweep:
    """Worlds × methods × multiples of the scale."""
    runs: Sweep = {}
    for world in WORLDS:
        for method in METHODS:
            config = configured(world, preset, method=method)
            for multiple in FEWER_MULTIPLES.get(world, MULTIPLES):
                scales = {
                    name: float(f"{multiple * value:.3g}") for name, value in scales_of(world, method).items()
                }
                runs[f"{world} {method} {multiple:g}"] = dataclasses.replace(config, **scales)
    return runs


def scales_of(world: str, method: str) -> dict[str, float]:
    """What the paper's table has."""
    if method == "gem":
        return {name: PAPER[world][name] for name in ("intrinsic_scale", "intrinsic_shift")}
    return {"intrinsic_scale": PAPER_RIVALS[world][method]}


def show(runs: Runs) -> Shown:
    """Every run of the search, and what was chosen."""
    lines = [
        "| world | method | " + " | ".join(f"× {multiple:g}" for multiple in MULTIPLES) + " | chosen scale |",
        "|---|---|" + "---|" * (len(MULTIPLES) + 1),
    ]
    for world in WORLDS:
        for method in METHODS:
            found = [runs.get(f"{world} {method} {multiple:g}") for multiple in MULTIPLES]
            scores = [-np.inf if records is None else areas(records)[0] for records in found]
            best = int(np.argmax(scores))
            cells = ["–" if np.isinf(score) else f"{score:.3g}" for score in scores]
            cells[best] = f"**{cells[best]}**"
            chosen = (found[best] or [])[0].config.intrinsic_scale
            lines.append(f"| {world} | {method} | {' | '.join(cells)} | {chosen:g} |")
    return Shown({}, [], "\n".join(lines))


EXPERIMENT = Experiment(
    "tuning",
    "The search for the scales",
    "No method is tuned longer than another: area under the curve of the return, one seed each.",
    sweep,
    show,
    num_seeds=1,
)

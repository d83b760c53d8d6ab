"""The experiments by name, in the order of the report."""

from gemax.experiments import (
    ablations,
    extensions,
    fig1,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig10,
    maps,
    methods,
    tuning,
)
from gemax.experiments.experiment import Experiment

EXPERIMENTS = {
    "fig1": fig1.EXPERIMENT,
    "fig2": maps.FIG2,
    "fig3": fig3.EXPERIMENT,
    "fig4": fig4.EXPERIMENT,
    "fig5": fig5.EXPERIMENT,
    "fig6": fig6.EXPERIMENT,
    "fig7": fig7.EXPERIMENT,
    "fig8": maps.FIG8,
    "fig9": maps.FIG9,
    "fig10": fig10.EXPERIMENT,
    "ablation-q": ablations.EXPONENT,
    "ablation-normalisation": ablations.NORMALISATION,
    "extension-tsallis": extensions.TSALLIS,
    "extension-negatives": extensions.NEGATIVES,
    "extension-ceiling": extensions.CEILING,
    "methods": methods.EXPERIMENT,
    "tuning": tuning.EXPERIMENT,
}


def find_experiment(name: str) -> Experiment:
    """Returns the experiment of a name.

    Raises:
        ValueError: There is no experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"figure must be one of {', '.join(EXPERIMENTS)}, or all; got {name!r}.")
    return EXPERIMENTS[name]

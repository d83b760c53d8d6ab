"""The experiments by name, in the order of the report."""

from gemax.experiments import (
    ablations,
    contrast,
    controls,
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
    paper_preset,
    tuning,
    tuning_shared,
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
    "ablation-returns": ablations.RETURNS,
    "ablation-rnd": ablations.RND,
    "control-shift": controls.EXPERIMENT,
    "extension-tsallis": extensions.TSALLIS,
    "extension-negatives": extensions.NEGATIVES,
    "extension-memory": extensions.PAST_VISITS,
    "extension-contrast": contrast.EXPERIMENT,
    "extension-scales": extensions.SCALES,
    "extension-ceiling": extensions.CEILING,
    "methods": methods.EXPERIMENT,
    "tuning-shared": tuning_shared.EXPERIMENT,
    "tuning": tuning.EXPERIMENT,
    **paper_preset.EXPERIMENTS,
}
ALL = tuple(name for name, experiment in EXPERIMENTS.items() if experiment.is_in_all)
"""The experiments of `gemax reproduce all`."""


def find_experiment(name: str) -> Experiment:
    """Returns the experiment of a name.

    Raises:
        ValueError: There is no experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"figure must be one of {', '.join(EXPERIMENTS)}, or all; got {name!r}.")
    return EXPERIMENTS[name]

"""The experiments by name, each imported only when it is asked for."""

import importlib

from gemax.experiments.experiment import Experiment

MODULES = {
    "fig1": ("fig1", "EXPERIMENT"),
    "fig2": ("maps", "FIG2"),
    "fig3": ("fig3", "EXPERIMENT"),
    "fig4": ("fig4", "EXPERIMENT"),
    "fig5": ("fig5", "EXPERIMENT"),
    "fig6": ("fig6", "EXPERIMENT"),
    "fig7": ("fig7", "EXPERIMENT"),
    "fig8": ("maps", "FIG8"),
    "fig9": ("maps", "FIG9"),
    "fig10": ("fig10", "EXPERIMENT"),
    "passing-q": ("passing", "EXPONENT"),
    "passing-normalisation": ("passing", "NORMALISATION"),
    "beyond-tsallis": ("beyond", "TSALLIS"),
    "beyond-negatives": ("beyond", "NEGATIVES"),
    "beyond-ceiling": ("beyond", "CEILING"),
    "methods": ("methods", "EXPERIMENT"),
    "tuning": ("tuning", "EXPERIMENT"),
}
"""Where each experiment is, in the order of the report."""


def experiment_of(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in MODULES:
        raise ValueError(f"figure must be one of {', '.join(MODULES)}, or all; got {name!r}.")
    module, attribute = MODULES[name]
    return getattr(importlib.import_module(f"gemax.experiments.{module}"), attribute)

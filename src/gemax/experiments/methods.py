"""Every method in every environment, with one seed: return, coverage, entropy and speed."""

import numpy as np

from gemax.envs.registry import ENVS
from gemax.experiments.experiment import Experiment, FigureResult, Runs, figure_config
from gemax.experiments.records import Record
from gemax.experiments.tables import markdown_table
from gemax.rewards.registry import PAPER_METHODS
from gemax.training.config import Config

HEAD = (
    "environment", "method", "first crossing, update", "solved at update", "return", "cells covered",
    "entropy, share of the ceiling", "frames/s",
)  # fmt: skip


def smoke_config(config: Config) -> Config:
    """Replaces 2-Rooms with noise and 2-Keys by 2-Rooms, except for GEM. The baselines run the same code there."""
    if config.env.env_id in ("two-rooms-noisy", "two-keys") and config.intrinsic.method != "gem":
        return figure_config("two-rooms", config.run.preset, method=config.intrinsic.method)
    return config


def analyse(runs: Runs) -> FigureResult:
    """Makes the table."""
    rows = [
        [ENVS[env_id].title, method, *_row_cells(runs[f"{env_id} {method}"][0])]
        for env_id in ENVS
        for method in PAPER_METHODS
    ]
    return FigureResult(None, table=markdown_table(HEAD, rows))


def _row_cells(record: Record) -> list[str]:
    share = record.entropy_share
    return [
        *(
            "–" if np.isinf(update) else f"{update:,.0f}"
            for update in (record.first_crossing, record.solved_at)
        ),
        f"{record.curves['return'][-1]:.3g}",
        f"{record.summary['evaluation']['coverage']['mean']:.0%}",
        "–" if np.isnan(share) else f"{share:.1%}",
        f"{frames_per_second(record):,.0f}",
    ]


def frames_per_second(record: Record) -> float:
    """Returns the speed in the second half of the run, which excludes compilation."""
    frames, seconds = record.curves["frames"], record.curves["seconds"]
    half = len(frames) // 2
    return float((frames[-1] - frames[half]) / max(seconds[-1] - seconds[half], 1e-9))


EXPERIMENT = Experiment(
    "Every method in every environment",
    "One seed each. Cells are 30 × 30 bins in the continuous environments. Coverage and entropy are those of the "
    "frozen policy over 1,000 episodes. Frames per second are on one core, with another run beside it.",
    analyse,
    {
        f"{env_id} {method}": {"env_id": env_id, "method": method}
        for env_id in ENVS
        for method in PAPER_METHODS
    },
    num_seeds=1,
    smoke_config=smoke_config,
)

"""Every method in every world, one seed: what each earns, covers and costs."""

import numpy as np

from gemax.experiments.budgets import UPDATES, configured
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.plots import TITLES
from gemax.experiments.records import Record
from gemax.training.config import Config, Preset

METHODS = ("none", "oracle", "rnd", "ngu", "ngu-rnd", "gem")


def sweep(preset: Preset) -> Sweep:
    """Six worlds, six methods. In the continuous worlds the oracle counts visits to 30 × 30 bins."""
    return {
        f"{world} {method}": configured(world, preset, method=method)
        for world in UPDATES
        for method in METHODS
    }


def shown_elsewhere(config: Config) -> Config:
    """The figures have trained these methods in 2-Rooms, and in noise and with keys GEM: the rest of it is alike."""
    is_like_two_rooms = config.world in ("two-rooms-noisy", "two-keys") and config.method != "gem"
    return configured("two-rooms", config.preset, method=config.method) if is_like_two_rooms else config


def show(runs: Runs) -> Shown:
    """A table."""
    lines = [
        "| world | method | solved at update | return | places covered | entropy, share of the ceiling | frames/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for world in UPDATES:
        for method in METHODS:
            record = runs[f"{world} {method}"][0]
            lines.append(f"| {TITLES[world]} | {method} | {' | '.join(_cells(record))} |")
    return Shown({}, [], "\n".join(lines))


def _cells(record: Record) -> list[str]:
    evaluation = record.facts["evaluation"]
    solved = record.facts["solved_at_update"]
    share = record.entropy_share
    return [
        "–" if solved is None else f"{solved:,}",
        f"{record.curves['return'][-1]:.3g}",
        f"{evaluation['coverage']['mean']:.0%}",
        "–" if np.isnan(share) else f"{share:.1%}",
        f"{frames_per_second(record):,.0f}",
    ]


def frames_per_second(record: Record) -> float:
    """Over the second half of the run, when all is compiled."""
    frames, seconds = record.curves["frames"], record.curves["seconds"]
    half = len(frames) // 2
    return float((frames[-1] - frames[half]) / max(seconds[-1] - seconds[half], 1e-9))


EXPERIMENT = Experiment(
    "methods",
    "Every method in every world",
    "One seed each. Places are squares, or 30 × 30 bins in the continuous worlds; coverage and entropy are those "
    "of the frozen policy over 1,000 episodes. Frames per second on one core, with another run beside it.",
    sweep,
    show,
    num_seeds=1,
    stand_in=shown_elsewhere,
)

"""Training from Python, in one call."""

from pathlib import Path
from typing import Any

from gemax.runs.directory import free_path
from gemax.runs.session import Run, Watch, start_run
from gemax.training.presets import configure


def train(
    world: str = "two-rooms",
    *,
    method: str = "gem",
    seed: int = 0,
    out: str | Path | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> Run:
    """Trains an agent to explore a world, as `gemax train` does, and gives the run.

    Args:
        world: What to explore.
        method: Where the intrinsic reward comes from.
        seed: Of everything that is random.
        out: The run directory; by default runs/WORLD-METHOD-SEED, numbered if that is taken.
        watch: Is shown the metrics of every compiled call.
        settings: Fields of `gemax.training.config.Config`; a wrong name is refused.
    """
    config = configure(world, method=method, seed=seed, **settings)
    path = free_path(Path("runs"), f"{world}-{method}-{seed}") if out is None else Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    return start_run(config, path, watch=watch)

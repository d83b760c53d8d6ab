"""Training from Python, in one call."""

from pathlib import Path
from typing import Any

from gemax.runs.directory import free_path
from gemax.runs.seeds import run_name
from gemax.runs.session import Run, Watch, start_run
from gemax.training.assemble import Own, OwnSimilarity, assemble
from gemax.training.presets import configure


def train(
    world: str = "two-rooms",
    *,
    method: str = "gem",
    seed: int = 0,
    out: str | Path | None = None,
    watch: Watch | None = None,
    similarity: str | OwnSimilarity = "learned",
    **settings: Any,
) -> Run:
    """Trains an agent to explore a world, as `gemax train` does, and gives the run.

    Args:
        world: What to explore.
        method: Where the intrinsic reward comes from.
        seed: Of everything that is random; with `seeds=5`, the first of five that are trained together.
        out: The run directory; by default runs/WORLD-METHOD-SEED, numbered if that is taken.
        watch: Is shown the metrics of every compiled call.
        similarity: `learned`, `exponential` or `indicator`; or a function of your own, which takes two batches of
            centred observations, flattened to [N, D] and [M, D], and gives their similarities [N, M], from 0 to 1.
        settings: Fields of `gemax.training.config.Config`; a wrong name is refused.
    """
    own = Own(similarity) if callable(similarity) else None
    settings["similarity"] = "own" if callable(similarity) else similarity
    config = configure(world, method=method, seed=seed, **settings)
    path = free_path(Path("runs"), run_name(config)) if out is None else Path(out)
    return start_run(assemble(config, own=own), path, watch=watch)

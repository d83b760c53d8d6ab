"""`gemax resume`: go on with a run."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def resume(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    updates: int | None = None,
    tensorboard: bool = False,
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None,
) -> int:
    """Goes on with a run from its newest good checkpoint, bit for bit; gym: environments start new episodes.

    Args:
        run: The run directory.
        updates: Train to this many updates instead, more than it has so far.
        tensorboard: Also write TensorBoard events into the run directory.
        wandb: Also send the metrics to this project of Weights & Biases.
    """
    from gemax.cli.progress import Progress, tell_outcome
    from gemax.runs.directory import RunDirectory
    from gemax.runs.session import resume as resume_session
    from gemax.runs.sinks import sinks_for
    from gemax.training.config import config_from

    config = config_from(RunDirectory(run).read_config())
    sinks = sinks_for(tensorboard=tensorboard, wandb=wandb)
    with Progress(updates or config.updates, run) as progress:
        outcome = resume_session(run, updates=updates, watch=progress.show, sinks=sinks, tell=progress.tell)
    return tell_outcome(outcome)

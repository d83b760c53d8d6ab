"""`gemax resume`: go on with a run."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def resume(run: Annotated[Positional[Path], arg(metavar="RUN")], /) -> int:
    """Goes on with a run from its newest good checkpoint, bit for bit.

    Args:
        run: The run directory.
    """
    from gemax.cli.progress import Progress, tell_outcome
    from gemax.runs.directory import RunDirectory
    from gemax.runs.session import resume as resume_session
    from gemax.training.config import config_from

    config = config_from(RunDirectory(run).read_config())
    with Progress(config.updates, run) as progress:
        outcome = resume_session(run, watch=progress.show)
    return tell_outcome(outcome)

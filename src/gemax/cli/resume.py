"""`gemax resume`: resumes a run."""

from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from gemax.launch.options import LaunchOptions


def resume(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    updates: int | None = None,
    trust: bool = False,
    tensorboard: bool = False,
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None,
    launch: OmitArgPrefixes[LaunchOptions] = LaunchOptions(),  # noqa: B008 (it is immutable)
) -> int:
    """Resumes a run from its newest good checkpoint, bit-exactly. gym: environments start new episodes.

    Args:
        run: The run directory.
        updates: New total number of updates, more than the run has done. The default is the configured number.
        trust: Import the module of the environment although the run was made elsewhere.
        tensorboard: Also write TensorBoard events to the run directory.
        wandb: Also send metrics to this Weights & Biases project.
        launch: Where the run executes, which may differ from before.
    """
    from gemax.cli.progress import TrainingBar, report_outcome
    from gemax.launch.placement import resume as resume_run
    from gemax.runs.run_directory import RunDirectory
    from gemax.runs.session import Hooks
    from gemax.runs.sinks import sinks_for
    from gemax.training.assemble import CustomParts
    from gemax.training.config import config_from_json

    config = config_from_json(RunDirectory(run).read_config())
    sinks = sinks_for(tensorboard=tensorboard, wandb=wandb)
    with TrainingBar(updates or config.run.updates) as bar:
        hooks = Hooks(bar.log, bar.show, sinks)
        outcome = resume_run(launch, run, updates, hooks, CustomParts(trust=trust))
    return 0 if outcome is None else report_outcome(outcome)

"""`gemax resume`: resumes a run."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from tyro.conf import OmitArgPrefixes, Positional, arg

from gemax.launch.options import LaunchOptions

NewInt: TypeAlias = Annotated[int | None, arg(metavar="INT")]
NewFloat: TypeAlias = Annotated[float | None, arg(metavar="FLOAT")]


def resume(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    updates: NewInt = None,
    stop_at_return: Annotated[float | None, arg(metavar="RETURN")] = None,
    learning_rate: NewFloat = None,
    reward_learning_rate: NewFloat = None,
    entropy_cost: NewFloat = None,
    intrinsic_scale: NewFloat = None,
    intrinsic_shift: NewFloat = None,
    checkpoint_every: NewInt = None,
    keep_checkpoints: NewInt = None,
    vectorization_mode: Annotated[Literal["sync", "async"] | None, arg(metavar="sync|async")] = None,
    num_workers: NewInt = None,
    env_timeout: NewFloat = None,
    checkpoint: Annotated[Literal["newest", "best"] | int, arg(metavar="newest|best|UPDATE")] = "newest",
    trust: bool = False,
    tensorboard: bool = False,
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None,
    launch: OmitArgPrefixes[LaunchOptions] = LaunchOptions(),  # noqa: B008 (it is immutable)
) -> int:
    """Resumes a run, bit-exactly unless a setting is changed. gym: environments start new episodes.

    Args:
        run: The run directory.
        updates: New total number of updates, more than the run has done. The default is the configured number.
        stop_at_return: Stop earlier, once the mean return of the last 100 episodes is at least this.
        learning_rate: New learning rate of policy and value.
        reward_learning_rate: New learning rate of the intrinsic reward.
        entropy_cost: New weight of the policy's entropy.
        intrinsic_scale: New scale of the intrinsic reward.
        intrinsic_shift: New mean of the intrinsic reward.
        checkpoint_every: New number of updates between checkpoints.
        keep_checkpoints: New number of checkpoints to keep.
        vectorization_mode: Step gym: environments in this process (sync) or in worker processes (async).
        num_workers: New number of worker processes.
        env_timeout: New time limit of one step of all gym: environments, in seconds.
        checkpoint: The state to continue from. Later metrics and checkpoints are deleted.
        trust: Import the module of the environment although the run was made elsewhere.
        tensorboard: Also write TensorBoard events to the run directory.
        wandb: Also send metrics to this Weights & Biases project.
        launch: Where the run executes, which may differ from before.
    """
    given = dict(locals())
    from gemax.cli.calling_thread import compute_in_calling_thread
    from gemax.cli.progress import report_outcome
    from gemax.experiments.seeds import resume_seeds
    from gemax.launch.placement import resume as resume_run
    from gemax.launch.ray_worker import seed_workers
    from gemax.runs.progress import TrainingBar
    from gemax.runs.run_directory import RunDirectory
    from gemax.runs.seed_directories import has_separate_seeds
    from gemax.runs.session import Hooks
    from gemax.runs.sinks import sinks_for
    from gemax.training.assemble import CustomParts
    from gemax.training.config import SAFE_FIELDS, config_from_json

    changes = {name: given[name] for name in SAFE_FIELDS if given[name] is not None}
    config = config_from_json(RunDirectory(run).read_config())
    sinks, custom = sinks_for(tensorboard=tensorboard, wandb=wandb), CustomParts(trust=trust)
    compute_in_calling_thread()
    with TrainingBar(updates or config.run.updates) as bar:
        hooks = Hooks(bar.log, bar.show, sinks)
        if has_separate_seeds(RunDirectory(run), config):
            launch.check(config, config.run.seeds)
            with seed_workers(launch, config.run.seeds, bar.log) as make_workers:
                options = {"make_workers": make_workers, "tensorboard": tensorboard, "wandb": wandb}
                outcome = resume_seeds(run, changes, hooks, custom, checkpoint=checkpoint, **options)
        else:
            outcome = resume_run(launch, run, changes, hooks, custom, checkpoint)
    return 0 if outcome is None else report_outcome(outcome)

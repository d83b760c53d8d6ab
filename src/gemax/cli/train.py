"""`gemax train`: trains an agent to explore an environment."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from gemax.cli.flags import flag_names, with_help
from gemax.launch.options import LaunchOptions
from gemax.rewards.config import Method
from gemax.settings import field_names
from gemax.training.config import SECTION_OF, SECTIONS, Config, Preset
from gemax.training.presets import check_used, configure, updates_for


@dataclass(frozen=True)
class CommonFlags:
    """Trains an agent to explore an environment. Writes metrics, checkpoints and plots to a run directory."""

    env_id: Annotated[Positional[str], arg(metavar="ENV")] = "two-rooms"
    """Environment: a name that `gemax envs` lists, `gym:ID` for any Gymnasium environment, or `gym:MODULE:CLASS`
    for a class or function of your own (`jax:MODULE:FUNCTION` if it makes a `gemax.JaxEnv`)."""
    map: Annotated[Path | None, arg(metavar="FILE")] = None
    """Text file with a custom map to explore instead of ENV. Set the episode length with `--horizon`."""
    method: Method = "gem"
    """Intrinsic reward. `none` trains on the extrinsic reward alone, `custom` can only be used from Python."""
    preset: Preset = "laptop"
    """Defaults of all other flags: `laptop` learns in minutes on two cores, `paper` has the paper's settings."""
    seed: int = 0
    """Random seed. With `--seeds N`, the first of N consecutive seeds."""
    seeds: int = 1
    """Number of seeds to train: in one program, and for `gym:` environments in one process per seed."""
    updates: int = 500
    """Number of updates to train for."""
    frames: Annotated[int | None, arg(metavar="N")] = None
    """Number of environment steps to train for, for each seed, instead of `--updates`."""
    stop_at_return: Annotated[float | None, arg(metavar="RETURN")] = None
    """Stop earlier, once the mean return of the last 100 episodes is at least this."""
    num_envs: int = 64
    """Number of environments to step in parallel."""
    learning_rate: float = 1e-3
    """Learning rate of policy and value."""
    reward_free: bool = False
    """Hide the extrinsic reward from the agent."""
    start_from: Annotated[str, arg(name="from", metavar="RUN")] = ""
    """Run directory to copy the networks from, for example to fine-tune a reward-free run."""
    start_checkpoint: Annotated[str, arg(name="from-checkpoint", metavar="newest|best|UPDATE")] = "newest"
    """Checkpoint of the run that `--from` names."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Run directory. The default is runs/ENV-METHOD-SEED, numbered if that exists."""
    tensorboard: bool = False
    """Also write TensorBoard events to the run directory."""
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None
    """Also send metrics to this Weights & Biases project."""
    view: bool = False
    """Open `gemax view` beside the run, to watch it explore."""
    snapshots: bool = True
    """Write snapshots for `gemax view` into the run directory, at most 48 and in at most 2 % of the time."""


HIDDEN = {*field_names(CommonFlags), "map_text", "start_update", "grouped"}
"""Configuration fields without a flag in their section: they are common flags, or gemax sets them."""


@functools.cache
def section_flags() -> dict[str, type]:
    """Returns the flags of every section of the configuration, without those of its hidden fields."""
    return {name: with_help(section, HIDDEN) for name, section in SECTIONS.items()}


@functools.cache
def train_flags() -> Any:
    """Returns the dataclass of all flags: the common ones, then one group per section."""
    groups = {**section_flags(), "launch": with_help(LaunchOptions)}
    return make_dataclass(
        "TrainFlags",
        [(name, OmitArgPrefixes[flags], field(default_factory=flags)) for name, flags in groups.items()],
        bases=(with_help(CommonFlags),),
        frozen=True,
        namespace={"__doc__": CommonFlags.__doc__},
    )


def parse_flags(arguments: list[str]) -> Any:
    """Parses the flags, twice if needed: environment, preset and method decide the defaults of the other flags."""
    import tyro

    known = [argument for argument in arguments if argument not in ("-h", "--help")]
    expected = default_flags("two-rooms")
    first = tyro.cli(train_flags(), default=expected, args=known, prog="gemax train")
    default = default_flags(first.env_id, preset=first.preset, method=first.method)
    if default == expected and known == arguments:
        return first
    return tyro.cli(train_flags(), default=default, args=arguments, prog="gemax train")


def default_flags(env_id: str, **chosen: Any) -> Any:
    """Returns the flags of a preset."""
    config = configure(env_id, **chosen)
    sections = {name: flags(**vars(getattr(config, name))) for name, flags in section_flags().items()}
    common = {name: value for name, value in config.flat.items() if name in field_names(CommonFlags)}
    return train_flags()(**common, **sections)


def config_of(flags: Any) -> Config:
    """Returns the configuration that the flags describe. It holds the text of a map, not its file name."""
    settings = {name: value for section in SECTIONS for name, value in vars(getattr(flags, section)).items()}
    settings |= {name: value for name, value in vars(flags).items() if name in settings}
    if flags.map is not None:
        from gemax.envs.maps import read_map_text

        settings |= {"env_id": flags.map.stem, "map_text": read_map_text(flags.map)}
    config = Config().replace(**settings)
    return config if flags.frames is None else config.replace(updates=updates_for(config, flags.frames))


def train(arguments: list[str]) -> int:
    """Trains an agent to explore an environment. Writes metrics, checkpoints and plots to a run directory."""
    flags = parse_flags(arguments)
    names = flag_names(arguments)
    if "frames" in names and "updates" in names:
        raise ValueError("give either --frames or --updates.")
    check_used(flags.env_id, [] if flags.map is not None else [name for name in names if name in SECTION_OF])
    config = config_of(flags)
    if (
        flags.seeds > 1
        and not flags.launch.actors
        and (flags.launch.launcher == "ray" or not config.is_compiled)
    ):
        return train_seeds(flags, config)
    from gemax.cli.calling_thread import compute_in_calling_thread
    from gemax.cli.progress import report_outcome
    from gemax.launch.placement import start_run
    from gemax.runs.progress import TrainingBar
    from gemax.runs.session import Hooks
    from gemax.runs.sinks import sinks_for

    sinks = sinks_for(tensorboard=flags.tensorboard, wandb=flags.wandb)
    compute_in_calling_thread()
    with live_page(flags, config) as out:
        with TrainingBar(config.run.updates) as bar:
            hooks = Hooks(bar.log, bar.show, sinks, snapshots=flags.snapshots)
            run = start_run(flags.launch, config, out, hooks)
        return 0 if run is None else report_outcome(run)


def train_seeds(flags: Any, config: Config) -> int:
    """Trains every seed as a run of its own, in processes of this machine or on a Ray cluster."""
    from gemax.cli.progress import report_outcome
    from gemax.experiments.seeds import start_seeds
    from gemax.launch.ray_worker import seed_workers
    from gemax.runs.progress import TrainingBar
    from gemax.runs.session import Hooks
    from gemax.runs.sinks import sinks_for

    flags.launch.check(config, flags.seeds)
    sinks = {"tensorboard": flags.tensorboard, "wandb": flags.wandb}
    sinks_for(**sinks)  # raises if a package is missing
    with live_page(flags, config) as out:
        with (
            TrainingBar(config.run.updates) as bar,
            seed_workers(flags.launch, flags.seeds, bar.log) as make_workers,
        ):
            hooks = Hooks(bar.log, bar.show, snapshots=flags.snapshots)
            run = start_seeds(config, out, hooks, make_workers=make_workers, **sinks)
        return report_outcome(run)


@contextlib.contextmanager
def live_page(flags: Any, config: Config) -> Iterator[Path | None]:
    """Opens the page of the run if `--view` is given. Yields the run directory, or None for a new one."""
    if not flags.view:
        yield flags.out
        return
    from gemax.cli.view import prepare_live_view

    out, page = prepare_live_view(config, flags.out)
    with page:
        yield out

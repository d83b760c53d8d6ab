"""`gemax train`: explore a world."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, Suppress, arg

from gemax.training.config import CHOICES, Config, is_environment
from gemax.training.presets import LAPTOP, configure


@dataclass(frozen=True)
class TrainArguments(Config):
    """Trains an agent to explore a world, and leaves a run directory with metrics, checkpoints and pictures."""

    world: Annotated[Positional[str], arg(metavar="WORLD")] = "two-rooms"
    """What to explore; `gemax worlds` lists them, and gym:ID is any environment of Gymnasium."""
    map: Annotated[Path | None, arg(metavar="FILE")] = None
    """A map of your own to explore instead, as a text file; see also `--horizon`."""
    map_text: Suppress[str] = ""
    grouped: Suppress[bool] = False
    start_from: Annotated[str, arg(name="from", metavar="RUN")] = ""
    """A run whose networks this one starts with; where the method stays, with what its reward has learned too."""
    start_update: Suppress[int] = 0
    out: Path | None = None
    """The run directory. By default runs/WORLD-METHOD-SEED, numbered if that is taken."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run directory."""
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None
    """Also send the metrics to this project of Weights & Biases."""

    def __post_init__(self) -> None:
        """Looks at nothing yet: `config` does, once everything was read."""

    @property
    def config(self) -> Config:
        """What the run depends on: a map as it is now, not the name of its file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Config)}
        if self.map is not None:
            from gemax.worlds.maps import text_of

            fields |= {"world": self.map.stem, "map_text": text_of(self.map)}
        return Config(**fields)


def train(arguments: list[str]) -> int:
    """Trains an agent to explore a world, and leaves a run directory with metrics, checkpoints and pictures."""
    import tyro

    # The world's preset is the default that `--help` shows and that flags change.
    known = (argument for argument in arguments if argument in LAPTOP or is_environment(argument))
    world = next(known, "two-rooms")
    chosen: dict[str, Any] = {
        name: given_choice(arguments, f"--{name}", CHOICES[name], getattr(Config, name))
        for name in ("preset", "method")
    }
    default = TrainArguments(**dataclasses.asdict(configure(world, **chosen)))
    parsed = tyro.cli(TrainArguments, default=default, args=arguments, prog="gemax train")
    return run_and_tell(parsed)


def given_choice(arguments: list[str], flag: str, allowed: tuple[str, ...], default: str) -> str:
    """What a flag says before all is read; what it says wrong, or not at all, is left to be found out in its turn."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = argument.partition("=")
        if name == flag and (value or following) in allowed:
            return value or following
    return default


def run_and_tell(arguments: TrainArguments) -> int:
    """Runs with a progress line, and says where everything is."""
    from gemax.cli.progress import Progress, tell_outcome
    from gemax.runs.seeds import place_for
    from gemax.runs.session import start_run
    from gemax.runs.sinks import sinks_for
    from gemax.training.assemble import assemble

    config = arguments.config
    # What cannot be is refused before anything is said or made: a place that is taken, an unknown world, a bad map.
    path = place_for(config, arguments.out)
    trainer = assemble(config)
    sinks = sinks_for(tensorboard=arguments.tensorboard, wandb=arguments.wandb)
    with Progress(config.updates, path) as progress:
        run = start_run(trainer, path, watch=progress.show, sinks=sinks, tell=progress.tell)
    return tell_outcome(run)

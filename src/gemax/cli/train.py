"""`gemax train`: explore a world."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gemax.training.config import Config, laptop


@dataclass(frozen=True)
class TrainArguments(Config):
    """Trains an agent to explore a world, and leaves a run directory with metrics, checkpoints and pictures."""

    world: Annotated[Positional[str], arg(metavar="WORLD")] = "two-rooms"
    """What to explore; `gemax worlds` lists them."""
    out: Path | None = None
    """The run directory. By default runs/WORLD-METHOD-SEED, numbered if that is taken."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run directory."""

    @property
    def config(self) -> Config:
        """What the run depends on."""
        return Config(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Config)})


def train(arguments: list[str]) -> int:
    """Trains an agent to explore a world, and leaves a run directory with metrics, checkpoints and pictures."""
    import tyro

    # The world's preset is the default that `--help` shows and that flags change.
    world = next((argument for argument in arguments if not argument.startswith("-")), "two-rooms")
    default = TrainArguments(**dataclasses.asdict(laptop(world)))
    parsed = tyro.cli(TrainArguments, default=default, args=arguments, prog="gemax train")
    return run_and_tell(parsed)


def run_and_tell(arguments: TrainArguments) -> int:
    """Runs with a progress line, and says where everything is."""
    from gemax.cli.progress import Progress, tell_outcome
    from gemax.runs.session import start_run
    from gemax.runs.sinks import tensorboard_sink
    from gemax.worlds.registry import make_world

    config = arguments.config
    make_world(config.world)  # an unknown world is refused before a folder is made for it
    path = arguments.out or free_path(Path("runs"), f"{config.world}-{config.method}-{config.seed}")
    path.parent.mkdir(parents=True, exist_ok=True)
    sinks = (tensorboard_sink(path / "tensorboard"),) if arguments.tensorboard else ()
    with Progress(config.updates, path) as progress:
        run = start_run(config, path, watch=progress.show, sinks=sinks)
    return tell_outcome(run)


def free_path(folder: Path, name: str) -> Path:
    """The first of NAME, NAME-2, NAME-3 … that is not taken."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{name}-{number}", number + 1
    return path

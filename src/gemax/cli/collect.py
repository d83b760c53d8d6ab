"""`gemax collect`: writes episodes of a run's policy as a dataset."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


def collect(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    episodes: int = 1000,
    seed: int = 0,
    max_episode_steps: Annotated[int | None, arg(metavar="STEPS")] = None,
    checkpoint: Annotated[Literal["newest", "best"] | int, arg(metavar="newest|best|UPDATE")] = "newest",
    trust: bool = False,
    dataset_id: Annotated[str | None, arg(name="id", metavar="NAME")] = None,
) -> int:
    """Writes episodes of the policy of a run as a Minari dataset.

    Args:
        run: The run directory.
        episodes: Number of episodes, with sampled actions.
        seed: Random seed of the episodes.
        max_episode_steps: Step limit of `gym:` environments. The default is 10,000, or the horizon if longer.
        checkpoint: The policy that acts: the newest one, the best one (highest mean return of 100 episodes), or
            that of an update.
        trust: Import the module of the environment although the run was made elsewhere.
        dataset_id: Name of the dataset. The default is gemax/RUN-v0.
    """
    from rich.progress import Progress

    from gemax.integrations.collect import collect as collect_dataset
    from gemax.runs.progress import make_console

    console = make_console()
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("collecting", total=episodes)
        name = collect_dataset(
            run,
            episodes=episodes,
            seed=seed,
            max_episode_steps=max_episode_steps,
            dataset_id=dataset_id,
            checkpoint=checkpoint,
            callback=lambda num_written: bar.update(task, completed=num_written),
            log=console.print,
            trust=trust,
        )
    console.print(
        f'{episodes:,} episodes written. Read them with minari.load_dataset("{name}").', soft_wrap=True
    )
    return 0

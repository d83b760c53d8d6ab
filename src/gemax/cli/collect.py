"""`gemax collect`: the episodes of a run's policy as a dataset."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def collect(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    episodes: int = 1000,
    seed: int = 0,
    longest: Annotated[int | None, arg(metavar="STEPS")] = None,
    id: Annotated[str | None, arg(metavar="NAME")] = None,  # noqa: A002 (the name that a user types)
) -> int:
    """Plays fresh episodes with the policy of a run, and writes them as a Minari dataset.

    Args:
        run: The run directory.
        episodes: How many episodes are played, with drawn actions.
        seed: Which starts, rewards and actions are drawn.
        longest: Steps after which an episode of a gym: environment is cut; by default 10,000, or its horizon.
        id: What the dataset is called; by default gemax/RUN-v0.
    """
    from rich.console import Console
    from rich.progress import Progress

    from gemax.integrations.collecting import collect as collect_dataset

    console = Console(highlight=False, markup=False)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("collecting", total=episodes)
        name = collect_dataset(
            run,
            episodes=episodes,
            seed=seed,
            longest=longest,
            dataset_id=id,
            watch=lambda written: bar.update(task, completed=written),
            tell=console.print,
        )
    console.print(
        f'{episodes:,} episodes written. Read them with minari.load_dataset("{name}").', soft_wrap=True
    )
    return 0

"""`collect`: writes episodes of a run's policy as a dataset. Minari is optional."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemax.extras import require
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.evaluation import load_run
from gemax.runs.handle import Run, open_run
from gemax.runs.seed_directories import seed_folders
from gemax.settings import check_seed
from gemax.training.collector import EpisodeOptions


def collect(
    run: Run | str | Path,
    *,
    episodes: int = 1000,
    seed: int = 0,
    max_episode_steps: int | None = None,
    dataset_id: str | None = None,
    checkpoint: Checkpoint = "newest",
    callback: Callable[[int], None] = lambda num_written: None,
    log: Callable[[str], None] = print,
    **custom: Any,
) -> str:
    """Collects episodes with the policy of a run and writes a Minari dataset, as `gemax collect` does.

    Args:
        run: The run, or its directory.
        episodes: Number of episodes, with sampled actions.
        seed: Random seed of the episodes.
        max_episode_steps: Truncates episodes of `gym:` environments. The default is 10,000, or the horizon if longer.
        dataset_id: Name of the dataset. The default is gemax/RUN-v0.
        checkpoint: The policy that acts: `newest`, `best` (highest mean return of 100 episodes) or an update.
        callback: Called with the number of episodes written so far.
        log: Called with messages for the user.
        custom: The custom parts that the run was trained with: `make_env`, `reward` or `similarity`.

    Returns:
        The name of the dataset.
    """
    require("minari", "collect")
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1; got {episodes}.")
    check_seed("seed", seed)
    from gemax.integrations.minari import default_dataset_id, write_dataset

    handle = open_run(run, **custom)
    path, parts = handle.path, handle.custom
    loaded = load_run(path, parts, checkpoint)
    config = loaded.trainer.config
    if len(loaded.states) > 1:
        raise ValueError(
            f"{path} holds several policies. Collect from one of its folders: {seed_folders(config)}."
        )
    for message in loaded.messages:
        log(message)
    name = dataset_id or default_dataset_id(path, config)
    options = EpisodeOptions(episodes, seed, max_episode_steps=max_episode_steps)
    write_dataset(name, path, loaded, options, parts.make_env, callback, log)
    return name

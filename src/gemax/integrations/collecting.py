"""`collect`: the episodes of a run's policy as a dataset for others to learn from. Minari is optional."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from gemax.runs.report import load_run
from gemax.training.assemble import MakeEnvironment, Own, OwnReward, OwnSimilarity


def collect(
    run: str | Path,
    *,
    episodes: int = 1000,
    seed: int = 0,
    longest: int | None = None,
    dataset_id: str | None = None,
    watch: Callable[[int], None] = lambda written: None,
    tell: Callable[[str], None] = print,
    similarity: OwnSimilarity | None = None,
    reward: OwnReward | None = None,
    environment: MakeEnvironment | None = None,
) -> str:
    """Plays with the policy of a run and writes a Minari dataset, as `gemax collect` does; gives its id.

    Args:
        run: The run directory.
        episodes: How many episodes are played, with drawn actions.
        seed: Which starts, rewards and actions are drawn.
        longest: Steps after which an episode of a `gym:` environment is cut; by default 10,000, or its horizon.
        dataset_id: What the dataset is called; by default gemax/RUN-v0.
        watch: Is shown how many episodes are written.
        tell: Is told what a user should know.
        similarity: The same function again, where the run has one of your own.
        reward: The same intrinsic reward again, where the run has one of your own.
        environment: What makes the environment, again, where it is your own.
    """
    if find_spec("minari") is None or find_spec("h5py") is None:
        raise ValueError("collect needs Minari: pip install 'gemax[minari]'")
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1; got {episodes}.")
    from gemax.integrations.minari import default_id, write_dataset

    path = Path(run)
    loaded = load_run(path, Own(similarity, reward, environment))
    if len(loaded.states) > 1:
        folders = ", ".join(f"seed-{trained}" for trained in loaded.states)
        raise ValueError(f"{run} holds several policies. Collect from one of those below it: {folders}.")
    for message in loaded.messages:
        tell(message)
    name = dataset_id or default_id(path, loaded.trainer.config)
    write_dataset(name, path, loaded, episodes, seed, longest, environment, watch, tell)
    return name

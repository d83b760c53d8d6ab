"""The Python interface: `train`, `resume`, `evaluate` and `load`."""

import os
from pathlib import Path
from typing import Any

from gemax.envs.base import JaxEnv
from gemax.rewards.similarity import PairSimilarity
from gemax.runs import session
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.handle import Run, open_run
from gemax.runs.session import Callback
from gemax.runs.show_progress import show_progress
from gemax.runs.sinks import sinks_for
from gemax.settings import import_function
from gemax.training.assemble import CustomParts, CustomReward, MakeEnv
from gemax.training.custom_env import name_of_env
from gemax.training.presets import configure


def train(
    env: str | JaxEnv | MakeEnv = "two-rooms",
    *,
    method: str = "gem",
    seed: int = 0,
    out: str | Path | None = None,
    frames: int | None = None,
    progress: bool = True,
    callback: Callback | None = None,
    tensorboard: bool = False,
    wandb: str | None = None,
    similarity: str | PairSimilarity = "learned",
    reward: CustomReward | None = None,
    start_from: Run | str | Path | None = None,
    start_checkpoint: Checkpoint = "newest",
    **settings: Any,
) -> Run:
    """Trains an agent to explore an environment, as `gemax train` does.

    Args:
        env: A gemax environment, `gym:ID` for a Gymnasium environment, a function or class that makes a new Gymnasium
            environment, a `JaxEnv`, or a function that makes one. If the function makes vector environments,
            `num_envs` must be their size. A function that can be imported is stored in the run as `module:function`,
            so that no command needs it again.
        method: The intrinsic reward.
        seed: Random seed. With `seeds=5`, the first of five seeds. Those of a Gymnasium environment are trained in
            processes of their own, which import the environment by its name.
        out: Run directory. The default is runs/ENV-METHOD-SEED, numbered if that exists.
        frames: Number of environment steps of each seed, instead of `updates`.
        progress: Shows a progress bar in a terminal or notebook, and prints lines otherwise.
        callback: Called with the metrics of every compiled call.
        tensorboard: Also writes TensorBoard events to the run directory.
        wandb: Also sends metrics to this Weights & Biases project.
        similarity: `learned`, `exponential`, `indicator`, or a function that maps two batches of standardised,
            flattened observations, [N, D] and [M, D], to their similarities, [N, M], in [0, 1].
        reward: A custom `IntrinsicReward` instead of a method, or a function that makes one from the environment's
            `EnvSpec` and the `Config`.
        start_from: Run, or run directory, to copy the networks from, for all seeds.
        start_checkpoint: The checkpoint of `start_from`: `newest`, `best` or the number of an update.
        settings: Fields of `gemax.Config`, without their section.

    Returns:
        The run, with its metrics, its policy and more (see `gemax.Run`).
    """
    if not isinstance(env, str | JaxEnv) and not callable(env):
        raise ValueError(
            f"env must be a name, or a function or class that makes a new environment; got {env!r}. If that is an "
            "environment, pass what makes it."
        )
    if reward is not None and method not in ("gem", "custom"):
        raise ValueError(f"reward replaces the method, so give only one of them; got method {method!r}.")
    env_id, make_env = (env, None) if isinstance(env, str) else name_of_env(env)
    custom = CustomParts(similarity if callable(similarity) else None, reward, make_env)
    config = configure(
        env_id,
        frames=frames,
        method=method if reward is None else "custom",
        seed=seed,
        similarity="custom" if callable(similarity) else similarity,
        start_from="" if start_from is None else os.fspath(start_from),
        start_checkpoint=str(start_checkpoint),
        **settings,
    )
    sinks, path = sinks_for(tensorboard=tensorboard, wandb=wandb), None if out is None else Path(out)
    with show_progress(config.run.updates, progress, callback, sinks) as hooks:
        if config.run.seeds > 1 and not config.is_compiled:
            # `experiments` is above this package.
            start_seeds = import_function("gemax.experiments", "seeds:start_seeds")
            outcome = start_seeds(config, path, hooks, custom, tensorboard=tensorboard, wandb=wandb)
        else:
            outcome = session.start_run(config, path, custom, hooks)
    return Run(outcome.path, custom, outcome.stop_signal)


def resume(
    run: Run | str | Path,
    *,
    updates: int | None = None,
    checkpoint: Checkpoint = "newest",
    progress: bool = True,
    callback: Callback | None = None,
    tensorboard: bool = False,
    wandb: str | None = None,
    **settings: Any,
) -> Run:
    """Resumes a run, as `gemax resume` does. The same as `gemax.load(run).resume(...)`.

    The result is bit-exact in gemax environments. Gymnasium environments start new episodes.

    Args:
        run: The run, or its directory.
        updates: New total number of updates. The default is the configured number.
        checkpoint: The state to continue from: `newest`, `best` or an update.
        progress: Shows a progress bar.
        callback: Called with the metrics of every compiled call.
        tensorboard: Also writes TensorBoard events to the run directory.
        wandb: Also sends metrics to this Weights & Biases project.
        settings: Settings to change from now on, such as `learning_rate`, and custom parts of the run again:
            `make_env`, `reward` or `similarity`.
    """
    custom = {name: settings.pop(name) for name in CustomParts._fields if name in settings}
    return open_run(run, **custom).resume(
        updates,
        **settings,
        checkpoint=checkpoint,
        progress=progress,
        callback=callback,
        tensorboard=tensorboard,
        wandb=wandb,
    )


def evaluate(
    run: Run | str | Path,
    *,
    episodes: int = 1000,
    seed: int = 0,
    max_episode_steps: int | None = None,
    checkpoint: Checkpoint = "newest",
    **custom: Any,
) -> dict[str, Any]:
    """Evaluates the frozen policy of a run, as `gemax evaluate` does. The same as `gemax.load(run).evaluate(...)`.

    Args:
        run: The run, or its directory.
        episodes: Number of episodes with sampled actions, and number of episodes with greedy actions.
        seed: Random seed of the episodes.
        max_episode_steps: Step limit of `gym:` environments. The default is 10,000, or the horizon if longer.
        checkpoint: The policy to evaluate: `newest`, `best` (highest mean return of 100 episodes) or an update.
        custom: The custom parts of the run again: `make_env`, `reward` or `similarity`.

    Returns:
        The content of `evaluation.json`.
    """
    return open_run(run, **custom).evaluate(
        episodes, seed=seed, max_episode_steps=max_episode_steps, checkpoint=checkpoint
    )


def load(run: str | Path, **custom: Any) -> Run:
    """Returns the handle of a run directory: its metrics, its policy, its film.

    Args:
        run: The run directory.
        custom: The custom parts of the run: `make_env`, `reward` or `similarity`.

    Raises:
        ValueError: There is no run.
    """
    return open_run(run, **custom)

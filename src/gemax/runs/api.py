"""The Python interface: `train`, `resume`, `evaluate` and `load`."""

import warnings
from pathlib import Path
from typing import Any

from gemax.rewards.similarity import PairSimilarity
from gemax.runs import session
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.evaluation import evaluate_run, load_run
from gemax.runs.policy import Policy
from gemax.runs.seed_directories import seed_folders
from gemax.runs.session import Callback, Run
from gemax.training.assemble import CUSTOM_ENV, CustomParts, CustomReward, MakeEnv
from gemax.training.presets import configure


def train(
    env: str | MakeEnv = "two-rooms",
    *,
    method: str = "gem",
    seed: int = 0,
    out: str | Path | None = None,
    callback: Callback | None = None,
    similarity: str | PairSimilarity = "learned",
    reward: CustomReward | None = None,
    start_from: str | Path | None = None,
    start_checkpoint: Checkpoint = "newest",
    **settings: Any,
) -> Run:
    """Trains an agent to explore an environment, as `gemax train` does.

    Args:
        env: A gemax environment, `gym:ID` for a Gymnasium environment, or a function that returns a new Gymnasium
            environment. If the function returns vector environments, `num_envs` must be their size.
        method: The intrinsic reward.
        seed: Random seed. With `seeds=5`, the first of five seeds that are trained together.
        out: Run directory. The default is runs/ENV-METHOD-SEED, numbered if that exists.
        callback: Called with the metrics of every compiled call.
        similarity: `learned`, `exponential`, `indicator`, or a function that maps two batches of standardised,
            flattened observations, [N, D] and [M, D], to their similarities, [N, M], in [0, 1].
        reward: A custom `IntrinsicReward` instead of a method, or a function that makes one from the environment's
            `EnvSpec` and the `Config`.
        start_from: Run directory to copy the networks from, for all seeds.
        start_checkpoint: The checkpoint of `start_from`: `newest`, `best` or the number of an update.
        settings: Fields of `gemax.Config`, without their section.

    Returns:
        The run, with its directory and summary.
    """
    if not isinstance(env, str) and not callable(env):
        raise ValueError(f"env must be a name, or a function that returns an environment; got {env!r}.")
    if reward is not None and method not in ("gem", "custom"):
        raise ValueError(f"reward replaces the method, so give only one of them; got method {method!r}.")
    custom = CustomParts(
        similarity if callable(similarity) else None, reward, None if isinstance(env, str) else env
    )
    config = configure(
        env if isinstance(env, str) else CUSTOM_ENV,
        method=method if reward is None else "custom",
        seed=seed,
        similarity="custom" if callable(similarity) else similarity,
        start_from="" if start_from is None else str(start_from),
        start_checkpoint=str(start_checkpoint),
        **settings,
    )
    hooks = session.Hooks(callback=callback)
    return session.start_run(config, None if out is None else Path(out), custom, hooks)


def resume(
    run: str | Path, *, updates: int | None = None, callback: Callback | None = None, **custom: Any
) -> Run:
    """Resumes a run from its newest good checkpoint, as `gemax resume` does.

    The result is bit-exact in gemax environments. Gymnasium environments start new episodes.

    Args:
        run: The run directory.
        updates: New total number of updates. The default is the configured number.
        callback: Called with the metrics of every compiled call.
        custom: The custom parts of the run again: `make_env`, `reward` or `similarity`.
    """
    return session.resume(Path(run), updates, CustomParts(**custom), session.Hooks(callback=callback))


def evaluate(
    run: str | Path,
    *,
    episodes: int = 1000,
    seed: int = 0,
    max_episode_steps: int | None = None,
    checkpoint: Checkpoint = "newest",
    **custom: Any,
) -> dict[str, Any]:
    """Evaluates the frozen policy of a run, as `gemax evaluate` does. Returns the content of `evaluation.json`.

    Args:
        run: The run directory.
        episodes: Number of episodes with sampled actions, and number of episodes with greedy actions.
        seed: Random seed of the episodes.
        max_episode_steps: Step limit of `gym:` environments. The default is 10,000, or the horizon if longer.
        checkpoint: The policy to evaluate: `newest`, `best` (highest mean return of 100 episodes) or an update.
        custom: The custom parts of the run again: `make_env`, `reward` or `similarity`.
    """
    parts = CustomParts(**custom)
    return evaluate_run(Path(run), episodes, seed, print, parts, max_episode_steps, checkpoint)


def load(run: str | Path, seed: int = 0, *, checkpoint: Checkpoint = "newest", **custom: Any) -> Policy:
    """Loads the policy of a run.

    Args:
        run: The run directory.
        seed: Random seed of sampled actions.
        checkpoint: The policy to load: `newest`, `best` (highest mean return of 100 episodes) or an update.
        custom: The custom parts of the run again: `make_env`, `reward` or `similarity`.
    """
    trainer, states, messages = load_run(Path(run), CustomParts(**custom), checkpoint)
    for message in messages:
        warnings.warn(message, stacklevel=2)
    if len(states) > 1:
        raise ValueError(
            f"{run} holds several policies. Load one of its folders: {seed_folders(trainer.config)}."
        )
    return Policy(trainer, *states.values(), seed=seed)

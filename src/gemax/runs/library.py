"""The verbs from Python, a call each; `load` is in `policy`."""

from pathlib import Path
from typing import Any

from gemax.runs import session
from gemax.runs.report import evaluate_run
from gemax.runs.seeds import place_for
from gemax.runs.session import Run, Watch
from gemax.training.assemble import (
    OWN_ENVIRONMENT,
    MakeEnvironment,
    Own,
    OwnReward,
    OwnSimilarity,
    assemble,
)
from gemax.training.presets import configure


def train(
    world: str | MakeEnvironment = "two-rooms",
    *,
    method: str = "gem",
    seed: int = 0,
    out: str | Path | None = None,
    watch: Watch | None = None,
    similarity: str | OwnSimilarity = "learned",
    reward: OwnReward | None = None,
    start_from: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Trains an agent to explore a world, as `gemax train` does, and gives the run.

    Args:
        world: What to explore: a world of ours, `gym:ID` for an environment of Gymnasium, or a function that makes
            one; if it makes vector environments, `num_worlds` must be as many as they have.
        method: Where the intrinsic reward comes from.
        seed: Of everything that is random; with `seeds=5`, the first of five that are trained together.
        out: The run directory; by default runs/WORLD-METHOD-SEED, numbered if that is taken.
        watch: Is shown the metrics of every compiled call.
        similarity: `learned`, `exponential` or `indicator`; or a function of your own, which takes two batches of
            centred observations, flattened to [N, D] and [M, D], and gives their similarities [N, M], from 0 to 1.
        reward: An intrinsic reward of your own instead of a method: an `IntrinsicReward`, or a function of the world
            and the configuration that gives one.
        start_from: A run whose networks this one starts with, as with `--from`; all seeds start alike.
        settings: Fields of `gemax.training.config.Config`; a wrong name is refused.
    """
    if not isinstance(world, str) and not callable(world):
        raise ValueError(f"world must be a name, or a function that makes environments; got {world}.")
    if reward is not None:
        method = _own_method(method)
    own = Own(similarity if callable(similarity) else None, reward, None if isinstance(world, str) else world)
    settings["similarity"] = "own" if callable(similarity) else similarity
    settings["start_from"] = "" if start_from is None else str(start_from)
    config = configure(
        world if isinstance(world, str) else OWN_ENVIRONMENT, method=method, seed=seed, **settings
    )
    path = place_for(config, None if out is None else Path(out))
    return session.start_run(assemble(config, own=own), path, watch=watch)


def resume(
    run: str | Path,
    *,
    updates: int | None = None,
    watch: Watch | None = None,
    similarity: OwnSimilarity | None = None,
    reward: OwnReward | None = None,
    environment: MakeEnvironment | None = None,
) -> Run:
    """Goes on with a run from its newest good checkpoint, as `gemax resume` does.

    In our worlds that is bit for bit. In environments of Gymnasium episodes start anew, and all else goes on.

    Args:
        run: The run directory.
        updates: Train to this many updates instead, more than it has so far.
        watch: Is shown the metrics of every compiled call.
        similarity: The same function again, where the run has one of your own.
        reward: The same intrinsic reward again, where the run has one of your own.
        environment: What makes the environment, again, where it is your own.
    """
    own = Own(similarity, reward, environment)
    return session.resume(Path(run), updates=updates, own=own, watch=watch)


def evaluate(
    run: str | Path,
    *,
    episodes: int = 1000,
    seed: int = 0,
    longest: int | None = None,
    similarity: OwnSimilarity | None = None,
    reward: OwnReward | None = None,
    environment: MakeEnvironment | None = None,
) -> dict[str, Any]:
    """What the frozen policy of a run does, as `gemax evaluate` has it: what is written to `evaluation.json`.

    Args:
        run: The run directory.
        episodes: How many episodes are played with drawn actions, and how many with the likeliest.
        seed: Which starts, rewards and actions are drawn.
        longest: Steps after which an episode of a `gym:` environment is cut; by default 10,000, or its horizon.
        similarity: The same function again, where the run has one of your own.
        reward: The same intrinsic reward again, where the run has one of your own.
        environment: What makes the environment, again, where it is your own.
    """
    own = Own(similarity, reward, environment)
    return evaluate_run(Path(run), episodes, seed, tell=print, own=own, longest=longest)


def _own_method(method: str) -> str:
    # The default stands for "nothing was said".
    if method not in ("gem", "own"):
        raise ValueError(f"reward takes the place of a method: give one of the two; got method {method!r}.")
    return "own"

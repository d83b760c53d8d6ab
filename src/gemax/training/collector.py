"""The interface between training and environments: the `Collector` protocol and the records it uses."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from gemax.training.rendering import Acting, RenderedStep
from gemax.training.state import ActorState, TrainState
from gemax.types import Episode

if TYPE_CHECKING:
    from gemax.training.learn import Trainer

History: TypeAlias = dict[str, Float[np.ndarray, "seeds updates"]]
"""Metrics of every update of one compiled call, by name."""


class Evaluation(NamedTuple):
    """Statistics of episodes of a frozen policy."""

    returns: Float[np.ndarray, " episodes"]
    lengths: Int[np.ndarray, " episodes"]
    visits: Float[np.ndarray, "episodes cells"]
    """Number of visits to each cell. The second axis is empty if the environment has no cells."""
    num_truncated: int = 0
    """Number of episodes that `max_episode_steps` truncated."""


class EpisodeOptions(NamedTuple):
    """Settings of new episodes of a frozen policy."""

    num_episodes: int
    seed: int = 0
    greedy: bool = False
    max_episode_steps: int | None = None
    """Truncates episodes of host environments. None is the collector's default."""


@runtime_checkable
class Collector(Protocol):
    """Steps environments with the policy. `assemble` chooses the implementation; no other code depends on it."""

    def initial_actor(self, trainer: "Trainer", key: PRNGKeyArray) -> ActorState:
        """Returns the actor's state before the first step. Pure."""
        ...

    def updates(self, trainer: "Trainer", state: TrainState) -> Iterator[tuple[TrainState, History]]:
        """Collects and learns in turn until the end of the run. Yields after every compiled call.

        The next call may overwrite the memory of the yielded state: read or copy it before continuing.
        """
        ...

    def evaluate(self, trainer: "Trainer", state: TrainState, options: EpisodeOptions) -> Evaluation:
        """Runs episodes to their end and returns their statistics."""
        ...

    def episodes(self, trainer: "Trainer", state: TrainState, options: EpisodeOptions) -> Iterator[Episode]:
        """Yields recorded episodes, with sampled actions."""
        ...

    def render(self, policy: Acting, options: EpisodeOptions) -> Iterator[RenderedStep]:
        """Yields the images of episodes in which the policy acts, step by step."""
        ...

    def max_episode_steps(self, requested: int | None) -> int:
        """Returns the number of steps after which evaluation truncates an episode.

        Raises:
            ValueError: The environment does not allow the requested limit.
        """
        ...

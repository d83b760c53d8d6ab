"""An environment as training knows it: facts, and a way to open many of it side by side. It asks for no Gymnasium."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from gemax.environments.arrival import Arrival, HostArray
from gemax.types import ActionSpec
from gemax.worlds.base import ObservationSpec


@runtime_checkable
class Episodes(Protocol):
    """Environments side by side, whose episodes follow one another."""

    def reset(self, seed: int) -> HostArray:
        """Starts an episode in all of them; gives what they show."""
        ...

    def step(self, action: HostArray) -> Arrival:
        """Takes an action in each of them."""
        ...

    def close(self) -> None:
        """Ends them all. To close again does no harm."""
        ...


class Open(Protocol):
    """Opens environments."""

    def __call__(self, number: int, longest: int | None = None) -> Episodes:
        """Opens so many of one; episodes of so many steps are cut, if that is given."""
        ...


class Environment(NamedTuple):
    """Facts about an environment that is stepped on the host. Where a `World` has a fact too, it has the same name."""

    name: str
    observation: ObservationSpec
    actions: ActionSpec
    horizon: int
    """Steps of an episode, as far as known; the time is not told apart beyond it."""
    solved_return: float
    """The mean return from which it counts as solved; infinite where nobody says."""
    open: Open
    read: Callable[[Any], np.ndarray]
    """One observation as the networks take it."""
    write: Callable[[np.ndarray], Any]
    """One action of the policy as the environment takes it."""
    notes: tuple[str, ...] = ()
    """What a user should know before the run starts."""
    places: None = None
    finite: None = None
    time_feature: None = None
    shortest_episode: int = 1

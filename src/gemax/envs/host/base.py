"""The interface of environments that are stepped on the host.

Worker processes import this module, so it imports neither JAX nor Gymnasium.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from gemax.types import EnvSpec

HostArray: TypeAlias = Any
"""A NumPy array. Repeats the alias of `gemax.types`, which imports JAX."""
Wrap: TypeAlias = Callable[[Any], Any]
"""Takes a Gymnasium environment and returns it wrapped."""


class VectorTransition(NamedTuple):
    """One step of all environments. Every field is [envs, ...]."""

    next_observation: HostArray
    """Observation after the action. At the end of an episode the terminal one."""
    reward: HostArray
    terminated: HostArray
    truncated: HostArray
    """Never true together with `terminated`."""
    current_observation: HostArray
    """Observation that the next action is chosen from."""
    is_first: HostArray
    """Whether `current_observation` is the first observation of an episode."""
    is_valid: HostArray
    """False if the environment used the step to reset itself.

    Then only `current_observation` and `is_first` are meaningful.
    """
    is_dropped: HostArray
    """Whether the environment failed in this step and was restarted. Its episode is truncated and not counted."""


@runtime_checkable
class HostVectorEnv(Protocol):
    """Several copies of an environment. Ended episodes are reset automatically."""

    def reset(self, seed: int, first_limits: HostArray | None = None) -> HostArray:
        """Starts an episode in every environment. Returns the observations.

        The first episode of each environment is truncated after `first_limits` steps, if given, unless the environments
        reset themselves.
        """
        ...

    def step(self, action: HostArray) -> VectorTransition:
        """Takes one action per environment. Returns the transitions."""
        ...

    def close(self) -> None:
        """Closes all environments. Can be called more than once."""
        ...


class OpenHostEnv(Protocol):
    """Opens copies of an environment."""

    def __call__(
        self, num_envs: int, max_episode_steps: int | None = None, wrap: Wrap | None = None
    ) -> HostVectorEnv:
        """Opens `num_envs` copies.

        Args:
            num_envs: Number of copies.
            max_episode_steps: Truncates episodes after this many steps, if given.
            wrap: Wraps each single environment, if given.
        """
        ...


class HostEnv(NamedTuple):
    """An environment that is stepped in Python, on the host."""

    spec: "EnvSpec"
    open: OpenHostEnv
    open_rendered: Callable[[], Any]
    """Opens one environment whose `render` returns an image."""

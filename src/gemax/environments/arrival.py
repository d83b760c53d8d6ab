"""What a step of many environments led to. It asks for neither jax nor Gymnasium: worker processes import it."""

from typing import Any, NamedTuple, TypeAlias

HostArray: TypeAlias = Any
"""An array of NumPy. Compiled functions take it like one of jax, of which type checkers know nothing."""


class Arrival(NamedTuple):
    """What a step led to in every environment, and where each goes on from. All fields are [environments, ...]."""

    arrived: HostArray
    """The observation after the action: at the end of an episode the terminal one."""
    reward: HostArray
    terminated: HostArray
    truncated: HostArray
    """Never true together with `terminated`."""
    current: HostArray
    """What the next action is chosen from."""
    is_first: HostArray
    """Whether that starts an episode."""
    happened: HostArray
    """False where an environment used the step to start its next episode: there was no action, and all but
    `current` and `is_first` means nothing."""

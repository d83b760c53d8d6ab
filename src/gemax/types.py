"""The records and the array types that cross the borders between layers."""

from typing import NamedTuple, TypeAlias

from jaxtyping import Array, Bool, Float, Shaped

Weight: TypeAlias = Float[Array, " N"] | Bool[Array, " N"]
"""How much each of N states counts: a mask, a histogram or a probability. Need not sum to one."""


class Timestep(NamedTuple):
    """What a world tells after a reset or an action."""

    observation: Shaped[Array, "*shape"]
    """Of the state arrived in. At the end of an episode it is the terminal one, never that of the next start."""
    reward: Float[Array, ""]
    """What the action earned; 0 after a reset."""
    terminated: Bool[Array, ""]
    """The task is over: there is nothing more to earn."""
    truncated: Bool[Array, ""]
    """Time is over: the episode is cut short. Never true together with `terminated`."""

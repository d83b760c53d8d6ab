"""Turns stored observations into network inputs, for finite environments by means of a table of all observations."""

from typing import NamedTuple

from jaxtyping import Array, Float, Shaped

from gemax.core.moments import Moments, standardise
from gemax.types import Observations, Transition


class ObservationTable(NamedTuple):
    """Table of all centred observations of a finite environment."""

    rows: Float[Array, "rows *shape"] | None
    """The distinct observations. None if the environment is infinite or noisy; observations are then stored in full."""

    def observations(self, centring: Moments, stored: Shaped[Array, "time envs *shape"]) -> Observations:
        """Returns the network inputs of stored observations."""
        if self.rows is not None:
            return Observations(self.rows, stored)
        return Observations(standardise(centring, stored.reshape(-1, *stored.shape[2:])), None)

    def look_up(self, centring: Moments, transitions: Transition) -> Transition:
        """Replaces the stored observations of transitions by network inputs."""
        return transitions._replace(
            observation=self.observations(centring, transitions.observation),
            next_observation=self.observations(centring, transitions.next_observation),
        )

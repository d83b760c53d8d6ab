"""Turns stored observations into network inputs.

In finite environments, a stored observation is a row number of a table.
"""

from typing import NamedTuple

from jaxtyping import Array, Float, Shaped

from gemax.core.moments import Moments, standardise
from gemax.types import Observations, Transition


class ObservationTable(NamedTuple):
    """Table of all standardised observations of a finite environment."""

    rows: Float[Array, "rows *shape"] | None
    """The distinct observations. None if the environment is infinite or noisy; observations are then stored in full."""

    def network_inputs(
        self, observation_moments: Moments, stored: Shaped[Array, "time envs *shape"]
    ) -> Observations:
        """Returns the network inputs. `stored` holds rows of the table, or raw observations if there is no table."""
        if self.rows is not None:
            return Observations(self.rows, stored)
        return Observations(standardise(observation_moments, stored.reshape(-1, *stored.shape[2:])), None)

    def with_network_inputs(self, observation_moments: Moments, transitions: Transition) -> Transition:
        """Replaces the stored observations of transitions by network inputs."""
        return transitions._replace(
            observation=self.network_inputs(observation_moments, transitions.observation),
            next_observation=self.network_inputs(observation_moments, transitions.next_observation),
        )

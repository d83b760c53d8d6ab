"""What a run is measured by, in the claims."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from gemax.core.ceiling import policy_visits, uniform_policy
from gemax.experiments.records import Record
from gemax.experiments.statistics import area_under_curve, rank_correlation
from gemax.worlds.base import FiniteFacts

Seeds = Float[np.ndarray, " seeds"]


def solving_times(records: Sequence[Record]) -> Seeds:
    """Updates until the world was solved; of a seed that did not get there, all it had: it took at least as many."""
    return np.asarray([min(record.solved_at, record.config.updates) for record in records], float)


def share_solved(records: Sequence[Record]) -> Seeds:
    """One for each seed that solved its world."""
    return np.asarray([np.isfinite(record.solved_at) for record in records], float)


def final_returns(records: Sequence[Record]) -> Seeds:
    """Of the last thousand episodes."""
    return np.asarray([record.curves["return"][-1] for record in records], float)


def areas(records: Sequence[Record], curve: str = "return") -> Seeds:
    """The mean of a curve over the whole run."""
    return np.asarray([area_under_curve(record.curves["update"], record.curves[curve]) for record in records])


def final_entropies(records: Sequence[Record]) -> Seeds:
    """Of the moving average of visits, in nats."""
    return np.asarray([record.curves["visitation_entropy"][-1] for record in records], float)


def entropy_shares(records: Sequence[Record]) -> Seeds:
    """Of the frozen policy, as a share of the ceiling."""
    return np.asarray([record.entropy_share for record in records], float)


def random_policy_visits(finite: FiniteFacts) -> Float[np.ndarray, " squares"]:
    """Where a policy goes that chooses every action alike, exactly."""
    model = finite.reward_free_model
    return policy_visits(model, uniform_policy(model))


def entropy_of(visits: Float[np.ndarray, " squares"]) -> float:
    """In nats."""
    share = visits[visits > 0] / visits.sum()
    return float(-(share * np.log(share)).sum())


def rows_and_squares(finite: FiniteFacts) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
    """Every row of the table that a state shows, and the square that the agent is on in it."""
    rows, first = np.unique(finite.rows_of_states, return_index=True)
    return rows, finite.model.square[first]


def geometry_kept(record: Record, finite: FiniteFacts) -> float:
    """Rank correlation of the embedding's distances with the steps between squares, over all pairs of observations.

    Where there is noise each observation is compared with others under other colours.
    """
    assert record.embedding is not None
    rows, squares = rows_and_squares(finite)
    points = record.embedding[:, rows].reshape(-1, record.embedding.shape[-1])
    squares = np.tile(squares, len(record.embedding))
    one, other = np.triu_indices(len(points), k=1)
    distance = np.linalg.norm(points[one] - points[other], axis=-1)
    return rank_correlation(distance, finite.distances[squares[one], squares[other]].astype(float))

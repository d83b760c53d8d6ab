"""Measures of finished runs. A measure takes the records of all seeds and returns one number per seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from gemax.core.entropy import visitation_entropy
from gemax.core.finite_model import policy_visits, termination_probability, uniform_policy
from gemax.envs.base import FiniteEnv
from gemax.envs.registry import make_env
from gemax.experiments.records import Record
from gemax.experiments.statistics import PerSeed, area_under_curve, estimate_mean, rank_correlation
from gemax.experiments.tables import markdown_table
from gemax.runs.plots import rows_and_cells

Measure: TypeAlias = Callable[[Sequence[Record]], PerSeed]


def updates_to_solve(records: Sequence[Record], hold: float = np.inf) -> PerSeed:
    """Returns the update from which on each run solved its environment. Unsolved runs count with their length.

    It is solved if the return stays at `solved_return` for `hold` updates, or until the end of the run.
    """
    return np.asarray([min(record.held_at(hold), record.config.run.updates) for record in records], float)


def updates_to_cross(records: Sequence[Record]) -> PerSeed:
    """Returns the update of each run's first crossing. Runs without one count with their length."""
    return np.asarray([min(record.first_crossing, record.config.run.updates) for record in records], float)


def updates_to_half(records: Sequence[Record]) -> PerSeed:
    """Returns the update at which each run was halfway to `solved_return`. Others count with their length."""
    return np.asarray([min(record.half_crossing, record.config.run.updates) for record in records], float)


def is_solved(records: Sequence[Record], hold: float = np.inf) -> PerSeed:
    """Returns 1 for each run that solved its environment, for `hold` updates or until the end, else 0."""
    return np.asarray([np.isfinite(record.held_at(hold)) for record in records], float)


def has_crossed(records: Sequence[Record]) -> PerSeed:
    """Returns 1 for each run that reached `solved_return` at least once, else 0."""
    return np.asarray([np.isfinite(record.first_crossing) for record in records], float)


def reached_half(records: Sequence[Record]) -> PerSeed:
    """Returns 1 for each run that was halfway to `solved_return` at least once, else 0."""
    return np.asarray([np.isfinite(record.half_crossing) for record in records], float)


def shared_hold(groups: Sequence[Sequence[Record]]) -> float:
    """Returns how many updates a solution has to last in a comparison: until the end, if all runs are equally long.

    In a longer run there is more time to lose it again, so otherwise it is half of the shortest run.
    """
    lengths = {record.config.run.updates for records in groups for record in records}
    return np.inf if len(lengths) == 1 else min(lengths) / 2


def solving_table(panels: Mapping[str, Mapping[str, Sequence[Record]]]) -> str:
    """Returns a table by environment and label: when seeds reach the thresholds, area and final return.

    If runs of an environment differ in length, area and final return are those up to the end of the shortest.
    """
    updates = {title: shared_updates(runs.values()) for title, runs in panels.items()}
    rows = [
        [
            title,
            label,
            f"{max(record.config.run.updates for record in records):,}",
            *_solving_cells([record.first_crossing for record in records]),
            *_solving_cells([record.solved_at for record in records]),
            _solving_cells([record.half_crossing for record in records])[1],
            _estimate_cell(return_areas(records, updates[title])),
            _estimate_cell(final_returns(records, updates[title])),
        ]
        for title, runs in panels.items()
        for label, records in runs.items()
    ]
    head = (
        "environment",
        "run",
        "updates",
        "seeds that crossed",
        "first crossing, updates",
        "seeds solved",
        "solved at updates",
        "half of the return, updates",
        "area under the curve",
        "final return",
    )
    return markdown_table(head, rows)


def _estimate_cell(values: PerSeed) -> str:
    value, low, high = estimate_mean(values)
    return f"{value:.3g}" if np.isnan(low) else f"{value:.3g} ({low:.3g} to {high:.3g})"


def _solving_cells(updates: Sequence[float]) -> list[str]:
    known = [update for update in updates if np.isfinite(update)]
    span = (
        " to ".join(dict.fromkeys(f"{update:,.0f}" for update in (min(known), max(known)))) if known else "–"
    )
    return [f"{len(known)} of {len(updates)}", span]


def final_returns(records: Sequence[Record], updates: int | None = None) -> PerSeed:
    """Returns the mean return of the last 1,000 episodes, at the end or after this many updates."""
    return np.asarray([_return_curve(record, updates)[1][-1] for record in records], float)


def return_areas(records: Sequence[Record], updates: int | None = None) -> PerSeed:
    """Returns the area under the curve of the return, divided by its length, at the end or after this many updates."""
    return np.asarray([area_under_curve(*_return_curve(record, updates)) for record in records])


def shared_updates(groups: Iterable[Sequence[Record]]) -> int:
    """Returns the length of the shortest run, up to which all runs can be compared."""
    return min(record.config.run.updates for records in groups for record in records)


def _return_curve(record: Record, updates: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the updates and returns of a run, or those up to an update."""
    is_counted = record.curves["update"] <= (np.inf if updates is None else updates)
    return record.curves["update"][is_counted], record.curves["return"][is_counted]


def final_entropies(records: Sequence[Record]) -> PerSeed:
    """Returns the entropy of the moving average of visits at the end of training, in nats."""
    return np.asarray([record.curves["visitation_entropy"][-1] for record in records], float)


def entropy_shares(records: Sequence[Record]) -> PerSeed:
    """Returns the visitation entropy of the frozen policy as a share of the entropy ceiling."""
    return np.asarray([record.entropy_share for record in records], float)


def geometry_correlations(records: Sequence[Record], finite: FiniteEnv) -> PerSeed:
    """Returns the rank correlation between distances of embeddings and steps on the map, over pairs of observations.

    With noise, the pairs include observations with different noise colours.
    """
    return np.asarray([_geometry_correlation(record, finite) for record in records])


def _geometry_correlation(record: Record, finite: FiniteEnv) -> float:
    assert record.embedding is not None
    rows, cells = rows_and_cells(finite)
    points = record.embedding[:, rows].reshape(-1, record.embedding.shape[-1])
    cells = np.tile(cells, len(record.embedding))
    first, second = np.triu_indices(len(points), k=1)
    distance = np.linalg.norm(points[first] - points[second], axis=-1)
    return rank_correlation(distance, finite.distances()[cells[first], cells[second]].astype(float))


def visit_shares(records: Sequence[Record], cells: Bool[np.ndarray, " cells"]) -> PerSeed:
    """Returns the share of all visits that are on cells of the mask."""
    return np.asarray([record.visits[cells].sum() / record.visits.sum() for record in records])


def top_visit_shares(records: Sequence[Record], num_cells: int) -> PerSeed:
    """Returns the share of all visits that are on the `num_cells` most visited cells."""
    return np.asarray([np.sort(record.visits)[-num_cells:].sum() / record.visits.sum() for record in records])


def finite_env(env_id: str) -> FiniteEnv:
    """Returns the tables of an environment with finitely many states, such as its cells and its transition model."""
    finite = make_env(env_id).finite
    assert finite is not None
    return finite


def random_policy_visits(finite: FiniteEnv) -> Float[np.ndarray, " cells"]:
    """Returns the exact visits of the uniform random policy."""
    model = finite.reward_free_model
    return policy_visits(model, uniform_policy(model))


def random_policy_return(finite: FiniteEnv) -> float:
    """Returns the mean return of the uniform random policy in a gridworld: how likely it reaches the reward."""
    return termination_probability(finite.model, uniform_policy(finite.model))


def random_entropy_share(record: Record) -> float:
    """Returns the visitation entropy of the uniform random policy in 2-Rooms as a share of a run's entropy ceiling."""
    visits = random_policy_visits(finite_env("two-rooms"))
    return visitation_entropy(visits) / record.summary["entropy_ceiling"]

"""Figure 10: the embedding of 2-Keys, where keys and door make transitions that have no way back.

Claims: GEM explores and solves the task. States are grouped by which keys are gone, the terminal ones apart.
Transitions of one direction are embedded a little farther apart than those of two.

`sec:irreversibletransitions`.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from gemax.experiments.budgets import configured
from gemax.experiments.claims import claim_at_least
from gemax.experiments.experiment import Experiment, Runs, Shown, Sweep
from gemax.experiments.measures import share_solved
from gemax.experiments.plots import bare, colours_of_squares, draw_plane, principal_plane
from gemax.experiments.records import Record
from gemax.experiments.statistics import estimate_of, mean_of
from gemax.training.config import Preset
from gemax.worlds.gridworld import tables_of
from gemax.worlds.maps import TWO_KEYS, parse_map
from gemax.worlds.registry import make_world

WORLD = "two-keys"


class Situations(NamedTuple):
    """Every state of 2-Keys, with what is gone from the map in it."""

    row: np.ndarray
    """Of the table of observations."""
    square: np.ndarray
    group: np.ndarray
    """Which keys are gone and whether the door is, as a number."""
    names: list[str]
    """Of the groups."""
    is_terminal: np.ndarray
    one_way: np.ndarray
    """Pairs of states that a step leads from and to, and none back; [pairs, 2]."""
    two_way: np.ndarray
    """Pairs of states with a step each way."""


def situations() -> Situations:
    """From the map."""
    grid_map = parse_map(TWO_KEYS)
    tables = tables_of(grid_map, reward_free=False)
    finite = make_world(WORLD).finite
    assert finite is not None
    kinds = sorted(set(tables.gone), key=lambda gone: (len(gone), sorted(gone)))
    upper, lower = grid_map.squares("K")
    steps = {
        (state, following)
        for state, row in enumerate(tables.successor.tolist())
        for following in row
        if following != state
    }
    pairs = sorted(steps)
    has_way_back = np.asarray([(other, one) in steps for one, other in pairs])

    def name(gone: frozenset) -> str:
        keys = [label for label, key in (("upper key", upper), ("lower key", lower)) if key in gone]
        door = ["door open"] if len(gone) > len(keys) else []
        return ", ".join([*keys, *door]) or "nothing yet"

    return Situations(
        row=finite.rows_of_states,
        square=finite.model.square,
        group=np.asarray([kinds.index(gone) for gone in tables.gone]),
        names=[name(gone) for gone in kinds],
        is_terminal=tables.is_terminal,
        one_way=np.asarray(pairs)[~has_way_back],
        two_way=np.asarray(pairs)[has_way_back],
    )


def sweep(preset: Preset) -> Sweep:
    """GEM alone."""
    return {"GEM": configured(WORLD, preset)}


def show(runs: Runs) -> Shown:
    """The first two principal components, a marker for each configuration of keys and door; and what is apart."""
    records, facts = runs["GEM"], situations()
    return Shown({"fig10": draw(records[0], facts)}, claims_of(records, facts))


MARKERS = "oDs+x|_^"


def draw(record: Record, facts: Situations) -> Figure:
    """Colours are places on the map: blue in the upper room, red in the lower one."""
    finite = make_world(WORLD).finite
    assert finite is not None
    plane, share = principal_plane(embedding_of_states(record, facts))
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axis = figure.subplots()
    colours = colours_of_squares(finite, facts.square)
    for group, name in enumerate(facts.names):
        chosen = facts.group == group
        draw_plane(axis, plane[chosen], colours[chosen], s=34, marker=MARKERS[group], label=f"gone: {name}")
    ended = plane[facts.is_terminal]
    axis.scatter(*ended.T, s=130, facecolors="none", edgecolors="k", linewidths=0.9, label="terminal")
    bare(axis, f"2-Keys: f(x), two components ({share:.0%} of the variance)")
    axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def embedding_of_states(record: Record, facts: Situations) -> np.ndarray:
    """F of what each state shows."""
    assert record.embedding is not None
    return record.embedding[0][facts.row]


def claims_of(records: list[Record], facts: Situations):
    """Each measure is taken of every seed."""
    solved = share_solved(records)
    points = [embedding_of_states(record, facts) for record in records]
    apart = np.asarray([share_with_a_neighbour_alike(embedding, facts) for embedding in points])
    ratio = np.asarray([one_way_against_two_way(embedding, facts) for embedding in points])
    terminal = np.asarray([terminal_apart(embedding, facts) for embedding in points])
    last_step = np.asarray([terminal_against_neighbours(embedding, facts) for embedding in points])
    return [
        claim_at_least(
            "fig10-solved",
            "2-Keys: GEM solves the task in spite of its irreversible transitions",
            "share of the seeds that solved it",
            estimate_of(mean_of, solved),
            1.0,
            solved=solved.tolist(),
        ),
        claim_at_least(
            "fig10-configurations-apart",
            "2-Keys: states are grouped by the configuration of keys and door",
            "share of the states whose nearest neighbour has the same configuration",
            estimate_of(mean_of, apart),
            0.9,
            seeds=apart.tolist(),
        ),
        claim_at_least(
            "fig10-one-way-farther",
            "2-Keys: asymmetric transitions are embedded farther apart than symmetric ones",
            "mean distance of a step in embedding space, one-way / two-way",
            estimate_of(mean_of, ratio),
            1.0,
            seeds=ratio.tolist(),
        ),
        claim_at_least(
            "fig10-terminal-apart",
            "2-Keys: the terminal state is embedded separately for each configuration",
            "smallest distance between terminal states / mean distance of a two-way step",
            estimate_of(mean_of, terminal),
            1.0,
            seeds=terminal.tolist(),
            last_step_against_two_way=last_step.tolist(),
        ),
    ]


def share_with_a_neighbour_alike(embedding: np.ndarray, facts: Situations) -> float:
    """How many states have a nearest neighbour of the same configuration, terminal ones left out."""
    points, group = embedding[~facts.is_terminal], facts.group[~facts.is_terminal]
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    return float(np.mean(group[distance.argmin(axis=1)] == group))


def one_way_against_two_way(embedding: np.ndarray, facts: Situations) -> float:
    """The ratio of the mean lengths of their steps, those into terminal states left out."""
    return _length(embedding, facts.one_way[~facts.is_terminal[facts.one_way[:, 1]]]) / _length(
        embedding, facts.two_way
    )


def terminal_apart(embedding: np.ndarray, facts: Situations) -> float:
    """How far apart the two nearest terminal states are, in steps that have a way back."""
    ends = embedding[facts.is_terminal]
    distance = np.linalg.norm(ends[:, None] - ends[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    return float(distance.min()) / _length(embedding, facts.two_way)


def terminal_against_neighbours(embedding: np.ndarray, facts: Situations) -> float:
    """As `one_way_against_two_way`, for steps into terminal states."""
    return _length(embedding, facts.one_way[facts.is_terminal[facts.one_way[:, 1]]]) / _length(
        embedding, facts.two_way
    )


def _length(embedding: np.ndarray, pairs: np.ndarray) -> float:
    return float(np.linalg.norm(embedding[pairs[:, 0]] - embedding[pairs[:, 1]], axis=-1).mean())


EXPERIMENT = Experiment(
    "fig10",
    "The embedding of 2-Keys",
    "Solved in spite of irreversible transitions; states are grouped by configuration, one-way steps a little longer.",
    sweep,
    show,
)

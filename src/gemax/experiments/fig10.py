"""Figure 10: the embedding of 2-Keys, where taking a key or opening the door cannot be undone.

Claims: GEM explores and solves the task. States are grouped by the keys and doors that were removed, and terminal
states are separate. One-way transitions are embedded slightly farther apart than two-way transitions.

`sec:irreversibletransitions`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from gemax.envs.gridworld import state_tables
from gemax.envs.maps import paper_map
from gemax.experiments.claims import Claim, decide_by_mean, decide_by_solving
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.measures import finite_env
from gemax.experiments.records import Record
from gemax.runs.plots import cell_colours, draw_points, hide_ticks, two_components

ENV_ID = "two-keys"
MARKERS = "oDs+x|_^"
"""One marker per configuration of keys and door."""


class States(NamedTuple):
    """All states of 2-Keys, and the transitions between them."""

    row: Int[np.ndarray, " states"]
    """Row of the observation table."""
    cell: Int[np.ndarray, " states"]
    configuration: Int[np.ndarray, " states"]
    """Index of the set of keys and doors that were removed from the map."""
    names: list[str]
    """Names of the configurations."""
    is_terminal: Bool[np.ndarray, " states"]
    one_way: Int[np.ndarray, "pairs 2"]
    """Transitions without a transition back."""
    two_way: Int[np.ndarray, "pairs 2"]
    """Transitions with a transition back."""


def two_keys_states() -> States:
    """Returns the states of 2-Keys."""
    grid_map = paper_map(ENV_ID)
    tables = state_tables(grid_map, reward_free=False)
    finite = finite_env(ENV_ID)
    configurations = sorted(set(tables.removed), key=lambda removed: (len(removed), sorted(removed)))
    keys = dict(zip(("upper key", "lower key"), grid_map.cells("K"), strict=True))
    successors = enumerate(tables.successor.tolist())
    steps = {(state, successor) for state, row in successors for successor in row if successor != state}
    pairs = sorted(steps)
    is_two_way = np.asarray([pair[::-1] in steps for pair in pairs])

    def name(removed: frozenset) -> str:
        parts = [label for label, key in keys.items() if key in removed]
        return ", ".join(parts + ["door"] * (len(removed) > len(parts))) or "nothing"

    return States(
        row=finite.observation_of_state,
        cell=finite.model.cell,
        configuration=np.asarray([configurations.index(removed) for removed in tables.removed]),
        names=[name(removed) for removed in configurations],
        is_terminal=tables.is_terminal,
        one_way=np.asarray(pairs)[~is_two_way],
        two_way=np.asarray(pairs)[is_two_way],
    )


def analyse(runs: Runs) -> FigureResult:
    """Plots the embedding of seed 0 and decides the claims."""
    records, states = runs["GEM"], two_keys_states()
    return FigureResult(plot(records[0], states), decide_claims(records, states))


def plot(record: Record, states: States) -> Figure:
    """Plots two principal components. Colours are positions on the map, blue in the upper and red in the lower room."""
    plane, variance = two_components(embed_states(record, states))
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axis = figure.subplots()
    colours = cell_colours(finite_env(ENV_ID), states.cell)
    for index, name in enumerate(states.names):
        has_name = states.configuration == index
        style = {"s": 34, "marker": MARKERS[index], "label": f"removed: {name}"}
        draw_points(axis, plane[has_name], colours[has_name], **style)
    terminal = plane[states.is_terminal]
    axis.scatter(*terminal.T, s=130, facecolors="none", edgecolors="k", linewidths=0.9, label="terminal")
    hide_ticks(axis, f"2-Keys: f(x), two components ({variance:.0%} of the variance)")
    axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def embed_states(record: Record, states: States) -> Float[np.ndarray, "states D"]:
    """Returns the embedding of each state's observation."""
    assert record.embedding is not None
    return record.embedding[0][states.row]


def decide_claims(records: list[Record], states: States) -> list[Claim]:
    """Decides the claims by measures of every seed's embedding."""
    embeddings = [embed_states(record, states) for record in records]
    into_terminal = states.is_terminal[states.one_way[:, 1]]

    def per_seed(measure, *arguments) -> Float[np.ndarray, " seeds"]:
        return np.asarray([measure(embedding, states, *arguments) for embedding in embeddings])

    solved = decide_by_solving(
        "fig10-solved",
        "2-Keys: GEM solves the task in spite of its irreversible transitions",
        {"GEM": records},
    )
    grouped = decide_by_mean(
        "fig10-configurations-apart",
        "2-Keys: states are grouped by the configuration of keys and door",
        "share of the states whose nearest neighbour has the same configuration ≥ 0.9",
        {"seeds": per_seed(share_grouped)},
    )
    one_way = decide_by_mean(
        "fig10-one-way-farther",
        "2-Keys: asymmetric transitions are embedded farther apart than symmetric ones",
        "mean distance of a step in embedding space, one-way / two-way ≥ 1",
        {"seeds": per_seed(relative_step_length, states.one_way[~into_terminal])},
    )
    terminal = decide_by_mean(
        "fig10-terminal-apart",
        "2-Keys: the terminal state is embedded separately for each configuration",
        "smallest distance between terminal states / mean distance of a two-way step ≥ 1",
        {"seeds": per_seed(relative_terminal_distance)},
        last_step_against_two_way=per_seed(relative_step_length, states.one_way[into_terminal]).tolist(),
    )
    return [solved, grouped, one_way, terminal]


def share_grouped(embedding: Float[np.ndarray, "states D"], states: States) -> float:
    """Returns the share of non-terminal states whose nearest neighbour has the same configuration."""
    configuration = states.configuration[~states.is_terminal]
    nearest = _distances(embedding[~states.is_terminal]).argmin(axis=1)
    return float(np.mean(configuration[nearest] == configuration))


def relative_step_length(
    embedding: Float[np.ndarray, "states D"], states: States, pairs: Int[np.ndarray, "pairs 2"]
) -> float:
    """Returns the mean length of the given transitions, divided by the mean length of two-way transitions."""
    return _mean_length(embedding, pairs) / _mean_length(embedding, states.two_way)


def relative_terminal_distance(embedding: Float[np.ndarray, "states D"], states: States) -> float:
    """Returns the smallest distance between terminal states, divided by the mean length of two-way transitions."""
    nearest = float(_distances(embedding[states.is_terminal]).min())
    return nearest / _mean_length(embedding, states.two_way)


def _distances(points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N N"]:
    """Returns the distances between all points. The diagonal is infinite."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    return distances


def _mean_length(embedding: Float[np.ndarray, "states D"], pairs: Int[np.ndarray, "pairs 2"]) -> float:
    return float(np.linalg.norm(embedding[pairs[:, 0]] - embedding[pairs[:, 1]], axis=-1).mean())


EXPERIMENT = Experiment(
    "The embedding of 2-Keys",
    "Solved in spite of irreversible transitions; states are grouped by configuration, one-way steps slightly longer.",
    analyse,
    {"GEM": {"env_id": ENV_ID}},
)

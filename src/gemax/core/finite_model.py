"""Finite environments as tables: expected visits of a policy, and the policy with the largest mean reward.

Visits are counted per cell. Each action visits the state that it leads to: terminal states count, start states do not.
All computations are in float64 NumPy.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gemax.core.checks import check_probability
from gemax.settings import check_positive

Visits = Float[np.ndarray, " cells"]
Policy = Float[np.ndarray, "horizon S A"]
"""Action probabilities for each time and state."""


class FiniteModel(NamedTuple):
    """A finite environment as tables: S states, A actions, at most K outcomes per state and action."""

    start: Float[np.ndarray, " S"]
    """Probability of starting in each state."""
    successor: Int[np.ndarray, "S A K"]
    """Successor state of each outcome."""
    probability: Float[np.ndarray, "S A K"]
    """Probability of each outcome."""
    is_terminal: Bool[np.ndarray, " S"]
    """Whether the episode ends in the state."""
    cell: Int[np.ndarray, " S"]
    """Cell of each state. Several states may share a cell."""
    horizon: int
    """Number of actions in the longest episode."""


def num_cells(model: FiniteModel) -> int:
    """Returns the number of cells."""
    return int(model.cell.max()) + 1


def check_model(model: FiniteModel) -> None:
    """Raises a ValueError if the tables do not describe an environment."""
    check_probability(model.start, "start")
    check_positive("horizon", model.horizon)
    if not np.allclose(model.probability.sum(axis=-1), 1.0):
        raise ValueError("probability must sum to 1 over the outcomes of every state and action.")
    if model.successor.min() < 0 or model.successor.max() >= len(model.start):
        raise ValueError(
            f"successor must hold states from 0 to {len(model.start) - 1}; "
            f"got values from {model.successor.min()} to {model.successor.max()}."
        )
    if np.all(model.is_terminal[model.start > 0]):
        raise ValueError("start must include at least one state that is not terminal.")


def uniform_policy(model: FiniteModel) -> Policy:
    """Returns the policy that takes all actions with equal probability."""
    num_actions = model.successor.shape[1]
    return np.full((model.horizon, len(model.start), num_actions), 1.0 / num_actions)


def random_policy(model: FiniteModel, rng: np.random.Generator) -> Policy:
    """Returns action probabilities sampled uniformly from the simplex, for each time and state."""
    num_states, num_actions, _ = model.successor.shape
    return rng.dirichlet(np.ones(num_actions), (model.horizon, num_states))


def policy_visits(model: FiniteModel, policy: Policy) -> Visits:
    """Returns the visitation distribution of a policy."""
    counts = _expected_counts(model, ((step, model.successor, model.probability) for step in policy))
    return counts / counts.sum()


def termination_probability(model: FiniteModel, policy: Policy) -> float:
    """Returns the probability that an episode of a policy ends in a terminal state, before the horizon."""
    states = model._replace(cell=np.arange(len(model.start)))
    counts = _expected_counts(states, ((step, model.successor, model.probability) for step in policy))
    return float(counts[model.is_terminal].sum())


def reachable_cells(model: FiniteModel) -> Bool[np.ndarray, " cells"]:
    """Returns which cells can be visited with non-zero probability."""
    present = (model.start > 0) & ~model.is_terminal
    cells = np.zeros(num_cells(model), bool)
    for _ in range(model.horizon):
        reached = np.zeros_like(present)
        reached[model.successor[present][model.probability[present] > 0]] = True
        cells[model.cell[reached]] = True
        extended = present | (reached & ~model.is_terminal)
        if (extended == present).all():
            break
        present = extended
    return cells


def best_visits(model: FiniteModel, reward: Visits) -> Visits:
    """Returns the visitation distribution with the largest mean reward per visit.

    If episodes differ in length, the mean is a ratio. It is maximised by Dinkelbach's method: subtract the best mean
    so far from every reward, solve, and repeat until the mean no longer increases.
    """
    mean_reward = -np.inf
    visits = counts = _best_counts(model, reward)
    while counts @ reward / counts.sum() > mean_reward + 1e-12:
        visits = counts / counts.sum()
        mean_reward = visits @ reward
        if not model.is_terminal.any():
            break
        counts = _best_counts(model, reward - mean_reward)
    return visits


def _best_counts(model: FiniteModel, reward: Visits) -> Visits:
    """Returns the expected number of visits to each cell under the policy with the largest sum of rewards."""
    num_states = len(model.start)
    states = np.arange(num_states)
    value = np.zeros(num_states)
    actions = np.zeros((model.horizon, num_states), int)
    for time in reversed(range(model.horizon)):
        next_value = reward[model.cell] + np.where(model.is_terminal, 0.0, value)
        action_value = np.sum(model.probability * next_value[model.successor], axis=-1)
        actions[time] = np.argmax(action_value, axis=-1)
        value = action_value[states, actions[time]]

    # Only the best action is passed on, with probability 1.
    ones = np.ones((num_states, 1))
    best = (np.s_[states, action, None] for action in actions)
    return _expected_counts(model, ((ones, model.successor[i], model.probability[i]) for i in best))


def _expected_counts(model: FiniteModel, steps: Iterable[tuple[np.ndarray, ...]]) -> Visits:
    """Returns the expected number of visits to each cell.

    `steps` has three arrays per time step: action probabilities [S, A], successors [S, A, K] and their probabilities.
    """
    counts = np.zeros(num_cells(model))
    present = np.where(model.is_terminal, 0.0, model.start)
    for action_probability, successor, probability in steps:
        flow = (present[:, None] * action_probability)[:, :, None] * probability
        reached = np.bincount(successor.ravel(), flow.ravel(), minlength=len(present))
        counts += np.bincount(model.cell, reached, minlength=len(counts))
        present = np.where(model.is_terminal, 0.0, reached)
    return counts

"""The largest entropy of visits that a finite world allows: what exploration is measured against.

Visits are counted by *square*: the states after each action, the last one included and the first one not,
divided by their number. What policies can reach, those that know the time included, is a convex set, and
Shannon's entropy is concave over it. So Frank–Wolfe finds the maximum: a dynamic programme answers which
policy goes most to where few visits are, a line search mixes it in, and the gap between the two bounds the
distance to the maximum. In float64 NumPy, since it runs once a world and its value is quoted.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gemax.core.checks import check_positive, check_probability, check_similarity

Visits = Float[np.ndarray, " squares"]

SHARES = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 20)])
FINER_SHARES = np.linspace(0.0, 1.0, 21)
"""The two grids of the line search."""


class FiniteModel(NamedTuple):
    """A finite world as tables: S states, A actions, up to K outcomes each."""

    start: Float[np.ndarray, " S"]
    """Probability of starting in each state."""
    successor: Int[np.ndarray, "S A K"]
    """States that an action may lead to."""
    probability: Float[np.ndarray, "S A K"]
    """And how likely each is."""
    is_terminal: Bool[np.ndarray, " S"]
    """States in which the episode ends."""
    square: Int[np.ndarray, " S"]
    """What a visit to the state counts for: several states may share a square."""
    horizon: int
    """The number of actions in the longest episode."""


class Ceiling(NamedTuple):
    """The largest entropy of visits, with its certificate."""

    entropy: float
    """An entropy that some policy reaches, in nats."""
    gap: float
    """No policy exceeds `entropy + gap`."""
    visits: Visits
    """The distribution of visits that reaches it."""


class LowerBound(NamedTuple):
    """The best geometry-aware entropy found from several starts. Not certified: it need not be concave."""

    entropy: float
    visits: Visits


def entropy_ceiling(model: FiniteModel, *, tolerance: float = 1e-3, max_iterations: int = 2_000) -> Ceiling:
    """The largest Shannon entropy of visits, to the tolerance."""
    check_model(model)
    check_positive("tolerance", tolerance)
    visits = policy_visits(model, uniform_policy(model))
    reachable = reachable_squares(model)

    def entropy(visits: np.ndarray) -> np.ndarray:
        return _entropy(visits, visits)

    def slope(visits: np.ndarray) -> np.ndarray:
        return np.where(reachable, -np.log(np.maximum(visits, np.finfo(float).tiny)) - 1.0, 0.0)

    visits, gap = _frank_wolfe(model, entropy, slope, visits, tolerance, max_iterations)
    return Ceiling(float(entropy(visits)), gap, visits)


def geometric_entropy_bound(
    model: FiniteModel,
    similarity: Float[np.ndarray, "squares squares"],
    *,
    num_starts: int = 8,
    seed: int = 0,
    tolerance: float = 1e-3,
    max_iterations: int = 500,
) -> LowerBound:
    """A geometry-aware entropy H_k that is reachable: the best of several climbs from random policies."""
    check_model(model)
    check_similarity(similarity)
    check_positive("num_starts", num_starts)

    def entropy(visits: np.ndarray) -> np.ndarray:
        return _entropy(visits, visits @ similarity)

    def slope(visits: np.ndarray) -> np.ndarray:
        profile = np.maximum(similarity @ visits, np.finfo(float).tiny)
        return -np.log(profile) - similarity @ (visits / profile)

    rng = np.random.default_rng(seed)
    starts = [uniform_policy(model)] + [random_policy(model, rng) for _ in range(num_starts - 1)]
    climbs = [
        _frank_wolfe(model, entropy, slope, policy_visits(model, start), tolerance, max_iterations)[0]
        for start in starts
    ]
    best = max(climbs, key=lambda visits: float(entropy(visits)))
    return LowerBound(float(entropy(best)), best)


def policy_visits(model: FiniteModel, policy: Float[np.ndarray, "horizon S A"]) -> Visits:
    """The distribution of visits of a policy that gives action probabilities by time and state."""
    counts = np.zeros(num_squares(model))
    present = np.where(model.is_terminal, 0.0, model.start)
    for action_probability in policy:
        flow = (present[:, None] * action_probability)[:, :, None] * model.probability
        arrived = np.bincount(model.successor.ravel(), flow.ravel(), minlength=len(model.start))
        counts += np.bincount(model.square, arrived, minlength=len(counts))
        present = np.where(model.is_terminal, 0.0, arrived)
    return counts / counts.sum()


def reachable_squares(model: FiniteModel) -> Bool[np.ndarray, " squares"]:
    """Which squares some policy visits, however unlikely it is that a random one does."""
    present = (model.start > 0) & ~model.is_terminal
    squares = np.zeros(num_squares(model), bool)
    for _ in range(model.horizon):
        arrived = np.zeros_like(present)
        arrived[model.successor[present][model.probability[present] > 0]] = True
        squares[model.square[arrived]] = True
        following = present | (arrived & ~model.is_terminal)
        if (following == present).all():
            break
        present = following
    return squares


def uniform_policy(model: FiniteModel) -> Float[np.ndarray, "horizon S A"]:
    """Every action alike, everywhere and always: it visits all that can be visited."""
    num_actions = model.successor.shape[1]
    return np.full((model.horizon, len(model.start), num_actions), 1.0 / num_actions)


def random_policy(model: FiniteModel, rng: np.random.Generator) -> Float[np.ndarray, "horizon S A"]:
    """Action probabilities drawn evenly from the simplex, for every time and state."""
    num_states, num_actions, _ = model.successor.shape
    return rng.dirichlet(np.ones(num_actions), (model.horizon, num_states))


def num_squares(model: FiniteModel) -> int:
    """How many squares visits are counted by."""
    return int(model.square.max()) + 1


def check_model(model: FiniteModel) -> None:
    """Refuses tables that do not describe a world."""
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
        raise ValueError("start must leave at least one state in which an episode goes on.")


def _entropy(visits: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """`-E[ln p_k(x)]` for one distribution, or for each row of several."""
    return np.asarray(-np.sum(visits * np.log(np.maximum(profile, np.finfo(float).tiny)), axis=-1))


def _frank_wolfe(
    model: FiniteModel,
    objective: Callable[[np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray], np.ndarray],
    visits: Visits,
    tolerance: float,
    max_iterations: int,
) -> tuple[Visits, float]:
    """Climbs from `visits` until the gap is below the tolerance; gives where it got to, and the gap there.

    Every policy asked for is kept as an atom of a mixture, and between two dynamic programmes the weights of
    the mixture are put right (pairwise steps): a few dozen programmes then do the work of thousands.
    """
    atoms, weights, gap = visits[None], np.ones(1), np.inf
    for _ in range(max_iterations):
        direction = slope(visits)
        target = _most_rewarding_visits(model, direction)
        gap = float(direction @ (target - visits))
        if gap <= tolerance:
            break
        atoms, weights = np.concatenate([atoms, target[None]]), np.append(weights, 0.0)
        weights = _balance(objective, slope, atoms, weights, gap / 2)
        atoms, weights = atoms[weights > 0], weights[weights > 0]
        visits = weights @ atoms
    return visits, gap


def _balance(
    objective: Callable[[np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray], np.ndarray],
    atoms: Float[np.ndarray, "atoms squares"],
    weights: Float[np.ndarray, " atoms"],
    tolerance: float,
    max_steps: int = 100,
) -> Float[np.ndarray, " atoms"]:
    """Moves weight from the least to the most rewarding atom, until the two are level to the tolerance."""
    weights = weights.copy()
    for _ in range(max_steps):
        visits = weights @ atoms
        rewards = atoms @ slope(visits)
        best, worst = int(np.argmax(rewards)), int(np.argmin(np.where(weights > 0, rewards, np.inf)))
        if rewards[best] - rewards[worst] <= tolerance:
            break
        moved = weights[worst] * _line_search(
            objective, visits, weights[worst] * (atoms[best] - atoms[worst])
        )
        weights[best] += moved
        weights[worst] -= moved
    return weights / weights.sum()


def _line_search(objective: Callable[[np.ndarray], np.ndarray], start: np.ndarray, step: np.ndarray) -> float:
    """How much of the step to take: the best of a grid, then of a finer grid around it."""
    best = int(np.argmax(objective(np.maximum(start + SHARES[:, None] * step, 0.0))))
    low, high = SHARES[max(best - 1, 0)], SHARES[min(best + 1, len(SHARES) - 1)]
    finer = low + (high - low) * FINER_SHARES
    return float(finer[np.argmax(objective(np.maximum(start + finer[:, None] * step, 0.0)))])


def _most_rewarding_visits(model: FiniteModel, reward: Visits) -> Visits:
    """The visits with the largest mean reward *per visit*.

    Where episodes differ in length this is a ratio, found by Dinkelbach's method: charge each visit the best
    mean so far, solve, and repeat until nothing is gained.
    """
    mean_reward = -np.inf
    visits = counts = _most_rewarding_counts(model, reward)
    while counts @ reward / counts.sum() > mean_reward + 1e-12:
        visits = counts / counts.sum()
        mean_reward = visits @ reward
        if not model.is_terminal.any():
            break
        counts = _most_rewarding_counts(model, reward - mean_reward)
    return visits


def _most_rewarding_counts(model: FiniteModel, reward: Visits) -> Visits:
    """The expected number of visits to each square under the policy with the largest sum of rewards."""
    num_states = len(model.start)
    states = np.arange(num_states)
    value = np.zeros(num_states)
    actions = np.zeros((model.horizon, num_states), int)
    for time in reversed(range(model.horizon)):
        arrival = reward[model.square] + np.where(model.is_terminal, 0.0, value)
        action_value = np.sum(model.probability * arrival[model.successor], axis=-1)
        actions[time] = np.argmax(action_value, axis=-1)
        value = action_value[states, actions[time]]

    counts = np.zeros(len(reward))
    present = np.where(model.is_terminal, 0.0, model.start)
    for action in actions:
        flow = present[:, None] * model.probability[states, action]
        arrived = np.bincount(model.successor[states, action].ravel(), flow.ravel(), minlength=num_states)
        counts += np.bincount(model.square, arrived, minlength=len(counts))
        present = np.where(model.is_terminal, 0.0, arrived)
    return counts

"""Small random MDPs. Their visitation and trajectories are enumerated in float64."""

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st


class MDP(NamedTuple):
    start: np.ndarray  # [S]
    transition: np.ndarray  # [S, A, S]
    horizon: int


@st.composite
def mdps(draw, max_states=4, max_actions=3, max_horizon=3):
    num_states = draw(st.integers(2, max_states))
    num_actions = draw(st.integers(2, max_actions))
    horizon = draw(st.integers(2, max_horizon))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # With a small concentration many transitions are nearly deterministic and some states are hard to reach.
    concentration = draw(st.sampled_from([0.1, 1.0, 10.0]))
    start = rng.dirichlet(np.ones(num_states))
    transition = rng.dirichlet(np.full(num_states, concentration), (num_states, num_actions))
    return MDP(start, transition, horizon)


@st.composite
def similarities(draw, num_states):
    """Symmetric matrices in [0, 1] with ones on the diagonal, including some that are no kernel of any embedding."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(rng.uniform(size=(num_states, num_states)) ** draw(st.sampled_from([0.3, 1.0, 4.0])), 1)
    return upper + upper.T + np.eye(num_states)


def policy_of(logits):
    """Returns the action probabilities [T - 1, S, A] of a time-dependent policy."""
    return jax.nn.softmax(logits, axis=-1)


def random_logits(mdp, seed=0):
    shape = (mdp.horizon - 1, *mdp.transition.shape[:2])
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def visits(mdp, policy):
    """Returns p^π(x) = 1/T Σ_t p_t(x), exactly. Differentiable with respect to the policy."""
    present = jnp.asarray(mdp.start)
    total = present
    for action_probability in policy:
        present = jnp.einsum("s,sa,sax->x", present, action_probability, jnp.asarray(mdp.transition))
        total = total + present
    return total / mdp.horizon


def trajectories(mdp):
    """Yields every sequence of states x_1 … x_T and of actions a_1 … a_{T-1}."""
    num_states, num_actions, _ = mdp.transition.shape
    for states in product(range(num_states), repeat=mdp.horizon):
        for actions in product(range(num_actions), repeat=mdp.horizon - 1):
            yield states, actions

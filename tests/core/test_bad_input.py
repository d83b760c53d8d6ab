"""What cannot be right is refused by name, value and expectation, before anything is compiled."""

import inspect

import jax
import jax.numpy as jnp
import pytest

from gemax.core import (
    adjacency,
    ceiling,
    encoding,
    entropy,
    expectation,
    normaliser,
    objective,
    returns,
    similarity,
)

X = jnp.asarray([0.5, 0.5])
CONTRAST = expectation.Contrast(X, X)
POINTS = jnp.zeros((2, 3))
EMPTY = jnp.zeros(2, bool)


def plain(function):
    """The function without the shape checker that tests put around it, which would speak first."""
    return inspect.unwrap(function)


CASES = {
    "alpha too large": (
        lambda: plain(objective.gem_objective)(X, X, alpha=2.0),
        "alpha must be below 2.*got 2.0",
    ),
    "alpha too large for the reward": (
        lambda: plain(objective.gem_reward)(X, CONTRAST, alpha=3),
        "alpha.*got 3",
    ),
    "alpha not a number": (
        lambda: plain(objective.gem_objective)(X, X, alpha=float("nan")),
        "alpha.*got nan",
    ),
    "exponent zero": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_exponent=0.0),
        "huber_exponent must be positive.*got 0.0",
    ),
    "exponent negative": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_exponent=-1.0),
        "huber_exponent.*got -1.0",
    ),
    "offset negative": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_offset=-0.1),
        "huber_offset must be zero or more.*got -0.1",
    ),
    "similarity is a distance": (
        lambda: plain(objective.gem_objective)(X, jnp.asarray([0.0, 3.0])),
        r"similarity must lie in \[0, 1\].*0 to 3.*distance",
    ),
    "similarity negative": (
        lambda: plain(expectation.exact_contrast)(-jnp.ones((2, 2)), X),
        r"similarity must lie in \[0, 1\].*-1",
    ),
    "similarity not a number": (
        lambda: plain(similarity.similarity_profile)(jnp.full((2, 2), jnp.nan), X),
        r"similarity must lie in \[0, 1\].*nan",
    ),
    "scale zero": (
        lambda: plain(similarity.exponential_similarity)(POINTS, POINTS, scale=0.0),
        "scale.*got 0.0",
    ),
    "lengths of objective": (
        lambda: plain(objective.gem_objective)(X, jnp.ones(3)),
        r"same shape.*log_g \(2,\), similarity \(3,\)",
    ),
    "lengths of weight": (lambda: plain(objective.gem_objective)(X, X, jnp.ones(3)), r"weight \(3,\)"),
    "lengths of reward": (
        lambda: plain(objective.gem_reward)(jnp.ones(3), CONTRAST),
        r"log_g \(3,\), similarity \(2,\)",
    ),
    "lengths of negatives": (
        lambda: plain(expectation.exact_contrast)(jnp.ones((2, 2)), jnp.ones(3)),
        r"g_power must have one entry for each of 2 negatives; got \(3,\)",
    ),
    "lengths of a profile": (
        lambda: plain(similarity.similarity_profile)(jnp.ones((2, 3)), X),
        "column for each of 2",
    ),
    "lengths of adjacency": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, jnp.zeros((4, 3))),
        r"embedding_t \(2, 3\), embedding_tp1 \(4, 3\)",
    ),
    "lengths of adjacency weight": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, POINTS, jnp.ones(5)),
        r"each of 2 steps; got \(5,\)",
    ),
    "lengths of returns": (
        lambda: plain(returns.averaged_returns)(X, X, jnp.ones(3), EMPTY),
        r"reward_t \(2,\).*value_tp1 \(3,\)",
    ),
    "empty mask of objective": (lambda: plain(objective.gem_objective)(X, X, EMPTY), "weight.*empty mask"),
    "empty mask of negatives": (
        lambda: plain(expectation.exact_contrast)(jnp.ones((2, 2)), X, EMPTY),
        "weight.*empty mask",
    ),
    "empty mask of drawn negatives": (
        lambda: plain(expectation.sampled_contrast)(
            jnp.ones((2, 2)), jnp.ones((2, 2)), jnp.asarray([[True, True], [False, False]])
        ),
        "mask must leave at least one negative for every state",
    ),
    "empty mask of adjacency": (
        lambda: plain(adjacency.adjacency_regulariser)(POINTS, POINTS, EMPTY),
        "weight.*empty mask",
    ),
    "empty mask of normaliser": (
        lambda: plain(normaliser.update_normaliser)(normaliser.init_normaliser(), X, EMPTY),
        "mask.*empty mask",
    ),
    "negative weight": (
        lambda: plain(objective.gem_objective)(X, X, jnp.asarray([2.0, -1.0])),
        "not be negative.*-1",
    ),
    "decay above one": (
        lambda: plain(normaliser.update_normaliser)(normaliser.init_normaliser(), X, decay=1.5),
        r"decay must lie in \[0, 1\]; got 1.5",
    ),
    "counts for probabilities": (
        lambda: plain(entropy.shannon_entropy)(jnp.asarray([3.0, 4.0])),
        "probability.*sum of 7.*counts",
    ),
    "buckets": (lambda: plain(encoding.soft_one_hot)(X, 0, 0.0, 1.0), "num_buckets must be positive.*got 0"),
    "range upside down": (lambda: plain(encoding.soft_one_hot)(X, 3, 1.0, 0.0), "low must lie below high"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_in_words(name):
    call, message = CASES[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_what_python_knows_is_refused_also_inside_jit_before_anything_is_compiled(monkeypatch):
    with pytest.raises(ValueError, match="alpha"):
        jax.jit(lambda x: objective.gem_objective(x, x, alpha=2.5)).lower(X)


def test_tables_that_are_no_world_are_refused():
    from tests.core.test_ceiling import corridor

    model = corridor(3, horizon=4)
    with pytest.raises(ValueError, match=r"start.*sum of 2"):
        ceiling.entropy_ceiling(model._replace(start=model.start * 2))
    with pytest.raises(ValueError, match="successor must hold states from 0 to 2"):
        ceiling.entropy_ceiling(model._replace(successor=model.successor + 5))
    with pytest.raises(ValueError, match="probability must sum to 1"):
        ceiling.entropy_ceiling(model._replace(probability=model.probability / 2))
    with pytest.raises(ValueError, match="start must leave"):
        ceiling.entropy_ceiling(model._replace(is_terminal=~model.is_terminal))
    with pytest.raises(ValueError, match="horizon must be positive"):
        ceiling.entropy_ceiling(model._replace(horizon=0))


def test_known_arguments_are_checked_while_others_are_traced():
    """A weight that is known inside `jit` is a constant there, and must be looked at without tracing."""
    weight, same = jnp.ones(3), jnp.eye(3)
    contrast = jax.jit(lambda g: expectation.exact_contrast(same, g, weight).similarity)(jnp.ones(3))
    assert jnp.allclose(contrast, 1 / 3)
    negative = jnp.asarray([1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match="weight must not be negative"):
        jax.jit(lambda g: expectation.exact_contrast(same, g, negative).similarity)(jnp.ones(3))

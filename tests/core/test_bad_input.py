"""Invalid arguments raise errors that name the argument, its value and what was expected, before compilation."""

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
    moments,
    objective,
    returns,
    similarity,
)
from tests.core.test_ceiling import corridor

X = jnp.asarray([0.5, 0.5])
CONTRAST = expectation.Contrast(X, X)
POINTS = jnp.zeros((2, 3))
EMPTY = jnp.zeros(2, bool)


def unchecked(function):
    """Returns the function without the shape checks of the tests, which would raise first."""
    return inspect.unwrap(function)


CASES = {
    "alpha too large": (
        lambda: unchecked(objective.gem_objective)(X, X, alpha=2.0),
        "alpha must be below 2.*got 2.0",
    ),
    "alpha too large for the reward": (
        lambda: unchecked(objective.gem_reward)(X, CONTRAST, alpha=3),
        "alpha.*got 3",
    ),
    "alpha is NaN": (
        lambda: unchecked(objective.gem_objective)(X, X, alpha=float("nan")),
        "alpha.*got nan",
    ),
    "exponent zero": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_exponent=0.0),
        "huber_exponent must be positive.*got 0.0",
    ),
    "exponent negative": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_exponent=-1.0),
        "huber_exponent.*got -1.0",
    ),
    "offset negative": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, POINTS, huber_offset=-0.1),
        "huber_offset must be zero or more.*got -0.1",
    ),
    "similarity is a distance": (
        lambda: unchecked(objective.gem_objective)(X, jnp.asarray([0.0, 3.0])),
        r"similarity must lie in \[0, 1\].*0 to 3.*distance",
    ),
    "similarity negative": (
        lambda: unchecked(expectation.exact_contrast)(-jnp.ones((2, 2)), X),
        r"similarity must lie in \[0, 1\].*-1",
    ),
    "similarity is NaN": (
        lambda: unchecked(similarity.similarity_profile)(jnp.full((2, 2), jnp.nan), X),
        r"similarity must lie in \[0, 1\].*nan",
    ),
    "scale zero": (
        lambda: unchecked(similarity.exponential_similarity)(POINTS, POINTS, scale=0.0),
        "scale.*got 0.0",
    ),
    "shapes of the objective": (
        lambda: unchecked(objective.gem_objective)(X, jnp.ones(3)),
        r"same shape.*log_g \(2,\), similarity \(3,\)",
    ),
    "shape of the weight": (lambda: unchecked(objective.gem_objective)(X, X, jnp.ones(3)), r"weight \(3,\)"),
    "shapes of the reward": (
        lambda: unchecked(objective.gem_reward)(jnp.ones(3), CONTRAST),
        r"log_g \(3,\), similarity \(2,\)",
    ),
    "shapes of the negatives": (
        lambda: unchecked(expectation.exact_contrast)(jnp.ones((2, 2)), jnp.ones(3)),
        r"g_power must have 2 entries, one per negative; got \(3,\)",
    ),
    "shapes of a profile": (
        lambda: unchecked(similarity.similarity_profile)(jnp.ones((2, 3)), X),
        "similarity must have 2 columns",
    ),
    "shapes of embeddings": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, jnp.zeros((4, 3))),
        r"embedding_t \(2, 3\), embedding_tp1 \(4, 3\)",
    ),
    "shape of the adjacency weight": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, POINTS, jnp.ones(5)),
        r"distance \(2,\), weight \(5,\)",
    ),
    "shapes of the returns": (
        lambda: unchecked(returns.averaged_returns)(X, X, jnp.ones(3), EMPTY),
        r"reward_t \(2,\).*value_tp1 \(3,\)",
    ),
    "empty mask of objective": (
        lambda: unchecked(objective.gem_objective)(X, X, EMPTY),
        "weight.*empty mask",
    ),
    "empty mask of negatives": (
        lambda: unchecked(expectation.exact_contrast)(jnp.ones((2, 2)), X, EMPTY),
        "weight.*empty mask",
    ),
    "empty mask of sampled negatives": (
        lambda: unchecked(expectation.sampled_contrast)(
            jnp.ones((2, 2)), jnp.ones((2, 2)), jnp.asarray([[True, True], [False, False]])
        ),
        "mask must leave at least one negative for every state",
    ),
    "empty mask of adjacency": (
        lambda: unchecked(adjacency.adjacency_regulariser)(POINTS, POINTS, EMPTY),
        "weight.*empty mask",
    ),
    "empty mask of moments": (
        lambda: unchecked(moments.update_moments)(moments.init_moments(), X, EMPTY),
        "mask.*empty mask",
    ),
    "negative weight": (
        lambda: unchecked(objective.gem_objective)(X, X, jnp.asarray([2.0, -1.0])),
        "not be negative.*-1",
    ),
    "decay above one": (
        lambda: unchecked(moments.update_moments)(moments.init_moments(), X, decay=1.5),
        r"decay must lie in \[0, 1\]; got 1.5",
    ),
    "counts instead of probabilities": (
        lambda: unchecked(entropy.shannon_entropy)(jnp.asarray([3.0, 4.0])),
        "probability.*sum of 7.*counts",
    ),
    "no buckets": (
        lambda: unchecked(encoding.soft_one_hot)(X, 0, 0.0, 1.0),
        "num_buckets must be positive.*got 0",
    ),
    "range reversed": (
        lambda: unchecked(encoding.soft_one_hot)(X, 3, 1.0, 0.0),
        "low must be less than high",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_invalid_arguments_raise_an_error_that_names_them(name):
    call, message = CASES[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_python_arguments_are_checked_inside_jit_before_compilation():
    with pytest.raises(ValueError, match="alpha"):
        jax.jit(lambda x: objective.gem_objective(x, x, alpha=2.5)).lower(X)


def test_models_that_describe_no_environment_raise_an_error():
    model = corridor(3, horizon=4)
    with pytest.raises(ValueError, match=r"start.*sum of 2"):
        ceiling.entropy_ceiling(model._replace(start=model.start * 2))
    with pytest.raises(ValueError, match="successor must hold states from 0 to 2"):
        ceiling.entropy_ceiling(model._replace(successor=model.successor + 5))
    with pytest.raises(ValueError, match="probability must sum to 1"):
        ceiling.entropy_ceiling(model._replace(probability=model.probability / 2))
    with pytest.raises(ValueError, match="start must include"):
        ceiling.entropy_ceiling(model._replace(is_terminal=~model.is_terminal))
    with pytest.raises(ValueError, match="horizon must be positive"):
        ceiling.entropy_ceiling(model._replace(horizon=0))


def test_concrete_arguments_are_checked_while_others_are_traced():
    """A concrete weight is a constant inside `jit`; its check must not be traced."""
    weight, similarity = jnp.ones(3), jnp.eye(3)
    contrast = jax.jit(lambda g: expectation.exact_contrast(similarity, g, weight).similarity)(jnp.ones(3))
    assert jnp.allclose(contrast, 1 / 3)
    negative = jnp.asarray([1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match="weight must not be negative"):
        jax.jit(lambda g: expectation.exact_contrast(similarity, g, negative).similarity)(jnp.ones(3))

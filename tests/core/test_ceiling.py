import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gemax.core.ceiling import entropy_ceiling, geometric_entropy_bound
from gemax.core.finite_model import (
    FiniteModel,
    policy_visits,
    random_policy,
    reachable_cells,
    uniform_policy,
)


def corridor(length, horizon, start=0, terminal=None):
    """A row of cells with the actions stay, left and right."""
    cells = np.arange(length)
    successor = np.stack([cells, np.maximum(cells - 1, 0), np.minimum(cells + 1, length - 1)], axis=1)
    return FiniteModel(
        start=(cells == start).astype(float),
        successor=successor[:, :, None],
        probability=np.ones((length, 3, 1)),
        is_terminal=cells == (-1 if terminal is None else terminal),
        cell=cells,
        horizon=horizon,
    )


@st.composite
def random_models(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_states, num_actions, horizon = (
        draw(st.integers(2, 6)),
        draw(st.integers(2, 3)),
        draw(st.integers(1, 4)),
    )
    outcomes = draw(st.integers(1, 3))
    terminal = rng.uniform(size=num_states) < draw(st.sampled_from([0.0, 0.3]))
    terminal[0] = False
    return FiniteModel(
        start=np.eye(num_states)[0],
        successor=rng.integers(num_states, size=(num_states, num_actions, outcomes)),
        probability=rng.dirichlet(np.ones(outcomes), (num_states, num_actions)),
        is_terminal=terminal,
        cell=rng.integers(max(1, num_states - 1), size=num_states),
        horizon=horizon,
    )


def entropy(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def test_ceiling_of_a_long_episode_in_a_corridor_is_that_of_uniform_visits():
    ceiling = entropy_ceiling(corridor(4, horizon=400))
    assert ceiling.entropy <= np.log(4)
    np.testing.assert_allclose(ceiling.entropy + ceiling.gap, np.log(4), atol=1e-3)


def test_two_steps_in_a_corridor_have_a_closed_form():
    """From the left end of three cells, at most half of the visits are to the last, so uniform visits are reachable."""
    np.testing.assert_allclose(entropy_ceiling(corridor(3, horizon=2)).entropy, np.log(3), atol=1e-4)
    np.testing.assert_allclose(entropy_ceiling(corridor(3, horizon=1)).entropy, np.log(2), atol=1e-4)


@given(random_models(), st.integers(0, 1000))
def test_no_random_policy_exceeds_the_ceiling_plus_its_gap(model, seed):
    ceiling = entropy_ceiling(model, tolerance=1e-4)
    assert -1e-9 <= ceiling.gap <= 1e-4
    np.testing.assert_allclose(entropy(ceiling.visits), ceiling.entropy, atol=1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        visits = policy_visits(model, random_policy(model, rng))
        assert entropy(visits) <= ceiling.entropy + ceiling.gap + 1e-9


@given(random_models(), st.integers(0, 20))
def test_ceiling_equals_the_maximum_found_by_gradient_ascent_over_policies(model, seed):
    """Independent reference: L-BFGS over the logits of a time-dependent policy, from several starts."""
    shape = (model.horizon, *model.successor.shape[:2])
    rng = np.random.default_rng(seed)

    def negative_entropy(logits):
        logits = logits.reshape(shape)
        policy = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return -entropy(policy_visits(model, policy / policy.sum(axis=-1, keepdims=True)))

    found = max(
        -minimize(negative_entropy, rng.normal(size=np.prod(shape)), method="L-BFGS-B").fun for _ in range(2)
    )
    ceiling = entropy_ceiling(model)
    assert found <= ceiling.entropy + ceiling.gap + 1e-9
    np.testing.assert_allclose(found, ceiling.entropy, atol=5e-3)


def test_visits_of_episodes_of_different_lengths_are_normalised_by_their_number():
    """Three cells of which the last is terminal, two steps: a straight walk visits the last cell half of the time."""
    model = corridor(3, horizon=2, terminal=2)
    np.testing.assert_allclose(entropy_ceiling(model).entropy, np.log(3), atol=1e-4)
    short = corridor(2, horizon=2, terminal=1)
    # An episode visits the end once or the start twice, so a mixture can visit both equally often.
    np.testing.assert_allclose(entropy_ceiling(short).entropy, np.log(2), atol=1e-4)


def test_geometric_bound_with_the_indicator_equals_the_ceiling():
    model = corridor(6, horizon=9)
    bound = geometric_entropy_bound(model, np.eye(6), num_starts=3)
    ceiling = entropy_ceiling(model)
    np.testing.assert_allclose(bound.entropy, ceiling.entropy, atol=2e-3)
    assert bound.entropy <= ceiling.entropy + ceiling.gap


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_geometric_bound_lies_between_the_uniform_policy_and_the_ceiling(scale):
    model = corridor(8, horizon=12)
    cells = np.arange(8)
    similarity = np.exp(-scale * np.abs(cells[:, None] - cells))
    bound = geometric_entropy_bound(model, similarity)

    def geometric_entropy(visits):
        return -(visits * np.log(similarity @ visits)).sum()

    np.testing.assert_allclose(geometric_entropy(bound.visits), bound.entropy, atol=1e-9)
    assert geometric_entropy(policy_visits(model, uniform_policy(model))) < bound.entropy
    assert bound.entropy < entropy_ceiling(model).entropy


def test_cells_that_a_random_walk_practically_never_reaches_count_as_reachable():
    """The probability that a random walk reaches the end of this corridor is 0 in float64."""
    model = corridor(700, horizon=699)
    assert reachable_cells(model).all()
    assert not reachable_cells(corridor(5, horizon=2))[3:].any()


def test_ceiling_of_a_long_corridor_is_finite_and_certified():
    ceiling = entropy_ceiling(corridor(60, horizon=80), tolerance=1e-2)
    assert np.isfinite(ceiling.entropy)
    assert 0 <= ceiling.gap <= 1e-2
    assert ceiling.entropy <= np.log(60)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gemax.core.ceiling import (
    FiniteModel,
    entropy_ceiling,
    geometric_entropy_bound,
    policy_visits,
    random_policy,
    uniform_policy,
)


def corridor(length, horizon, start=0, terminal=None):
    """Squares in a row: stay, left, right."""
    squares = np.arange(length)
    successor = np.stack([squares, np.maximum(squares - 1, 0), np.minimum(squares + 1, length - 1)], axis=1)
    return FiniteModel(
        start=(squares == start).astype(float),
        successor=successor[:, :, None],
        probability=np.ones((length, 3, 1)),
        is_terminal=squares == (-1 if terminal is None else terminal),
        square=squares,
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
        square=rng.integers(max(1, num_states - 1), size=num_states),
        horizon=horizon,
    )


def entropy(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def test_a_long_walk_in_a_corridor_visits_every_square_alike():
    ceiling = entropy_ceiling(corridor(4, horizon=400))
    assert ceiling.entropy <= np.log(4)
    np.testing.assert_allclose(ceiling.entropy + ceiling.gap, np.log(4), atol=1e-3)


def test_two_steps_in_a_corridor_have_a_closed_form():
    """From the left end of three squares: the mass on the last one is at most half, and all shares can be had."""
    np.testing.assert_allclose(entropy_ceiling(corridor(3, horizon=2)).entropy, np.log(3), atol=1e-4)
    np.testing.assert_allclose(entropy_ceiling(corridor(3, horizon=1)).entropy, np.log(2), atol=1e-4)


@given(random_models(), st.integers(0, 1000))
def test_no_policy_exceeds_the_ceiling_and_its_certificate_holds(model, seed):
    ceiling = entropy_ceiling(model, tolerance=1e-4)
    assert -1e-9 <= ceiling.gap <= 1e-4
    np.testing.assert_allclose(entropy(ceiling.visits), ceiling.entropy, atol=1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        visits = policy_visits(model, random_policy(model, rng))
        assert entropy(visits) <= ceiling.entropy + ceiling.gap + 1e-9


@given(random_models(), st.integers(0, 20))
def test_ceiling_equals_what_gradient_ascent_over_policies_finds(model, seed):
    """An independent way: quasi-Newton over the logits of a policy that knows the time, from several starts."""
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


def test_where_the_reward_ends_the_episode_visits_are_divided_by_their_number():
    """Three squares, the last one terminal, two steps: half the visits of a straight walk are the last square's."""
    model = corridor(3, horizon=2, terminal=2)
    np.testing.assert_allclose(entropy_ceiling(model).entropy, np.log(3), atol=1e-4)
    short = corridor(2, horizon=2, terminal=1)
    # One visit to the end, or two to the start: shares (1 - w)·2 : w of a mixture, so an even split is in reach.
    np.testing.assert_allclose(entropy_ceiling(short).entropy, np.log(2), atol=1e-4)


def test_bound_with_the_indicator_is_the_ceiling():
    model = corridor(6, horizon=9)
    bound = geometric_entropy_bound(model, np.eye(6), num_starts=3)
    ceiling = entropy_ceiling(model)
    np.testing.assert_allclose(bound.entropy, ceiling.entropy, atol=2e-3)
    assert bound.entropy <= ceiling.entropy + ceiling.gap


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_bound_with_a_geometry_is_reached_by_no_random_policy_and_lies_below_the_ceiling(scale):
    model = corridor(8, horizon=12)
    squares = np.arange(8)
    similarity = np.exp(-scale * np.abs(squares[:, None] - squares))
    bound = geometric_entropy_bound(model, similarity)

    def geometric_entropy(visits):
        return -(visits * np.log(similarity @ visits)).sum()

    np.testing.assert_allclose(geometric_entropy(bound.visits), bound.entropy, atol=1e-9)
    assert geometric_entropy(policy_visits(model, uniform_policy(model))) < bound.entropy
    assert bound.entropy < entropy_ceiling(model).entropy

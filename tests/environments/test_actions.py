import jax
import numpy as np
import pytest
from gymnasium import spaces

from gemax.agent.distributions import distribution_of
from gemax.environments.actions import translation_of
from gemax.types import ContinuousActions, FiniteActions

SPACES = {
    "discrete": (spaces.Discrete(4, start=-1), FiniteActions((4,))),
    "few combinations": (spaces.MultiDiscrete([2, 3], start=[1, 0]), FiniteActions((6,))),
    "many combinations": (spaces.MultiDiscrete([9, 9, 9]), FiniteActions((9, 9, 9))),
    "buttons": (spaces.MultiBinary(3), FiniteActions((8,))),
    "many buttons": (spaces.MultiBinary((3, 3)), FiniteActions((2,) * 9)),
    "box": (spaces.Box(np.array([-1.0, 5.0]), np.array([1.0, 7.0]), dtype=np.float64), ContinuousActions(2)),
    "table": (spaces.Box(-2.0, 3.0, (2, 2)), ContinuousActions(4)),
}


@pytest.mark.parametrize("name", SPACES)
def test_whatever_a_policy_draws_lies_in_the_action_space(name, key):
    space, spec = SPACES[name]
    translation = translation_of(space)
    assert translation.spec == spec
    outputs = 3.0 * jax.random.normal(key, (200, spec.num_outputs))
    drawn = np.asarray(distribution_of(spec).draw(outputs, key))
    for action in translation.translate(drawn):
        assert space.contains(action), action


@pytest.mark.parametrize("name", ["discrete", "few combinations", "buttons"])
def test_every_action_can_be_taken(name):
    space, spec = SPACES[name]
    taken = translation_of(space).translate(np.arange(spec.num_outputs))
    assert len(np.unique(taken.reshape(len(taken), -1), axis=0)) == spec.num_outputs


def test_the_ends_of_a_range_are_its_bounds():
    space, _ = SPACES["box"]
    translate = translation_of(space).translate
    np.testing.assert_allclose(
        translate(np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]])), [[-1, 5], [1, 7], [0, 6.5]]
    )


@pytest.mark.parametrize(
    "space", [spaces.Box(-np.inf, np.inf, (2,)), spaces.Text(3), spaces.Box(0, 3, (2,), np.int64)]
)
def test_actions_that_no_policy_can_choose_are_refused(space):
    with pytest.raises(ValueError, match="action space must"):
        translation_of(space)

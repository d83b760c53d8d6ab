import jax
import numpy as np
import pytest
from gymnasium import spaces

from gemax.agent.distributions import distribution_of
from gemax.envs.host.actions import action_decoder
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
def test_sampled_actions_lie_in_the_action_space(name, key):
    space, spec = SPACES[name]
    decoder = action_decoder(space)
    assert decoder.spec == spec
    outputs = 3.0 * jax.random.normal(key, (200, spec.num_outputs))
    sampled = np.asarray(distribution_of(spec).sample(outputs, key))
    for action in decoder.decode(sampled):
        assert space.contains(action), action


@pytest.mark.parametrize("name", ["discrete", "few combinations", "buttons"])
def test_every_action_of_the_space_can_be_chosen(name):
    space, spec = SPACES[name]
    taken = action_decoder(space).decode(np.arange(spec.num_outputs))
    assert len(np.unique(taken.reshape(len(taken), -1), axis=0)) == spec.num_outputs


def test_minus_one_and_one_are_the_bounds_of_a_box():
    space, _ = SPACES["box"]
    decode = action_decoder(space).decode
    np.testing.assert_allclose(
        decode(np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]])), [[-1, 5], [1, 7], [0, 6.5]]
    )


@pytest.mark.parametrize(
    "space", [spaces.Box(-np.inf, np.inf, (2,)), spaces.Text(3), spaces.Box(0, 3, (2,), np.int64)]
)
@pytest.mark.fault(30)
def test_unsupported_action_spaces_raise_an_error(space):
    with pytest.raises(ValueError, match="action space must"):
        action_decoder(space)

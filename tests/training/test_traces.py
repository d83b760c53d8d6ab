import jax.numpy as jnp
import numpy as np

from gemax.networks import Inputs, Memory
from gemax.training.collect import Steps
from gemax.training.state import Arrived, Position
from gemax.training.traces import empty_window, extend, latest


def position():
    nothing = jnp.zeros(2)
    inputs = Inputs(jnp.zeros(2, jnp.int32), nothing, jnp.zeros(2, int))
    memory = Memory(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    return Position((), jnp.zeros((2, 1)), inputs, jnp.ones(2, bool), memory, nothing)


def steps(is_valid=None):
    window = empty_window(position(), 3)
    flags = jnp.zeros((3, 2), bool)
    return Steps(
        seen=window.seen,
        arrived=window.seen + 1.0,
        inputs=window.inputs,
        is_first=flags,
        memory=window.memory,
        action=window.action,
        log_probability=window.log_probability,
        reward=window.reward,
        terminated=flags.at[1, 0].set(True),
        truncated=flags.at[1, 1].set(True),
        square=window.action,
        episode_return=window.reward,
        is_valid=is_valid,
    )


def test_nothing_is_worth_anything_after_the_horizon_of_a_world():
    window = extend(empty_window(position(), 2), steps(), jnp.zeros((3, 2)))
    np.testing.assert_array_equal(window.ends[2:], [[False, False], [True, True], [False, False]])
    np.testing.assert_array_equal(window.bootstraps[2:], ~window.ends[2:])
    assert window.arrived is None


def test_a_cut_episode_goes_on_in_its_value_where_what_it_led_to_is_known():
    new = steps(is_valid=jnp.ones((3, 2), bool).at[2].set(False))
    arrived = Arrived(new.arrived, new.inputs)
    window = extend(empty_window(position(), 2, keeps_arrived=True), new, jnp.zeros((3, 2)), arrived)
    np.testing.assert_array_equal(window.ends[2:], [[False, False], [True, True], [False, False]])
    np.testing.assert_array_equal(window.bootstraps[2:], [[True, True], [False, True], [True, True]])
    np.testing.assert_array_equal(window.is_valid[:, 0], [False, False, True, True, False])
    np.testing.assert_array_equal(latest(window, 2).arrived.seen, jnp.ones((2, 2, 1)))

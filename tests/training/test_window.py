import jax.numpy as jnp
import numpy as np
import pytest

from gemax.networks import AgentInputs, LSTMState
from gemax.training.learn import _bootstraps
from gemax.training.state import ActorState
from gemax.training.window import empty_window, extend, latest
from gemax.types import EnvSpec, FiniteActions, ObservationSpec, ends


def actor():
    zeros = jnp.zeros(2)
    inputs = AgentInputs(jnp.zeros(2, jnp.int32), zeros, jnp.zeros(2, int))
    lstm_state = LSTMState(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    no = jnp.zeros(2, bool)
    return ActorState((), jnp.zeros((2, 1)), inputs, ~no, lstm_state, zeros, zeros, no)


def steps():
    """Three steps of two environments: the second step terminates in one and truncates in the other."""
    transitions, no = empty_window(actor(), 3).transitions, jnp.zeros((3, 2), bool)
    return transitions._replace(
        next_observation=transitions.observation + 1.0,
        terminated=no.at[1, 0].set(True),
        truncated=no.at[1, 1].set(True),
        is_first=no,
        is_valid=(~no).at[2].set(False),
    )


def spec(truncation_bootstraps):
    box = ObservationSpec(np.zeros(1, np.float32), np.ones(1, np.float32))
    return EnvSpec("toy", box, FiniteActions((2,)), 10, truncation_bootstraps=truncation_bootstraps)


@pytest.mark.parametrize(
    ("truncation_bootstraps", "expected"), [(False, [False, False]), (True, [False, True])]
)
def test_a_truncated_episode_bootstraps_only_where_the_time_limit_is_no_part_of_the_task(
    truncation_bootstraps, expected
):
    window = extend(empty_window(actor(), 2), steps(), jnp.zeros((3, 2)))
    np.testing.assert_array_equal(
        ends(window.transitions)[2:], [[False, False], [True, True], [False, False]]
    )
    bootstraps = _bootstraps(spec(truncation_bootstraps), window.transitions)
    np.testing.assert_array_equal(bootstraps[2:], [[True, True], expected, [True, True]])
    assert not bootstraps[:2].any()


def test_the_window_keeps_the_last_steps_and_marks_those_that_never_happened():
    window = extend(empty_window(actor(), 2), steps(), jnp.ones((3, 2)))
    np.testing.assert_array_equal(window.transitions.is_valid[:, 0], [False, False, True, True, False])
    kept = latest(window, 2)
    np.testing.assert_array_equal(kept.transitions.next_observation, jnp.ones((2, 2, 1)))
    np.testing.assert_array_equal(kept.reward, jnp.ones((2, 2)))

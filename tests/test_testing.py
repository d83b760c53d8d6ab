"""`check_reward` accepts a correct reward and names the rule that a wrong one breaks."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.base import IntrinsicReward
from gemax.testing import ContractError, check_reward, example_transitions, slice_steps, without_table
from gemax.types import gather

ROWS, ENVS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.float32), 3


class State(NamedTuple):
    mean: jax.Array
    key: jax.Array


def sizes_of(transitions):
    return gather(
        transitions.next_observation, jnp.abs(transitions.next_observation.rows), transitions.action.shape[1]
    ).sum(axis=-1)


def init(key, rows, num_envs):
    return State(jnp.zeros(()), key)


def reward(state, transitions, key):
    """Returns the size of the next observation relative to the running mean."""
    return sizes_of(transitions) / (1.0 + state.mean)


def step(state, transitions, key):
    sizes = sizes_of(transitions)
    mean = jnp.where(jnp.isfinite(sizes), sizes, 0.0).mean()
    following = State(0.9 * state.mean + 0.1 * mean, jax.random.split(state.key)[0])
    return reward(state, transitions, key), following, {"mean": mean}


CORRECT = IntrinsicReward(init, reward, step, embed=lambda state, rows: rows)


def with_reward(function):
    """Returns the correct module with another reward."""

    def other_step(state, transitions, key):
        return function(state, transitions, key), *step(state, transitions, key)[1:]

    return CORRECT._replace(reward=function, step=other_step)


def with_next_state(change):
    """Returns the correct module with another state after learning."""

    def other_step(state, transitions, key):
        from_step, following, metrics = step(state, transitions, key)
        return from_step, change(following, transitions), metrics

    return CORRECT._replace(step=other_step)


def assert_refused(module, rule, **arguments):
    with pytest.raises(ContractError, match=rule):
        check_reward(module, ROWS, ENVS, **arguments)


def test_a_correct_module_passes():
    check_reward(CORRECT, ROWS, ENVS, envs_are_independent=True)


def test_a_state_with_leaves_other_than_arrays_is_refused():
    assert_refused(
        CORRECT._replace(init=lambda *_: State(0.0, jax.random.key(0))), "tree of arrays.*mean is float"
    )


def test_an_initial_state_sampled_without_the_key_is_refused():
    random = np.random.default_rng(0)
    assert_refused(
        CORRECT._replace(init=lambda key, *_: State(jnp.asarray(random.random()), key)), "`init` is pure"
    )


def test_a_python_condition_on_array_values_is_refused():
    assert_refused(
        with_reward(lambda state, transitions, key: sizes_of(transitions) if state.mean > 1 else 0),
        "can be compiled",
    )


def test_a_reward_per_environment_instead_of_per_step_is_refused():
    assert_refused(
        with_reward(lambda state, transitions, key: sizes_of(transitions).sum(axis=0)),
        r"`reward` returns a reward for each step.*\(6, 3\).*\(3,\)",
    )


def test_metrics_that_are_not_scalars_are_refused():
    assert_refused(
        CORRECT._replace(step=lambda *all: (*step(*all)[:2], {"sizes": sizes_of(all[1])})),
        "metric 'sizes' is a scalar",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda state, transitions: state._replace(mean=state.mean[None]),
        lambda state, transitions: state._replace(mean=state.mean > 0),
        lambda state, transitions: (*state, state.mean),
    ],
    ids=["shape", "dtype", "structure"],
)
def test_a_state_that_cannot_be_scanned_is_refused(change):
    assert_refused(with_next_state(change), "keeps the shapes and dtypes")


def test_sampling_or_counting_outside_of_the_arguments_is_refused():
    random, calls = np.random.default_rng(0), []

    def sampled(state, transitions, key):
        return reward(state, transitions, key) + random.random()

    def counting(state, transitions):
        calls.append(state)
        return state._replace(mean=state.mean * len(calls))

    assert_refused(with_reward(sampled), "`reward` is pure")
    assert_refused(with_next_state(counting), "`step` is pure")


def test_a_reward_computed_after_learning_is_refused():
    def eager(state, transitions, key):
        _, following, metrics = step(state, transitions, key)
        return reward(following, transitions, key), following, metrics

    assert_refused(
        CORRECT._replace(step=eager), "`step` returns the reward of `reward`.* instead of .* at time"
    )


def test_a_reward_that_cannot_be_vmapped_is_refused():
    def outside(state, transitions, key):
        shape = jax.ShapeDtypeStruct(transitions.action.shape, state.mean.dtype)
        return jax.pure_callback(lambda mean: np.full(shape.shape, 1 + mean, shape.dtype), shape, state.mean)

    assert_refused(with_reward(outside), "seeds under `vmap`")


def test_a_reward_that_depends_on_unvisited_rows_is_refused():
    assert_refused(
        with_reward(
            lambda state, transitions, key: (
                sizes_of(transitions) / jnp.abs(transitions.next_observation.rows).sum()
            )
        ),
        "rows of a table and for single observations",
    )


def test_division_by_a_standard_deviation_of_zero_is_refused():
    def standardised(state, transitions, key):
        sizes = sizes_of(transitions)
        return sizes / sizes.std()

    assert_refused(with_reward(standardised), "finite after observations that are all zero")


def test_a_running_average_that_keeps_nan_is_refused():
    assert_refused(
        with_next_state(
            lambda state, transitions: state._replace(mean=state.mean + sizes_of(transitions).mean())
        ),
        "does not affect later ones",
    )


def test_environments_that_affect_each_other_are_refused_if_declared_independent():
    def compared(state, transitions, key):
        sizes = sizes_of(transitions)
        return sizes - sizes.mean(axis=1, keepdims=True)

    check_reward(with_reward(compared), ROWS, ENVS)
    assert_refused(with_reward(compared), "ignores other environments", envs_are_independent=True)


def test_environments_that_are_treated_differently_are_refused_if_declared_independent():
    def ranked(state, transitions, key):
        return sizes_of(transitions) * jnp.arange(1.0, 1.0 + transitions.action.shape[1])[None]

    assert_refused(with_reward(ranked), "ignores the order", envs_are_independent=True)


def test_an_embedding_with_a_wrong_number_of_rows_is_refused():
    assert_refused(CORRECT._replace(embed=lambda state, rows: rows[:2]), "returns a vector for each row")


def test_example_transitions_are_walks():
    transitions = example_transitions(3, ROWS, ENVS, 40)
    ends = transitions.terminated | transitions.truncated
    np.testing.assert_array_equal(transitions.is_first[1:], ends[:-1])
    continues = np.asarray(~transitions.is_first[1:])
    np.testing.assert_array_equal(
        np.asarray(transitions.observation.row_index[1:])[continues],
        np.asarray(transitions.next_observation.row_index[:-1])[continues],
    )
    assert (transitions.terminated & transitions.truncated).sum() == 0
    assert transitions.terminated.any()
    assert transitions.truncated.any()


def test_transitions_can_be_cut_and_lose_their_table():
    transitions = example_transitions(3, ROWS, ENVS, 40)
    plain = without_table(slice_steps(transitions, 10, 14))
    assert plain.next_observation.row_index is None
    np.testing.assert_array_equal(sizes_of(plain), sizes_of(transitions)[10:14])
    with pytest.raises(ValueError, match="must have a table"):
        slice_steps(plain, 0, 1)

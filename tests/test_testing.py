"""`check_reward` lets an honest module pass, and refuses each broken promise by name."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.rewards.base import IntrinsicReward
from gemax.testing import BrokenPromiseError, check_reward, example_rollout, part_of, without_table
from gemax.types import spread

ROWS, WORLDS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.float32), 3


class State(NamedTuple):
    mean: jax.Array
    key: jax.Array


def sizes_of(rollout):
    return spread(rollout.arrived, jnp.abs(rollout.arrived.rows), rollout.action.shape[1]).sum(axis=-1)


def init(key, rows, num_worlds):
    return State(jnp.zeros(()), key)


def reward(state, rollout, key):
    """Large observations pay, by how they compare with the mean that was known."""
    return sizes_of(rollout) / (1.0 + state.mean)


def step(state, rollout, key):
    sizes = sizes_of(rollout)
    mean = jnp.where(jnp.isfinite(sizes), sizes, 0.0).mean()
    following = State(0.9 * state.mean + 0.1 * mean, jax.random.split(state.key)[0])
    return reward(state, rollout, key), following, {"mean": mean}


HONEST = IntrinsicReward(init, reward, step, embed=lambda state, rows: rows)


def paying(pay, **others):
    """Honest but for what it pays."""

    def other_step(state, rollout, key):
        return pay(state, rollout, key), *step(state, rollout, key)[1:]

    return HONEST._replace(reward=pay, step=other_step, **others)


def learning(change):
    """Honest but for what it leaves behind."""

    def other_step(state, rollout, key):
        paid, following, metrics = step(state, rollout, key)
        return paid, change(following, rollout), metrics

    return HONEST._replace(step=other_step)


def refused(module, promise, **arguments):
    with pytest.raises(BrokenPromiseError, match=promise):
        check_reward(module, ROWS, WORLDS, **arguments)


def test_an_honest_module_passes():
    check_reward(HONEST, ROWS, WORLDS, worlds_are_independent=True)


def test_a_state_with_something_else_than_arrays_is_refused():
    refused(HONEST._replace(init=lambda *_: State(0.0, jax.random.key(0))), "tree of arrays.*mean is float")


def test_an_initial_state_that_is_not_drawn_from_the_key_is_refused():
    draw = np.random.default_rng(0)
    refused(HONEST._replace(init=lambda key, *_: State(jnp.asarray(draw.random()), key)), "`init` is pure")


def test_a_decision_on_values_is_refused():
    refused(paying(lambda state, rollout, key: sizes_of(rollout) if state.mean > 1 else 0), "can be compiled")


def test_a_reward_for_each_world_instead_of_each_step_is_refused():
    refused(
        paying(lambda state, rollout, key: sizes_of(rollout).sum(axis=0)),
        r"`reward` pays every step.*\(6, 3\).*\(3,\)",
    )


def test_metrics_that_are_no_numbers_are_refused():
    refused(
        HONEST._replace(step=lambda *all: (*step(*all)[:2], {"sizes": sizes_of(all[1])})),
        "metrics are numbers.*'sizes'",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda state, rollout: state._replace(mean=state.mean[None]),
        lambda state, rollout: state._replace(mean=state.mean > 0),
        lambda state, rollout: (*state, state.mean),
    ],
    ids=["shape", "dtype", "structure"],
)
def test_a_state_that_cannot_be_scanned_is_refused(change):
    refused(learning(change), "keeps the shapes and dtypes")


def test_something_drawn_or_kept_outside_of_the_arguments_is_refused():
    draw, calls = np.random.default_rng(0), []

    def drawing(state, rollout, key):
        return reward(state, rollout, key) + draw.random()

    def counting(state, rollout):
        calls.append(state)
        return state._replace(mean=state.mean * len(calls))

    refused(paying(drawing), "`reward` is pure")
    refused(learning(counting), "`step` is pure")


def test_paying_after_learning_is_refused():
    def eager(state, rollout, key):
        _, following, metrics = step(state, rollout, key)
        return reward(following, rollout, key), following, metrics

    refused(HONEST._replace(step=eager), "pays what `reward` says.* instead of .* at time")


def test_what_cannot_be_vmapped_is_refused():
    def outside(state, rollout, key):
        shape = jax.ShapeDtypeStruct(rollout.action.shape, state.mean.dtype)
        return jax.pure_callback(lambda mean: np.full(shape.shape, 1 + mean, shape.dtype), shape, state.mean)

    refused(paying(outside), "seeds side by side")


def test_a_table_that_pays_by_what_was_not_visited_is_refused():
    refused(
        paying(lambda state, rollout, key: sizes_of(rollout) / jnp.abs(rollout.arrived.rows).sum()),
        "rows of a table or one by one",
    )


def test_dividing_by_a_deviation_of_zero_is_refused():
    def standardised(state, rollout, key):
        sizes = sizes_of(rollout)
        return sizes / sizes.std()

    refused(paying(standardised), "finite after observations that are all zero")


def test_an_average_that_never_recovers_is_refused():
    refused(
        learning(lambda state, rollout: state._replace(mean=state.mean + sizes_of(rollout).mean())),
        "leaves nothing behind",
    )


def test_worlds_that_hear_of_each_other_are_refused_if_they_must_not():
    def compared(state, rollout, key):
        sizes = sizes_of(rollout)
        return sizes - sizes.mean(axis=1, keepdims=True)

    check_reward(paying(compared), ROWS, WORLDS)
    refused(paying(compared), "one went elsewhere", worlds_are_independent=True)


def test_worlds_that_are_treated_differently_are_refused_if_they_must_not():
    def ranked(state, rollout, key):
        return sizes_of(rollout) * jnp.arange(1.0, 1.0 + rollout.action.shape[1])[None]

    refused(paying(ranked), "they changed places", worlds_are_independent=True)


def test_an_embedding_of_another_number_of_rows_is_refused():
    refused(HONEST._replace(embed=lambda state, rows: rows[:2]), "a vector for each row")


def test_example_rollouts_are_walks():
    rollout = example_rollout(3, ROWS, WORLDS, 40)
    ends = rollout.terminated | rollout.truncated
    np.testing.assert_array_equal(rollout.is_first[1:], ends[:-1])
    goes_on = np.asarray(~rollout.is_first[1:])
    np.testing.assert_array_equal(
        np.asarray(rollout.seen.row[1:])[goes_on], np.asarray(rollout.arrived.row[:-1])[goes_on]
    )
    assert (rollout.terminated & rollout.truncated).sum() == 0
    assert rollout.terminated.any()
    assert rollout.truncated.any()


def test_rollouts_are_cut_and_taken_off_their_table():
    rollout = example_rollout(3, ROWS, WORLDS, 40)
    plain = without_table(part_of(rollout, 10, 14))
    assert plain.arrived.row is None
    np.testing.assert_array_equal(sizes_of(plain), sizes_of(rollout)[10:14])
    with pytest.raises(ValueError, match="must have a table"):
        part_of(plain, 0, 1)

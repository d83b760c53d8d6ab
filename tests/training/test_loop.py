import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.training.assemble import assemble
from gemax.training.compiled import updates_per_call
from gemax.training.learn import initial_state
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure

# Without an intrinsic reward there is less to compile. tests/runs covers whole runs with one.
CONFIG = configure(
    "two-rooms", method="none", seed=3, seeds=3, updates=12, updates_per_call=2, num_envs=4, unroll_length=3,
    unroll_period=3, lstm_size=4, torso_size=8, head_size=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def trainer():
    return assemble(CONFIG)


@pytest.fixture(scope="module")
def calls(trainer):
    """What the loop yields for three seeds. The parameters of the last one are NaN from the start."""
    states = initial_states(trainer)
    poisoned = jax.tree.map(lambda leaf: leaf.at[2].set(jnp.nan), states.parameters)
    return [
        (jax.tree.map(np.asarray, (states.update, states.parameters)), metrics)
        for states, metrics in train(trainer, states._replace(parameters=poisoned))
    ]


@pytest.mark.slow
def test_seeds_trained_together_learn_the_same_as_alone(trainer, calls):
    init, one_update = (
        jax.jit(lambda key: initial_state(trainer, key)),
        jax.jit(lambda state: trainer.collector.update(trainer, state)),
    )
    (_, parameters), together = calls[0]
    for index, seed in enumerate((3, 4)):
        state = init(jax.random.key(seed))
        for _ in range(2):
            state, alone = one_update(state)
        for name, value in alone.items():
            np.testing.assert_allclose(together[index][name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        jax.tree.map(
            lambda one, stacked, index=index: np.testing.assert_allclose(
                one, stacked[index], rtol=1e-3, atol=1e-5
            ),
            state.parameters,
            parameters,
        )


@pytest.mark.slow
def test_a_seed_that_is_never_finite_is_frozen_while_the_others_train(calls):
    assert [state[0].tolist() for state, _ in calls] == [
        [2, 2, 2], [4, 4, 4], [6, 6, 6], [8, 8, 8], [10, 10, 10], [12, 12, 10],
    ]  # fmt: skip
    assert [metrics[2] and metrics[2]["consecutive_nonfinite"] for _, metrics in calls] == [
        2,
        4,
        6,
        8,
        10,
        None,
    ]
    assert all(metrics[seed]["skipped_updates"] == 0 for _, metrics in calls for seed in (0, 1))
    *_, (state, metrics) = calls
    assert all(np.isfinite(leaf[:2]).all() for leaf in jax.tree.leaves(state[1]))
    assert metrics[0]["agent_loss"] != metrics[1]["agent_loss"]


@pytest.mark.parametrize(
    ("updates", "reached", "expected"), [(600, 40, 10), (604, 600, 4), (77, 40, 1), (22, 20, 2)]
)
def test_updates_per_call_divide_what_is_left_of_a_resumed_run(updates, reached, expected):
    assert updates_per_call(updates, 10, reached) == expected

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.training.assemble import assemble
from gemax.training.collect import Eyes, collect, rollout_of, start
from gemax.training.config import ADDED, CHOICES, Config, config_from
from gemax.training.evaluate import evaluate
from gemax.training.learn import initial_state, intrinsic_weight, learn, update
from gemax.training.loop import NumericalError, begin, check_finite, train, updates_in_a_call
from gemax.training.presets import configure
from gemax.training.state import RETURNS_KEPT, Tally, mean_return, tally_returns
from gemax.worlds.registry import WORLDS

SMALL = {
    "num_worlds": 8, "trace_length": 6, "trace_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4,
}  # fmt: skip


def small(world="two-rooms", **changes):
    return configure(world, **{**SMALL, **changes})


@pytest.fixture(scope="module")
def trainer():
    """2-Rooms, for all who do not care about numbers. It learns slowly, so that rounding stays as small as it is."""
    return assemble(small(reward_learning_rate=1e-5, learning_rate=1e-5))


@pytest.fixture(scope="module")
def init(trainer):
    return jax.jit(partial(initial_state, trainer))


@pytest.fixture(scope="module")
def learn_once(trainer):
    return jax.jit(partial(update, trainer))


@pytest.fixture(scope="module")
def state(init):
    return init(jax.random.key(0))


@pytest.mark.parametrize(
    "world",
    # One with a table, one with noise, one with vectors; the others take the same ways.
    ["two-keys", "two-rooms-noisy", "mountain-car"]
    + [
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("two-rooms", "sixteen-leaves", "cartpole-swingup")
    ],
)
def test_every_world_trains(world):
    trainer = assemble(small(world))
    states = list(train(trainer, begin(trainer)))
    assert [int(metrics["episodes"]) >= 0 for _, metrics in states] == [True, True]
    state, metrics = states[-1]
    assert int(state.update) == 4
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.parameters))


@pytest.mark.parametrize("world", WORLDS)
def test_an_update_leaves_all_types_as_they_are_so_that_it_is_compiled_once(world):
    trainer = assemble(small(world))
    before = jax.eval_shape(partial(initial_state, trainer), jax.random.key(0))
    after, _ = jax.eval_shape(partial(update, trainer), before)
    assert types_of(after) == types_of(before)


def types_of(tree):
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    "method",
    # NGU+RND goes the ways of NGU and of RND.
    [
        pytest.param(method, marks=[] if method in ("gem", "ngu-rnd") else pytest.mark.slow)
        for method in CHOICES["method"]
    ],
)
def test_every_method_trains_through_overlapping_traces(method):
    trainer = assemble(small(method=method, trace_length=9, trace_period=4))
    state, metrics = list(train(trainer, begin(trainer)))[-1]
    assert state.window.action.shape == (5, 8)
    assert state.window.is_valid.all()
    assert np.isfinite(metrics["agent_loss"])


def test_table_and_single_observations_collect_and_learn_the_same(trainer, state, learn_once):
    """The whole update, through the table of observations and without it."""
    plain = trainer._replace(eyes=Eyes(None))
    plain_state = begin(plain)
    jax.tree.map(np.testing.assert_array_equal, state.parameters, plain_state.parameters)
    fast, fast_metrics = learn_once(state)
    slow, slow_metrics = jax.jit(partial(update, plain))(plain_state)
    np.testing.assert_array_equal(fast.position.world.number, slow.position.world.number)
    for name, value in fast_metrics.items():
        np.testing.assert_allclose(value, slow_metrics[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_collected_steps_are_what_the_world_did(trainer, state):
    position = start(trainer.world, trainer.eyes, trainer.network, 8, jax.random.key(1))
    after, steps = collect(
        trainer.world,
        trainer.eyes,
        trainer.centring,
        trainer.network,
        state.parameters,
        position,
        70,
        jax.random.key(2),
    )
    ends = np.asarray(steps.terminated | steps.truncated)
    assert ends.sum() >= 16
    # What is seen next is where one arrived, or a start.
    continues = ~ends[:-1]
    np.testing.assert_array_equal(
        np.asarray(steps.seen)[1:][continues], np.asarray(steps.arrived)[:-1][continues]
    )
    np.testing.assert_array_equal(np.asarray(steps.is_first)[1:], ends[:-1])
    np.testing.assert_array_equal(np.asarray(steps.inputs.time)[1:][ends[:-1]], 0)
    assert (np.asarray(steps.inputs.previous_action)[1:][ends[:-1]] == 5).all()
    np.testing.assert_array_equal(
        np.asarray(steps.inputs.previous_action)[1:][continues], np.asarray(steps.action)[:-1][continues]
    )
    rollout = rollout_of(trainer.eyes, trainer.centring, steps)
    squares = np.asarray(trainer.world.finite.model.square)
    first_state_of_row = {
        int(row): i for i, row in reversed(list(enumerate(trainer.world.finite.rows_of_states)))
    }
    row = np.asarray(rollout.arrived.row)[3, 2]
    assert squares[first_state_of_row[int(row)]] == np.asarray(rollout.square)[3, 2]
    assert after.is_first.shape == (8,)


def test_the_same_seed_gives_the_same_run_and_another_one_another(init, learn_once):
    (one, metrics), (same, same_metrics), (other, _) = (
        learn_once(init(jax.random.key(seed))) for seed in (3, 3, 4)
    )
    assert {name: float(value) for name, value in metrics.items()} == {
        name: float(value) for name, value in same_metrics.items()
    }
    jax.tree.map(np.testing.assert_array_equal, one.parameters, same.parameters)
    pairs = zip(jax.tree.leaves(one.parameters), jax.tree.leaves(other.parameters), strict=True)
    assert any((a != b).any() for a, b in pairs)


def test_without_reward_the_extrinsic_one_does_not_count():
    trainer = assemble(small("mountain-car", reward_free=True))
    state = begin(trainer)
    _, steps = jax.jit(
        lambda state: collect(
            trainer.world,
            trainer.eyes,
            state.centring,
            trainer.network,
            state.parameters,
            state.position,
            6,
            state.key,
        )
    )(state)
    learn_from = jax.jit(lambda steps: learn(trainer, state, steps, jax.random.key(0))[0])
    following, dearer = learn_from(steps), learn_from(steps._replace(reward=steps.reward * 100))
    jax.tree.map(np.testing.assert_array_equal, following.parameters, dearer.parameters)


def test_intrinsic_reward_can_be_annealed_to_zero():
    config = small(anneal_updates=100)
    weights = [float(intrinsic_weight(config, jnp.asarray(update))) for update in (0, 50, 100, 200)]
    np.testing.assert_allclose(weights, [1.0, 0.5, 0.0, 0.0])
    assert intrinsic_weight(small(), jnp.asarray(10**6)) == 1


def test_the_policy_can_learn_more_slowly_than_the_reward():
    """Every second update only: the first one does not count, the second does."""
    trainer = assemble(small(policy_every=2))
    learn_once = jax.jit(partial(update, trainer))
    start = begin(trainer)
    first, said_first = learn_once(start)
    second, said_second = learn_once(first)
    moved = [
        max(float(jnp.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
        for pair in (
            (start.parameters, first.parameters),
            (first.parameters, second.parameters),
            (first.reward.parameters, second.reward.parameters),
        )
    ]
    assert [size > 0 for size in moved] == [False, True, True]
    assert np.isnan(said_first["agent_loss"])
    assert np.isfinite(said_second["agent_loss"])


def test_updates_that_are_not_finite_are_skipped_and_poison_nothing(state, learn_once):
    poisoned = jax.tree.map(lambda leaf: leaf * jnp.nan, state.reward.parameters)
    state = state._replace(reward=state.reward._replace(parameters=poisoned))
    after, metrics = learn_once(state)
    assert metrics["skipped_updates"] == 2  # f and g, and the agent, which was paid NaN
    assert metrics["bad_in_a_row"] == 1
    jax.tree.map(np.testing.assert_array_equal, state.parameters, after.parameters)
    assert np.isfinite(after.reward.normaliser.mean)


def test_ten_bad_updates_in_a_row_stop_the_run_and_name_the_term():
    history = {
        "bad_in_a_row": np.asarray([8.0, 9.0, 10.0, 11.0]),
        "gem_loss": np.full(4, np.nan),
        "value_loss": np.ones(4),
    }
    with pytest.raises(
        NumericalError, match="10 updates in a row were not finite, from update 14 on; not finite: gem_loss"
    ):
        check_finite(history, last_update=24)
    check_finite({**history, "bad_in_a_row": np.asarray([8.0, 9.0, 0.0, 0.0])}, last_update=24)


def test_the_ring_holds_the_last_returns_in_order():
    tally = Tally(jnp.zeros(1), jnp.zeros(RETURNS_KEPT), jnp.zeros((), int))
    rng, truth = np.random.default_rng(0), []
    for _ in range(30):
        returns, ends = rng.normal(size=(10, 8)).astype(np.float32), rng.uniform(size=(10, 8)) < 0.6
        truth += returns[ends].tolist()
        tally = tally_returns(tally, jnp.asarray(returns), jnp.asarray(ends))
        np.testing.assert_allclose(mean_return(tally), np.mean(truth[-RETURNS_KEPT:]), atol=1e-5)
    assert len(truth) > RETURNS_KEPT
    assert int(tally.num_returns) == len(truth)


def test_evaluation_plays_whole_episodes_of_the_frozen_policy(trainer, state):
    evaluation = evaluate(trainer, state, 100, jax.random.key(0))
    assert evaluation.returns.shape == (100,)
    np.testing.assert_array_equal(evaluation.visits.sum(axis=1), evaluation.lengths)
    assert evaluation.lengths.max() == 30
    again = evaluate(trainer, state, 100, jax.random.key(0))
    np.testing.assert_array_equal(evaluation.visits, again.visits)
    greedy = evaluate(trainer, state, 50, jax.random.key(0), greedy=True)
    assert len(np.unique(greedy.visits, axis=0)) == 1  # one start, one goal: always the same episode


@pytest.mark.parametrize(
    ("updates", "at_most", "expected"), [(600, 10, 10), (7, 10, 7), (22, 10, 2), (13, 10, 1)]
)
def test_calls_fill_a_run_exactly(updates, at_most, expected):
    assert updates_in_a_call(updates, at_most) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_worlds": 4}, "num_worlds must be at least 8 for gem.*got 4"),
        ({"updates": 0}, "updates must be at least 1; got 0"),
        ({"trace_period": 40}, r"trace_period must be at most trace_length \(30\); got 40"),
        ({"trace_period": 10, "returns": "averaged"}, "returns must be vtrace where trace_period"),
        ({"discount": 1.5}, r"discount must lie in \[0, 1\]; got 1.5"),
        ({"trace_decay": -0.1}, r"trace_decay must lie in \[0, 1\]; got -0.1"),
        ({"alpha": 2.0}, "alpha must be below 2, where 1 is Shannon; got 2.0"),
        ({"similarity_scale": 0.0}, "similarity_scale must be positive and finite; got 0.0"),
        ({"learning_rate": float("inf")}, "learning_rate must be positive and finite; got inf"),
        ({"per_episode": True, "method": "rnd"}, "per_episode is for method gem; got rnd"),
        ({"episode_memory": 0}, "episode_memory must be at least 1; got 0"),
        ({"num_negatives": -1}, "num_negatives must be zero or more, and finite; got -1"),
        ({"torso_size": 0}, "torso_size must be at least 1; got 0"),
    ],
)
def test_wrong_configurations_are_refused_with_field_and_choices(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)


@pytest.mark.parametrize("name", CHOICES)
def test_wrong_choices_are_refused_with_the_right_ones(name):
    config = Config()
    object.__setattr__(config, name, "nonsense")  # past the type checker that tests put around everything
    with pytest.raises(ValueError, match=f"{name} must be one of {', '.join(CHOICES[name])}; got 'nonsense'"):
        config.__post_init__()


def test_a_configuration_survives_its_file():
    config = configure("sixteen-leaves", seed=7)
    assert config_from(dataclasses.asdict(config)) == config
    older = {name: value for name, value in dataclasses.asdict(config).items() if name not in ADDED}
    assert config_from(older) == dataclasses.replace(config, scale_rewards=False)
    with pytest.raises(ValueError, match=r"unknown fields .learning_speed."):
        config_from({**dataclasses.asdict(config), "learning_speed": 1})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_rooms_are_solved_in_500_updates(seed):
    trainer = assemble(configure("two-rooms", updates=500, seed=seed))
    returns = [metrics["return"] for _, metrics in train(trainer, begin(trainer))]
    assert max(returns) >= 0.95

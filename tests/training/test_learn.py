from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.parameters import fast_or_slow

from gemax.envs.registry import ENVS
from gemax.rewards.config import IntrinsicConfig
from gemax.training.assemble import assemble
from gemax.training.collector import EpisodeOptions
from gemax.training.compiled import updates_per_call
from gemax.training.config import NUM_RETURNS
from gemax.training.learn import (
    _updated_statistics,
    actor_critic_epochs,
    actor_critic_step,
    initial_state,
    intrinsic_weight,
    learn,
)
from gemax.training.loop import initial_states, train
from gemax.training.observations import ObservationTable
from gemax.training.presets import configure
from gemax.training.rollout import collect, reset_actor
from gemax.training.state import (
    count_returns,
    initial_statistics,
    keep_return_size,
    largest_return_size,
    return_moments,
    return_progress,
    return_size,
)
from gemax.training.window import extend
from gemax.types import ends

SMALL = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4, "episodic_weight": 0.0,
}  # fmt: skip


RETURNS = ("discounted_return", "episode_return")
METHODS = [name for name in get_args(IntrinsicConfig.__annotations__["method"]) if name != "custom"]


def small(env="two-rooms", **changes):
    return configure(env, **{**SMALL, **changes})


@pytest.fixture(scope="module")
def trainer():
    """2-Rooms, for all who do not care about numbers. It learns slowly, so that rounding stays as small as it is."""
    return assemble(small(reward_learning_rate=1e-5, learning_rate=1e-5))


@pytest.fixture(scope="module")
def init(trainer):
    return jax.jit(partial(initial_state, trainer))


@pytest.fixture(scope="module")
def learn_once(trainer):
    return jax.jit(partial(trainer.collector.update, trainer))


@pytest.fixture(scope="module")
def state(init):
    return init(jax.random.key(0))


@pytest.fixture(scope="module")
def steps(trainer, state):
    """One rollout of six steps."""
    rollout = jax.jit(partial(collect, trainer.collector.env, trainer), static_argnums=2)
    return rollout(state, state.actor, 6, jax.random.key(2))[1]


# With a table, with noise, and with vectors; with GEM, and with NGU+RND, which includes NGU and RND.
FAST = (("two-keys", "gem"), ("two-rooms-noisy", "gem"), ("mountain-car", "ngu-rnd"))


@pytest.mark.parametrize(
    ("env", "method"),
    [
        pair if pair in FAST else pytest.param(*pair, marks=pytest.mark.slow)
        for pair in dict.fromkeys(
            [*FAST, *((env, "gem") for env in ENVS), *(("two-rooms", method) for method in METHODS)]
        )
    ],
)
def test_every_environment_and_method_trains_with_overlapping_unrolls(env, method):
    trainer = assemble(small(env, method=method, unroll_length=9, unroll_period=4))
    states = list(train(trainer, initial_states(trainer)))
    assert len(states) == 2
    state, (metrics,) = states[-1]
    assert int(state.update) == 4
    assert state.window.transitions.action.shape == (5, 8)
    assert state.window.transitions.is_valid.all()
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.parameters))


@pytest.mark.parametrize("env", fast_or_slow(ENVS, ["two-rooms", "two-rooms-noisy", "mountain-car"]))
def test_an_update_keeps_all_types_so_that_it_is_compiled_once(env):
    trainer = assemble(small(env))
    before = jax.eval_shape(partial(initial_state, trainer), jax.random.key(0))
    after, _ = jax.eval_shape(partial(trainer.collector.update, trainer), before)
    assert types_of(after) == types_of(before)


def types_of(tree):
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]


def test_updates_with_and_without_the_observation_table_agree(trainer, state, learn_once):
    plain = trainer._replace(table=ObservationTable(None))
    plain_state = initial_states(plain)
    jax.tree.map(np.testing.assert_array_equal, state.parameters, plain_state.parameters)
    fast, fast_metrics = learn_once(state)
    slow, slow_metrics = jax.jit(partial(plain.collector.update, plain))(plain_state)
    np.testing.assert_array_equal(fast.actor.env.state_index, slow.actor.env.state_index)
    for name, value in fast_metrics.items():
        np.testing.assert_allclose(value, slow_metrics[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_collected_transitions_follow_one_another(trainer, state):
    env = trainer.collector.env
    actor = reset_actor(env, trainer, 8, jax.random.key(1))
    after, steps = collect(env, trainer, state, actor, 70, jax.random.key(2))
    ended = np.asarray(ends(steps))
    assert ended.sum() >= 16
    # The next observation is seen by the following step, except after an end.
    continues = ~ended[:-1]
    np.testing.assert_array_equal(
        np.asarray(steps.observation)[1:][continues], np.asarray(steps.next_observation)[:-1][continues]
    )
    np.testing.assert_array_equal(np.asarray(steps.is_first)[1:], ended[:-1])
    np.testing.assert_array_equal(np.asarray(steps.inputs.time)[1:][ended[:-1]], 0)
    assert (np.asarray(steps.inputs.previous_action)[1:][ended[:-1]] == 5).all()
    np.testing.assert_array_equal(
        np.asarray(steps.inputs.previous_action)[1:][continues], np.asarray(steps.action)[:-1][continues]
    )
    transitions = trainer.table.with_network_inputs(trainer.observation_moments, steps)
    cells = np.asarray(trainer.finite.model.cell)
    first_state_of_row = {
        int(row): i for i, row in reversed(list(enumerate(trainer.finite.observation_of_state)))
    }
    row = np.asarray(transitions.next_observation.row_index)[3, 2]
    assert cells[first_state_of_row[int(row)]] == np.asarray(transitions.cell)[3, 2]
    assert after.is_first.shape == (8,)


@pytest.mark.parametrize("env", ["two-keys", "mountain-car", "cartpole-swingup"])
def test_environments_start_in_all_phases_of_an_episode(env, key):
    trainer = assemble(small(env, num_envs=256))
    horizon = trainer.spec.horizon
    actor = jax.jit(partial(trainer.collector.initial_actor, trainer))(key)
    time = np.asarray(actor.inputs.time)
    clock = getattr(actor.env, "time", getattr(actor.env, "steps", None))
    np.testing.assert_array_equal(time, clock)
    assert time.min() < horizon / 8
    assert horizon * 7 / 8 < time.max() < horizon
    np.testing.assert_array_equal(actor.is_partial, time > 0)


def test_returns_of_first_episodes_do_not_count(init, trainer):
    actor = jax.jit(partial(trainer.collector.initial_actor, trainer))(jax.random.key(1))
    state = init(jax.random.key(0))
    _, steps = jax.jit(partial(collect, trainer.collector.env, trainer), static_argnums=2)(
        state, actor, 2 * trainer.spec.horizon, jax.random.key(2)
    )
    ended = np.asarray(ends(steps))
    is_first_episode = np.cumsum(ended, axis=0) - ended == 0
    np.testing.assert_array_equal(steps.is_partial, is_first_episode & np.asarray(actor.is_partial))


def test_a_seed_determines_the_run(init, learn_once):
    (one, metrics), (same, same_metrics), (other, _) = (
        learn_once(init(jax.random.key(seed))) for seed in (3, 3, 4)
    )
    assert {name: float(value) for name, value in metrics.items()} == {
        name: float(value) for name, value in same_metrics.items()
    }
    jax.tree.map(np.testing.assert_array_equal, one.parameters, same.parameters)
    pairs = zip(jax.tree.leaves(one.parameters), jax.tree.leaves(other.parameters), strict=True)
    assert any((a != b).any() for a, b in pairs)


def test_reward_free_training_ignores_the_extrinsic_reward():
    trainer = assemble(small("mountain-car", reward_free=True))
    state = initial_states(trainer)
    _, steps = jax.jit(
        lambda state: collect(trainer.collector.env, trainer, state, state.actor, 6, state.key)
    )(state)
    learn_from = jax.jit(lambda steps: learn(trainer, state, steps, jax.random.key(0))[0])
    following, larger = learn_from(steps), learn_from(steps._replace(reward=steps.reward * 100))
    jax.tree.map(np.testing.assert_array_equal, following.parameters, larger.parameters)


def test_intrinsic_reward_can_be_annealed_to_zero():
    config = small(anneal_updates=100)
    weights = [
        float(intrinsic_weight(config, jnp.asarray(update), jnp.asarray(0))) for update in (0, 50, 100, 200)
    ]
    np.testing.assert_allclose(weights, [1.0, 0.5, 0.0, 0.0])
    assert intrinsic_weight(small(), jnp.asarray(10**6), jnp.asarray(10**6)) == 1


def test_intrinsic_reward_has_half_its_weight_after_its_half_life_and_never_vanishes():
    config = small(intrinsic_half_life=50)
    weights = [
        float(intrinsic_weight(config, jnp.asarray(10**6), jnp.asarray(rewarded)))
        for rewarded in (0, 50, 150, 10**6)
    ]
    np.testing.assert_allclose(weights, [1.0, 0.5, 0.25, 5e-5], rtol=1e-4)
    free = config.replace(reward_free=True)
    assert intrinsic_weight(free, jnp.asarray(0), jnp.asarray(10**6)) == 1


def progress_of(*returns, terminated=True, enough=1.0):
    statistics, ended = initial_statistics(0), jnp.ones((1, 1), bool)
    for episode_return in returns:
        step_return, step_end = jnp.full((1, 1), episode_return), jnp.full((1, 1), terminated)
        statistics = count_returns(statistics, step_return, ended, step_end)
    return float(return_progress(statistics, enough))


def test_progress_is_the_place_of_the_return_of_nine_in_ten_episodes_between_the_lowest_and_the_highest():
    assert progress_of() == 0
    assert progress_of(0.0, 0.0) == 0
    # A sparse reward of 1: 0 while more than a tenth of the episodes fails, then 1.
    assert progress_of(*[0.0] * 11, *[1.0] * 89) == 0
    assert progress_of(*[0.0] * 10, *[1.0] * 90) == 1
    assert progress_of(*[0.0] * 900, *[1.0] * 150) == 1
    # A cost of 1 per step: from 200 steps, 75 of the 150 that can be saved.
    np.testing.assert_allclose(progress_of(-200.0, -50.0, *[-125.0] * 100), 0.5)
    # Small costs of actions hardly count.
    assert progress_of(-0.01, *[0.0] * 100) <= 0.011
    # Costs that a policy avoids by doing nothing until the time limit count half. A positive return counts.
    assert progress_of(-40.0, *[0.0] * 100, terminated=False) == 0.5
    assert progress_of(0.0, *[10.0] * 100, terminated=False) == 1


def test_progress_towards_a_share_of_the_highest_return_is_1_from_there_on():
    assert progress_of(0.0, 500.0, *[50.0] * 100, enough=0.25) == pytest.approx(0.4)
    assert progress_of(0.0, 500.0, *[125.0] * 100, enough=0.25) == 1
    assert progress_of(0.0, 500.0, *[400.0] * 100, enough=0.25) == 1
    # Less than 1 is never enough.
    assert progress_of(0.0, *[0.5] * 100, enough=0.25) == 0.5
    # As many episodes have to succeed, and avoided costs count half.
    assert progress_of(*[0.0] * 11, *[1.0] * 89, enough=0.25) == 0
    assert progress_of(-40.0, *[0.0] * 100, terminated=False, enough=0.25) == 0.5


def test_size_of_returns_is_the_largest_discounted_gain_or_the_largest_loss_of_an_episode(steps):
    def size(discounted, undiscounted):
        returns = (jnp.zeros(steps.reward.shape).at[1, 2].set(value) for value in (discounted, undiscounted))
        return float(return_size(steps._replace(**dict(zip(RETURNS, returns, strict=True)))))

    assert size(0.0, 0.0) == 0
    assert size(98.0, 500.0) == 98
    assert size(-86.0, -200.0) == 200
    assert size(60.0, 10.0) == 60


def test_largest_return_size_is_that_of_the_last_100_updates(steps):
    statistics = initial_statistics(0)
    found = []
    for update, size in enumerate([-30.0, 4.0, *[0.1] * 101]):
        now = steps._replace(**dict.fromkeys(RETURNS, jnp.full(steps.reward.shape, size)))
        statistics = keep_return_size(statistics, now, jnp.asarray(update))
        found.append(float(largest_return_size(statistics)))
    assert found[:100] == [30.0] * 100
    assert found[100:] == [4.0, 1.0, 1.0]


def test_updates_count_with_the_squared_progress_of_the_return(trainer, state, steps):
    ended = jnp.zeros(steps.reward.shape, bool).at[:, 0].set(True)
    steps = steps._replace(terminated=ended, is_partial=~ended)
    # Half of the way to the highest return, and a tenth of it.
    for highest, successful, rewarded in ((1.0, 0.25, 0.25), (5.0, 0.01, 0.16)):
        statistics = state.statistics._replace(
            num_returns=jnp.asarray(1), lowest_return=jnp.zeros(()), highest_return=jnp.asarray(highest)
        )
        now = steps._replace(episode_return=jnp.full(steps.reward.shape, 0.5))
        # The one return before is the same.
        now_statistics = statistics._replace(
            returns=statistics.returns.at[0].set(0.5), counts_fully=statistics.counts_fully.at[0].set(True)
        )
        found = _updated_statistics(trainer, state._replace(statistics=now_statistics), now)
        np.testing.assert_allclose(found.successful_updates, successful, rtol=1e-5)
        np.testing.assert_allclose(found.rewarded_updates, rewarded, rtol=1e-5)


def test_a_return_that_is_enough_lowers_the_bonus_and_not_the_learning_rate(trainer, state, steps):
    config = small(intrinsic_half_life=1, learning_rate_half_life=1)
    trainer = trainer._replace(config=config)
    learn_once = jax.jit(partial(learn, trainer))

    def learned(**counts):
        before = state._replace(
            statistics=state.statistics._replace(
                **{name: jnp.asarray(count) for name, count in counts.items()}
            )
        )
        after, metrics = learn_once(before, steps, jax.random.key(3))
        moves = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), after.parameters, before.parameters)
        return float(metrics["intrinsic_weight"]), max(map(float, jax.tree.leaves(moves)))

    weight, move = learned()
    assert weight == 1
    weight_if_enough, move_if_enough = learned(rewarded_updates=1.0)
    assert weight_if_enough == 0.5
    np.testing.assert_allclose(move_if_enough, move, rtol=1e-3)
    weight_if_successful, move_if_successful = learned(successful_updates=1.0)
    assert weight_if_successful == 1
    np.testing.assert_allclose(move_if_successful, move / 2, rtol=1e-3)


def test_with_policy_every_2_the_policy_trains_in_every_second_update_only():
    trainer = assemble(small(policy_every=2))
    learn_once = jax.jit(partial(trainer.collector.update, trainer))
    start = initial_states(trainer)
    first, first_metrics = learn_once(start)
    second, second_metrics = learn_once(first)
    moved = [
        max(float(jnp.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
        for pair in (
            (start.parameters, first.parameters),
            (first.parameters, second.parameters),
            (first.reward.parameters, second.reward.parameters),
        )
    ]
    assert [size > 0 for size in moved] == [False, True, True]
    assert np.isnan(first_metrics["agent_loss"])
    assert np.isfinite(second_metrics["agent_loss"])


def test_two_epochs_are_two_gradient_steps_on_the_same_unroll(trainer, state):
    config = trainer.config.replace(update_epochs=2, learning_rate=1e-3)
    trainer = trainer._replace(config=config)
    _, steps = jax.jit(partial(collect, trainer.collector.env, trainer), static_argnums=2)(
        state, state.actor, 6, jax.random.key(2)
    )
    window = extend(state.window, steps, jax.random.normal(jax.random.key(3), steps.reward.shape))
    one_step = jax.jit(partial(actor_critic_step, trainer))
    parameters, opt_state, _ = one_step(state, window)
    expected, _, _ = one_step(state._replace(parameters=parameters, opt_state=opt_state), window)
    epochs = jax.jit(partial(actor_critic_epochs, trainer))
    found, _, _ = epochs(state, window, key=jax.random.key(0))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5), found, expected)


def test_minibatches_split_the_environments():
    with pytest.raises(ValueError, match=r"num_minibatches must divide num_envs \(8\); got 3"):
        small(num_minibatches=3)


@pytest.mark.fault(17)
def test_updates_that_are_not_finite_are_skipped_and_change_no_state(state, learn_once):
    poisoned = jax.tree.map(lambda leaf: leaf * jnp.nan, state.reward.parameters)
    state = state._replace(reward=state.reward._replace(parameters=poisoned))
    after, metrics = learn_once(state)
    assert metrics["skipped_updates"] == 2  # f and g, and the agent, whose reward was NaN
    assert metrics["consecutive_nonfinite"] == 1
    jax.tree.map(np.testing.assert_array_equal, state.parameters, after.parameters)
    assert np.isfinite(after.reward.terms[0].normaliser.mean)


def test_the_ring_buffer_holds_the_last_returns():
    statistics = initial_statistics(1)
    rng, truth, counted = np.random.default_rng(0), [], []
    for _ in range(30):
        returns, ended = rng.normal(size=(10, 8)).astype(np.float32), rng.uniform(size=(10, 8)) < 0.6
        terminated = ended & (rng.uniform(size=(10, 8)) < 0.5)
        truth += returns[ended].tolist()
        counted += (terminated | (returns > 0))[ended].tolist()
        statistics = count_returns(statistics, *map(jnp.asarray, (returns, ended, terminated)))
        for num_episodes in (NUM_RETURNS, 100):
            mean, spread = return_moments(statistics, num_episodes)
            np.testing.assert_allclose(mean, np.mean(truth[-num_episodes:]), atol=1e-5)
            np.testing.assert_allclose(spread, np.std(truth[-num_episodes:]), atol=1e-5)
    assert len(truth) > NUM_RETURNS
    assert int(statistics.num_returns) == len(truth)
    slots = np.arange(len(truth) - NUM_RETURNS, len(truth)) % NUM_RETURNS
    np.testing.assert_array_equal(statistics.counts_fully[slots], counted[-NUM_RETURNS:])
    np.testing.assert_allclose(statistics.lowest_return, np.min(truth))
    np.testing.assert_allclose(statistics.highest_return, np.max(truth))


def test_evaluation_runs_whole_episodes_of_the_frozen_policy(trainer, state):
    evaluate = partial(trainer.collector.evaluate, trainer, state)
    evaluation = evaluate(EpisodeOptions(100))
    assert evaluation.returns.shape == (100,)
    np.testing.assert_array_equal(evaluation.visits.sum(axis=1), evaluation.lengths)
    assert evaluation.lengths.max() == 30
    again = evaluate(EpisodeOptions(100))
    np.testing.assert_array_equal(evaluation.visits, again.visits)
    greedy = evaluate(EpisodeOptions(50, greedy=True))
    assert len(np.unique(greedy.visits, axis=0)) == 1  # one start, one goal: always the same episode


@pytest.mark.parametrize(
    ("updates", "at_most", "expected"), [(600, 10, 10), (7, 10, 7), (22, 10, 2), (13, 10, 1)]
)
def test_updates_per_call_divide_the_run(updates, at_most, expected):
    assert updates_per_call(updates, at_most) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_rooms_is_solved_in_500_updates(seed):
    trainer = assemble(configure("two-rooms", updates=500, seed=seed))
    returns = [metrics["return"] for _, (metrics,) in train(trainer, initial_states(trainer))]
    assert max(returns) >= 0.95

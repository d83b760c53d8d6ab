import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.environments.toys import Counting, Showing

from gemax.environments.base import Arrival
from gemax.training.assemble import OWN_ENVIRONMENT, Own, assemble
from gemax.training.learn import extrinsic_scale
from gemax.training.loop import begin
from gemax.training.outside import Outside, seed_after, train_outside, without_task
from gemax.training.presets import configure

TINY = {
    "method": "none", "num_worlds": 8, "trace_length": 6, "trace_period": 4, "updates": 3, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3, "horizon": 50,
}  # fmt: skip


class Paying(Counting):
    """Pays for one of two actions."""

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action), terminated, truncated, info


def trainer_in(make, **changes):
    return assemble(configure(OWN_ENVIRONMENT, **(TINY | changes)), own=Own(environment=make))


def trained(trainer, state=None):
    state = begin(trainer) if state is None else state
    episodes = trainer.world.open(trainer.config.num_worlds)
    history = list(train_outside(trainer, state, trainer.world, episodes))
    episodes.close()
    return history


def test_the_agent_learns_what_pays_and_yields_every_update():
    history = trained(trainer_in(Paying, updates=120, learning_rate=1e-2, discount=0.5))
    assert [int(state.update) for state, _ in history] == list(range(1, 121))
    metrics = history[-1][1]
    assert metrics["action_entropy"] < 0.35 < 0.6 < history[0][1]["action_entropy"]
    assert "coverage" not in metrics


@pytest.mark.parametrize("returns", ["vtrace", "averaged"])
def test_a_seed_decides_a_run(returns):
    changes = {"returns": returns} | ({"trace_length": 4} if returns == "averaged" else {})
    trainer = trainer_in(Counting, **changes)
    (*_, (one, _)), (*_, (other, _)) = trained(trainer), trained(trainer)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one.parameters, other.parameters))


def test_a_resumed_run_starts_new_episodes_and_goes_on_with_all_else():
    trainer = trainer_in(Counting)
    *_, (state, metrics) = trained(trainer)
    longer = trainer._replace(config=dataclasses.replace(trainer.config, updates=5))
    history = trained(longer, state)
    assert [int(state.update) for state, _ in history] == [4, 5]
    assert history[0][1]["episodes"] > metrics["episodes"]
    assert float(history[0][0].centring.weight) == float(state.centring.weight) + 1
    # The window held steps that the new episodes do not follow.
    assert not np.asarray(history[0][0].window.is_valid).all() or trainer.config.trace_period > 2
    assert seed_after(0, 3) != seed_after(0, 0)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_steps_follow_one_another_whoever_resets(mode):
    trainer = trainer_in(partial(SyncVectorEnv, [Counting] * 8, autoreset_mode=mode))
    episodes = trainer.world.open(8)
    agent, state = Outside(trainer, trainer.world, episodes, 0), begin(trainer)
    parts = [agent.collect(agent.mind(state), 15, jax.random.key(part)) for part in range(2)]
    steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    episodes.close()
    ends = steps.terminated | steps.truncated
    gaps = ~steps.is_valid
    assert ends.any()
    assert gaps.any() == (mode == AutoresetMode.NEXT_STEP)
    if mode == AutoresetMode.NEXT_STEP:
        np.testing.assert_array_equal(gaps[1:], ends[:-1] & steps.is_valid[:-1])
    for time, world in zip(*np.nonzero(gaps), strict=True):
        for name in ("seen", "arrived", "action", "reward", "episode_return"):
            np.testing.assert_array_equal(
                getattr(steps, name)[time, world], getattr(steps, name)[time - 1, world]
            )
    for world in range(8):
        real = jax.tree.map(lambda leaf, world=world: leaf[:, world][steps.is_valid[:, world]], steps)
        over = real.terminated | real.truncated
        np.testing.assert_array_equal(real.is_first[1:], over[:-1])
        np.testing.assert_array_equal(real.seen[1:][~over[:-1]], real.arrived[:-1][~over[:-1]])
        # The second number of an observation counts the steps of the episode, and so does the agent's time.
        np.testing.assert_array_equal(real.seen[:, 1], real.inputs.time)
        np.testing.assert_array_equal(real.arrived[:, 1], real.inputs.time + 1)
        np.testing.assert_array_equal(
            real.inputs.previous_reward[1:][~over[:-1]], real.reward[:-1][~over[:-1]]
        )
        np.testing.assert_array_equal(
            real.inputs.previous_action[1:][~over[:-1]], real.action[:-1][~over[:-1]]
        )
        assert (real.inputs.previous_action[real.is_first] == 2).all()


class Generous(Paying):
    """Pays the same, a thousand times over."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 1000.0 * reward, *rest


def test_rewards_of_any_size_are_learned_from_alike():
    changes = {"updates": 120, "learning_rate": 1e-2, "discount": 0.5}
    plain, generous = (trained(trainer_in(make, **changes))[-1][1] for make in (Paying, Generous))
    assert generous["action_entropy"] < 0.35
    assert generous["return"] > 500 * plain["return"]
    assert (
        generous["value_loss"] < 1.0 < trained(trainer_in(Generous, scale_rewards=False))[-1][1]["value_loss"]
    )


@pytest.mark.parametrize(
    ("kept", "now", "expected"), [(0.0, 0.4, 1.0), (-0.9, 0.4, 1.0), (-50.0, 4.0, 0.02), (1.0, 8.0, 0.125)]
)
def test_no_episode_of_late_has_earned_or_lost_more_than_one(kept, now, expected):
    trainer = trainer_in(Counting)
    tally = begin(trainer).tally
    tally = tally._replace(returns=tally.returns.at[3].set(kept))
    assert extrinsic_scale(trainer, tally, jnp.full((2, 8), now)) == pytest.approx(expected)
    assert extrinsic_scale(trainer_in(Counting, scale_rewards=False), tally, jnp.full((2, 8), now)) == 1.0


ODD = {
    "numbers": (spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-2.0, 2.0, (2,))),
    "choices": (
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2)}),
        spaces.MultiDiscrete([9, 9, 9]),
    ),
    "image": (spaces.Box(0, 255, (36, 40, 3), np.uint8), spaces.MultiBinary(2)),
}


@pytest.mark.parametrize("name", ODD)
def test_every_kind_of_observation_and_action_is_learned_from(name):
    trainer = trainer_in(partial(Showing, *ODD[name]), updates=2)
    *_, (state, metrics) = trained(trainer)
    assert metrics["bad_in_a_row"] == 0
    assert np.isfinite(metrics["agent_loss"])
    assert state.window.action.shape[2:] == state.position.inputs.previous_action.shape[1:]


def test_the_visits_of_each_episode_can_be_evened_out_and_training_goes_on_from_there():
    trainer = trainer_in(Counting, method="gem", per_episode=True, episode_memory=5)
    *_, (state, metrics) = trained(trainer)
    assert state.reward.inner.memory.rows.shape == (8, 5, 2)
    assert 0 < metrics["similarity_mean"] <= 1
    longer = trainer._replace(config=dataclasses.replace(trainer.config, updates=4))
    ((after, metrics),) = trained(longer, state)
    assert int(after.update) == 4
    assert np.isfinite(metrics["gem_objective"])


def test_without_the_task_an_end_is_an_interruption_and_nothing_is_paid():
    ends = np.array([True, False, False]), np.array([False, True, False])
    arrival = Arrival(*(np.zeros(3) for _ in Arrival._fields))
    arrival = arrival._replace(reward=np.ones(3), terminated=ends[0], truncated=ends[1])
    free = without_task(arrival)
    assert free.reward.tolist() == [0.0, 0.0, 0.0]
    assert free.terminated.tolist() == [False, False, False]
    assert free.truncated.tolist() == [True, True, False]


def test_methods_that_cannot_work_there_say_so():
    with pytest.raises(ValueError, match="method oracle counts places, and gym:own has none"):
        trainer_in(Counting, method="oracle")
    with pytest.raises(
        ValueError, match="method ngu predicts one of finitely many actions, and gym:own has others"
    ):
        trainer_in(partial(Showing, *ODD["numbers"]), method="ngu")
    with pytest.raises(ValueError, match="indicator finds no visit again in gym:own with per_episode"):
        trainer_in(Counting, method="gem", per_episode=True, similarity="indicator")
    with pytest.raises(ValueError, match="seeds must be 1 for gym:own"):
        trainer_in(Counting, seeds=2)


def test_an_environment_of_ones_own_has_to_be_given():
    with pytest.raises(ValueError, match="has to be given"):
        assemble(configure(OWN_ENVIRONMENT, **TINY))


def test_an_environment_is_refused_where_the_run_has_a_name_for_its_own():
    with pytest.raises(ValueError, match=r"goes with gym:own .*got 'gym:CartPole-v1'"):
        assemble(configure("gym:CartPole-v1", **TINY), own=Own(environment=Counting))

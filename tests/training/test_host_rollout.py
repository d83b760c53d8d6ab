import contextlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.envs.host.toys import Counting, SamplesSpace

from gemax.envs.host.base import VectorTransition
from gemax.training.assemble import CUSTOM_ENV, CustomParts, assemble
from gemax.training.host_rollout import HostActor, first_episode_limits, reset_seed, without_reward
from gemax.training.learn import extrinsic_reward
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure
from gemax.training.state import keep_return_size
from gemax.types import Transition

TINY = {
    "method": "none", "num_envs": 8, "unroll_length": 6, "unroll_period": 4, "updates": 3, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3, "horizon": 50,
}  # fmt: skip


class RewardsOneAction(Counting):
    """Rewards one of two actions."""

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action), terminated, truncated, info


def trainer_in(make, **changes):
    return assemble(configure(CUSTOM_ENV, **(TINY | changes)), custom=CustomParts(make_env=make))


def trained(trainer, state=None):
    state = initial_states(trainer) if state is None else state
    return [(state, metrics) for state, (metrics,) in train(trainer, state)]


def test_the_agent_learns_the_rewarded_action_and_every_update_is_yielded():
    history = trained(trainer_in(RewardsOneAction, updates=120, learning_rate=1e-2, discount=0.5))
    assert [int(state.update) for state, _ in history] == list(range(1, 121))
    metrics = history[-1][1]
    assert metrics["action_entropy"] < 0.35 < 0.6 < history[0][1]["action_entropy"]
    assert "coverage" not in metrics


@pytest.mark.parametrize("returns", ["vtrace", "averaged"])
def test_a_seed_determines_the_run(returns):
    changes = {"returns": returns} | ({"unroll_length": 4} if returns == "averaged" else {})
    trainer = trainer_in(Counting, **changes)
    (*_, (one, _)), (*_, (other, _)) = trained(trainer), trained(trainer)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one.parameters, other.parameters))


def test_first_episodes_end_at_random_steps_and_their_returns_do_not_count():
    limits = first_episode_limits(horizon=50, num_envs=1000, seed=3)
    assert limits.min() == 1
    assert limits.max() == 50
    assert len(set(limits)) == 50
    trainer = trainer_in(partial(Counting, limit=1000), updates=1)
    with contextlib.closing(trainer.collector.env.open(8)) as envs:
        actor = HostActor(trainer, envs, 0, np.arange(1, 9))
        steps = actor.collect(actor.snapshot(initial_states(trainer)), 4, jax.random.key(0))
    ended = steps.terminated | steps.truncated
    assert steps.truncated[0, 0]
    # A step counts as partial until its environment starts its second episode.
    np.testing.assert_array_equal(steps.is_partial, np.cumsum(ended, axis=0) - ended == 0)


def test_a_resumed_run_starts_new_episodes_and_keeps_everything_else():
    trainer = trainer_in(Counting)
    *_, (state, metrics) = trained(trainer)
    longer = trainer._replace(config=trainer.config.replace(updates=5))
    history = trained(longer, state)
    assert [int(state.update) for state, _ in history] == [4, 5]
    assert history[0][1]["episodes"] > metrics["episodes"]
    assert float(history[0][0].observation_moments.weight) == float(state.observation_moments.weight) + 1
    # The window is emptied, since new episodes do not follow its steps.
    assert (
        not np.asarray(history[0][0].window.transitions.is_valid).all()
        or trainer.config.agent.unroll_period > 2
    )
    assert reset_seed(0, 3) != reset_seed(0, 0)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_transitions_are_the_same_in_every_autoreset_mode(mode):
    trainer = trainer_in(partial(SyncVectorEnv, [Counting] * 8, autoreset_mode=mode))
    envs = trainer.collector.env.open(8)
    actor, state = HostActor(trainer, envs, 0), initial_states(trainer)
    parts = [actor.collect(actor.snapshot(state), 15, jax.random.key(part)) for part in range(2)]
    steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    envs.close()
    ends = steps.terminated | steps.truncated
    gaps = ~steps.is_valid
    discount = trainer.config.agent.discount
    assert ends.any()
    assert gaps.any() == (mode == AutoresetMode.NEXT_STEP)
    if mode == AutoresetMode.NEXT_STEP:
        np.testing.assert_array_equal(gaps[1:], ends[:-1] & steps.is_valid[:-1])
    for time, env in zip(*np.nonzero(gaps), strict=True):
        for name in ("observation", "next_observation", "action", "reward", "discounted_return"):
            np.testing.assert_array_equal(
                getattr(steps, name)[time, env], getattr(steps, name)[time - 1, env]
            )
    for env in range(8):
        real = jax.tree.map(lambda leaf, env=env: leaf[:, env][steps.is_valid[:, env]], steps)
        over = real.terminated | real.truncated
        np.testing.assert_array_equal(real.is_first[1:], over[:-1])
        np.testing.assert_array_equal(
            real.observation[1:][~over[:-1]], real.next_observation[:-1][~over[:-1]]
        )
        previous = np.where(real.is_first, 0.0, np.concatenate([[0.0], real.discounted_return[:-1]]))
        np.testing.assert_allclose(real.discounted_return, real.reward + discount * previous, rtol=1e-6)
        # The second number of an observation counts the steps of the episode, and so does the agent's time.
        np.testing.assert_array_equal(real.observation[:, 1], real.inputs.time)
        np.testing.assert_array_equal(real.next_observation[:, 1], real.inputs.time + 1)
        np.testing.assert_array_equal(
            real.inputs.previous_reward[1:][~over[:-1]], real.reward[:-1][~over[:-1]]
        )
        np.testing.assert_array_equal(
            real.inputs.previous_action[1:][~over[:-1]], real.action[:-1][~over[:-1]]
        )
        assert (real.inputs.previous_action[real.is_first] == 2).all()


class LargeRewards(RewardsOneAction):
    """The same rewards times a thousand."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 1000.0 * reward, *rest


def test_scaled_rewards_of_any_size_are_learned_alike():
    changes = {"updates": 120, "learning_rate": 1e-2, "discount": 0.5}
    plain, large = (trained(trainer_in(make, **changes))[-1][1] for make in (RewardsOneAction, LargeRewards))
    assert large["action_entropy"] < 0.35
    assert large["return"] > 500 * plain["return"]
    assert (
        large["value_loss"] < 10.0 < trained(trainer_in(LargeRewards, return_scale=0.0))[-1][1]["value_loss"]
    )


@pytest.mark.parametrize(
    ("kept", "now", "expected"), [(0.0, 0.4, 4.0), (-0.9, 0.4, 4.0), (-50.0, 4.0, 0.08), (1.0, 8.0, 0.5)]
)
def test_rewards_are_scaled_by_the_largest_recent_return(kept, now, expected):
    trainer = trainer_in(Counting)
    nothing = VectorTransition(*(np.zeros((2, 8)) for _ in VectorTransition._fields))

    def with_returns(size):
        returns = jnp.full((2, 8), size)
        return Transition(
            None, None, nothing.reward, nothing.reward, jnp.ones((2, 8)), *[nothing.terminated] * 3, None, None,
            discounted_return=returns, episode_return=returns,
        )  # fmt: skip

    statistics = keep_return_size(initial_states(trainer).statistics, with_returns(kept), jnp.asarray(3))
    steps = with_returns(now)
    assert extrinsic_reward(trainer.config, statistics, steps) == pytest.approx(expected)
    unscaled = trainer.config.replace(return_scale=0.0)
    assert (extrinsic_reward(unscaled, statistics, steps) == 1.0).all()


ODD = {
    "numbers": (spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-2.0, 2.0, (2,))),
    "choices": (
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2)}),
        spaces.MultiDiscrete([9, 9, 9]),
    ),
    "image": (spaces.Box(0, 255, (36, 40, 3), np.uint8), spaces.MultiBinary(2)),
}


@pytest.mark.parametrize("name", ODD)
def test_every_kind_of_observation_and_action_space_trains(name):
    trainer = trainer_in(partial(SamplesSpace, *ODD[name]), updates=2)
    *_, (state, metrics) = trained(trainer)
    assert metrics["consecutive_nonfinite"] == 0
    assert np.isfinite(metrics["agent_loss"])
    assert state.window.transitions.action.shape[2:] == state.actor.inputs.previous_action.shape[1:]


def test_gem_over_and_within_episodes_trains_and_resumes():
    trainer = trainer_in(Counting, method="gem", episode_memory_size=5)
    *_, (state, metrics) = trained(trainer)
    assert state.reward.inner.terms[1].memory.rows.shape == (8, 5, 2)
    assert 0 < metrics["episode_similarity_mean"] <= 1
    assert metrics["episodic_weight"] == pytest.approx(1 - metrics["overlap"])
    longer = trainer._replace(config=trainer.config.replace(updates=4))
    ((after, metrics),) = trained(longer, state)
    assert int(after.update) == 4
    assert np.isfinite(metrics["gem_objective"])


def test_reward_free_episodes_truncate_instead_of_terminating():
    ends = np.array([True, False, False]), np.array([False, True, False])
    outcome = VectorTransition(*(np.zeros(3) for _ in VectorTransition._fields))
    outcome = outcome._replace(reward=np.ones(3), terminated=ends[0], truncated=ends[1])
    free = without_reward(outcome)
    assert free.reward.tolist() == [0.0, 0.0, 0.0]
    assert free.terminated.tolist() == [False, False, False]
    assert free.truncated.tolist() == [True, True, False]


def test_methods_that_do_not_fit_the_environment_are_refused():
    with pytest.raises(ValueError, match="method oracle counts visits to the true states"):
        trainer_in(Counting, method="oracle")
    with pytest.raises(ValueError, match="method ngu predicts the action and needs discrete actions"):
        trainer_in(partial(SamplesSpace, *ODD["numbers"]), method="ngu")
    with pytest.raises(
        ValueError, match="negative_memory_size must be 0 for similarity indicator in gym:custom"
    ):
        trainer_in(Counting, method="gem", similarity="indicator", episodic_weight=0.0)
    with pytest.raises(ValueError, match="seeds must be 1 for gym:custom"):
        trainer_in(Counting, seeds=2)


def test_a_custom_environment_must_be_passed():
    with pytest.raises(ValueError, match="environment gym:custom needs a Python object, which is missing"):
        assemble(configure(CUSTOM_ENV, **TINY))


def test_a_custom_environment_is_refused_if_the_configuration_names_another():
    config = configure("two-rooms", method="none", num_envs=8)
    with pytest.raises(ValueError, match=r"environment two-rooms .* was given for a run with another one"):
        assemble(config, custom=CustomParts(make_env=Counting))

"""The wrapper adds the intrinsic reward at every step and in every autoreset mode, and changes nothing else."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.parameters import fast_or_slow

from gemax.errors import CheckpointError
from gemax.integrations.build import RewardOptions, build_reward_for
from gemax.integrations.gymnasium import IntrinsicRewardWrapper
from gemax.integrations.intrinsic_learner import host_transitions, make_learner
from gemax.rewards.base import IntrinsicReward

CORRIDOR = {"map": "S....G\n", "horizon": 7, "observation": "cells"}
TINY = {"torso_size": 8, "head_size": 8, "embedding_size": 4}
NUM_ENVS, LENGTH = 2, 4


def make(mode="NextStep", num_envs=NUM_ENVS):
    return gymnasium.make_vec("gemax/Map-v0", num_envs, autoreset_mode=mode, **CORRIDOR)


def wrap(mode="NextStep", method="gem", **settings):
    settings = settings if isinstance(method, IntrinsicReward) else {**TINY, **settings}
    return IntrinsicRewardWrapper(make(mode), method, rollout_length=LENGTH, horizon=7, **settings)


def walk(envs, num_transitions, seed=0):
    """Returns the intrinsic reward of each transition of each environment, under random actions with a fixed seed."""
    actions = np.random.default_rng(seed).integers(5, size=(envs.num_envs, num_transitions))
    rewards = [[] for _ in range(envs.num_envs)]
    mode = envs.metadata["autoreset_mode"]
    envs.reset(seed=0)
    while min(map(len, rewards)) < num_transitions:
        action = np.asarray(
            [row[min(len(past), len(row) - 1)] for row, past in zip(actions, rewards, strict=True)]
        )
        _, _, terminated, truncated, infos = envs.step(action)
        for i in np.flatnonzero(infos["_intrinsic_reward"]):
            rewards[i].append(infos["intrinsic_reward"][i])
        assert not infos["intrinsic_reward"][~infos["_intrinsic_reward"]].any()
        ends = terminated | truncated
        if mode is AutoresetMode.DISABLED and ends.any():
            envs.reset(options={"reset_mask": ends})
    return np.asarray([past[:num_transitions] for past in rewards])


def counting_reward():
    """Rewards each step by 100 times the number of updates, plus the number of steps remembered since the last one."""

    def init(key, rows, num_envs):
        return {"learned": jnp.zeros(()), "remembered": jnp.zeros(num_envs)}

    def reward(state, transitions, key):
        return jnp.broadcast_to(100 * state["learned"] + state["remembered"][None], transitions.action.shape)

    def step(state, transitions, key):
        after = {"learned": state["learned"] + 1, "remembered": jnp.zeros_like(state["remembered"])}
        return reward(state, transitions, key), after, {"actions": jnp.mean(transitions.action.astype(float))}

    def remember(state, transitions, is_valid):
        return {**state, "remembered": state["remembered"] + is_valid}

    return IntrinsicReward(init, reward, step, None, remember)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_rewards_are_computed_per_step_and_learned_per_rollout(mode):
    rewards = walk(wrap(mode, counting_reward()), 3 * LENGTH)
    # In NextStep, resets use up steps, so environments are not in step when a rollout is complete.
    assert (rewards[:, :LENGTH] == 0).all()
    if mode != "NextStep":
        np.testing.assert_array_equal(
            rewards[:, LENGTH:], [[100, 101, 102, 103, 200, 201, 202, 203]] * NUM_ENVS
        )


@functools.cache
def rewards_of(method, mode):
    return walk(wrap(mode, method), 5 * LENGTH)


@pytest.mark.parametrize(
    "method", fast_or_slow(["gem", "rnd", "ngu", "ngu-rnd", "e3b", "re3"], ["gem", "ngu-rnd"])
)
def test_every_method_gives_finite_rewards_after_the_first_update(method):
    rewards = rewards_of(method, "SameStep")
    assert np.isfinite(rewards).all()
    assert not rewards[:, :LENGTH].any()
    assert (rewards[:, LENGTH:] != 0).mean() > 0.9


def test_the_modes_disabled_and_same_step_give_the_same_rewards():
    np.testing.assert_allclose(rewards_of("gem", "Disabled"), rewards_of("gem", "SameStep"), rtol=1e-5)


def test_rewards_are_added_or_replaced_and_nothing_else_changes():
    bare, added, replaced = make("SameStep"), wrap("SameStep"), wrap("SameStep", replace_reward=True)
    for envs in (bare, added, replaced):
        envs.reset(seed=3)
    for action in np.random.default_rng(1).integers(5, size=(3 * LENGTH, NUM_ENVS)):
        results = [envs.step(action) for envs in (bare, added, replaced)]
        intrinsic = results[1][4]["intrinsic_reward"]
        np.testing.assert_allclose(results[1][1], results[0][1] + intrinsic)
        np.testing.assert_allclose(results[2][1], intrinsic)
        for one in results[1:]:
            np.testing.assert_array_equal(one[0], results[0][0])
            np.testing.assert_array_equal(one[2], results[0][2])
            assert {"intrinsic_reward", "_intrinsic_reward", *results[0][4]} == one[4].keys()
    assert "gem_loss" in added.metrics


def test_a_saved_reward_can_be_loaded(tmp_path):
    first = wrap("SameStep", "rnd")
    walk(first, 3 * LENGTH)
    first.save(tmp_path / "model.zip")
    assert (tmp_path / "model.intrinsic").is_dir()
    second = wrap("SameStep", "rnd", seed=5)
    assert not (tmp_path / "model.zip").exists()
    second.load(tmp_path / "model")
    first.load(tmp_path / "model")
    np.testing.assert_array_equal(walk(first, LENGTH), walk(second, LENGTH))
    with pytest.raises(CheckpointError, match="does not fit this run"):
        wrap("SameStep", "rnd", torso_size=9).load(tmp_path / "model")


class BrokenSensor(gymnasium.Env):
    """Observes NaN at the third step. Its actions are continuous."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.num_steps += 1
        broken = np.nan if self.num_steps == 3 else 0.0
        return np.asarray([0.5, broken], np.float32), 0.0, False, False, {}


def test_observations_that_are_not_finite_raise_an_error():
    envs = IntrinsicRewardWrapper(SyncVectorEnv([BrokenSensor]), "rnd", rollout_length=LENGTH, **TINY)
    envs.reset()
    action = np.zeros((1, 1), np.float32)
    envs.step(action)
    envs.step(action)
    with pytest.raises(ValueError, match="the observation of environment 0 is not finite at step 3"):
        envs.step(action)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("oracle", {}, "The oracle counts cells, which only gemax environments have"),
        ("gme", {}, "method must be one of gem, rnd, ngu, ngu-rnd, e3b, re3, none, or an IntrinsicReward"),
        ("gem", {"intrinsic_scael": 1.0}, "Did you mean intrinsic_scale"),
    ],
)
def test_errors_of_settings_name_what_is_possible(method, settings, message):
    with pytest.raises(ValueError, match=message):
        IntrinsicRewardWrapper(make(), method, **settings)


@pytest.mark.parametrize("method", ["ngu", "e3b"])
def test_inverse_dynamics_need_discrete_actions(method):
    with pytest.raises(ValueError, match=f"method {method} predicts the action and needs discrete actions"):
        IntrinsicRewardWrapper(SyncVectorEnv([BrokenSensor]), method)


def test_a_vector_environment_must_declare_its_autoreset_mode():
    envs = SyncVectorEnv([BrokenSensor])
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        IntrinsicRewardWrapper(envs)


def test_a_step_before_the_first_reset_raises_an_error():
    with pytest.raises(ResetNeeded, match="call reset"):
        wrap(method=counting_reward()).step(np.zeros(NUM_ENVS, int))


def test_an_annealed_reward_becomes_zero():
    rewards = walk(wrap("SameStep", "rnd", anneal_updates=3), 5 * LENGTH)
    assert rewards[:, LENGTH : 3 * LENGTH].all()
    assert not rewards[:, 3 * LENGTH :].any()


def test_the_method_none_gives_rewards_of_zero():
    envs = wrap("SameStep", "none")
    assert not walk(envs, 3 * LENGTH).any()
    assert envs.metrics == {}


def action_reward():
    """Rewards each step with the index of its action."""

    def reward(state, transitions, key):
        return transitions.action.astype(float)

    def step(state, transitions, key):
        return reward(state, transitions, key), state, {}

    return IntrinsicReward(lambda key, rows, num_envs: (), reward, step)


def test_rewards_of_a_rollout_belong_to_its_steps():
    envs, plain = wrap("SameStep", action_reward(), per_step=False), make("SameStep")
    actions = np.random.default_rng(0).integers(5, size=(3 * LENGTH, NUM_ENVS))
    envs.reset(seed=0), plain.reset(seed=0)
    for time, action in enumerate(actions):
        result, expected = envs.step(action), plain.step(action)
        np.testing.assert_array_equal(result[1], expected[1])
        assert "intrinsic_reward" not in result[4]
        if (time + 1) % LENGTH:
            assert envs.rollout_rewards is None
        else:
            np.testing.assert_array_equal(envs.rollout_rewards, actions[time + 1 - LENGTH : time + 1])


def test_rollouts_are_learned_from_once_each():
    envs = wrap("SameStep", counting_reward(), per_step=False)
    envs.reset(seed=0)
    for rollout in range(3):
        for _ in range(LENGTH):
            envs.step(np.zeros(NUM_ENVS, int))
        np.testing.assert_array_equal(envs.rollout_rewards, np.full((LENGTH, NUM_ENVS), 100 * rollout))


def test_without_an_intrinsic_reward_those_of_a_rollout_are_zero():
    envs = wrap("SameStep", "none", per_step=False)
    envs.reset(seed=0)
    for _ in range(LENGTH):
        envs.step(np.zeros(NUM_ENVS, int))
    np.testing.assert_array_equal(envs.rollout_rewards, np.zeros((LENGTH, NUM_ENVS)))


def test_rewards_of_a_rollout_need_steps_that_are_all_transitions():
    with pytest.raises(ValueError, match="needs the autoreset mode SAME_STEP"):
        wrap("NextStep", per_step=False)
    with pytest.raises(ValueError, match="replace_reward has no effect with per_step=False"):
        wrap("SameStep", per_step=False, replace_reward=True)


def test_learning_from_rollouts_does_not_depend_on_whether_rewards_of_steps_are_allowed():
    options = RewardOptions("gem", {**TINY, "intrinsic_scale": 1.0}, horizon=4)
    module = build_reward_for(options, (3,), spaces.Discrete(2), recent_negatives=False)
    learners = [make_learner(module, (3,), NUM_ENVS, per_step=per_step) for per_step in (True, False)]
    states = [learner.init(jax.random.key(0)) for learner in learners]
    rng, never = np.random.default_rng(0), np.zeros((5, NUM_ENVS), bool)
    for rollout in range(3):
        rows = rng.normal(size=(5, NUM_ENVS, 3)).astype(np.float32)
        steps = host_transitions(
            observation=rows, next_observation=rows + 1, action=never.astype(np.int32),
            reward=never.astype(np.float32), terminated=never, truncated=never, is_first=never | (rollout == 0),
        )  # fmt: skip
        results = [learner.learn(state, steps) for learner, state in zip(learners, states, strict=True)]
        states = [result[1] for result in results]
        np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-6)

"""Agents of Stable-Baselines3 get an intrinsic reward, and their advantages and returns stay correct."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv
from tests.parameters import fast_or_slow

import gemax.integrations.gymnasium  # noqa: F401
from gemax.integrations.stable_baselines3 import (
    GymnasiumVecEnv,
    IntrinsicDictReplayBuffer,
    IntrinsicMetricsCallback,
    IntrinsicReplayBuffer,
    IntrinsicRewardCallback,
    add_to_rewards,
)
from gemax.rewards.base import IntrinsicReward

torch.set_num_threads(1)
TINY = {"torso_size": 8, "head_size": 8, "embedding_size": 4}
SMALL_POLICY = {"net_arch": [8]}
NUM_ENVS, NUM_STEPS = 3, 6


class Clock(gymnasium.Env):
    """Observes the time. Episodes have three steps: every other one terminates, the rest are truncated."""

    action_space = spaces.Discrete(2)

    def __init__(self, kind="numbers", actions=None):
        self.kind, self.episode = kind, -1
        self.action_space = actions or spaces.Discrete(2)
        box = spaces.Box(0, 10, (2,), np.float32)
        self.observation_space = spaces.Dict({"clock": box}) if kind == "names" else box

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.episode = 0, self.episode + 1
        return self.observation(), {}

    def step(self, action):
        self.time += 1
        is_over = self.time == 3
        terminates = self.episode % 2 == 0
        return self.observation(), 1.0, is_over and terminates, is_over and not terminates, {}

    def observation(self):
        numbers = np.asarray([self.time, self.episode % 5], np.float32)
        return {"clock": numbers} if self.kind == "names" else numbers


def clocks(**settings):
    return DummyVecEnv([lambda: Clock(**settings) for _ in range(NUM_ENVS)])


def recording(rollouts):
    """Returns a reward that equals the time after each step, and that records every rollout."""

    def init(key, rows, num_envs):
        return jnp.zeros(())

    def reward(state, transitions, key):
        return transitions.next_observation.rows[:, 0].reshape(transitions.action.shape)

    def step(state, transitions, key):
        jax.debug.callback(
            lambda transitions: rollouts.append(jax.tree.map(np.asarray, transitions)), transitions
        )
        return reward(state, transitions, key), state + 1, {"rollouts": state + 1}

    return IntrinsicReward(init, reward, step)


class BufferRecorder(BaseCallback):
    """Copies the rollout buffer before the agent learns from it."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.locals["rollout_buffer"]
        self.recorded = {
            name: np.array(getattr(buffer, name))
            for name in ("rewards", "advantages", "returns", "values", "episode_starts")
        }


def agent(kind=PPO, env=None, policy="MlpPolicy", **settings):
    settings = {
        "n_steps": NUM_STEPS,
        "policy_kwargs": dict(SMALL_POLICY),
        "device": "cpu",
        "seed": 0,
        **settings,
    }
    if kind is not A2C:
        settings = {"batch_size": NUM_ENVS * NUM_STEPS, "n_epochs": 1, **settings}
    return kind(policy, env or clocks(), **settings)


def trained(kind=PPO, method="none", **settings):
    """Returns the rollout buffer of the first rollout."""
    recorder = BufferRecorder()
    callback = IntrinsicRewardCallback(method, **settings)
    agent(kind).learn(NUM_ENVS * NUM_STEPS, callback=[callback, recorder])
    return recorder.recorded


def test_the_transitions_are_those_of_the_environment_with_terminal_observations():
    rollouts = []
    trained(method=recording(rollouts))
    (transitions,) = rollouts
    is_end = np.arange(1, NUM_STEPS + 1) % 3 == 0
    everywhere = np.ones((1, NUM_ENVS), bool)
    np.testing.assert_array_equal(
        transitions.terminated, (is_end & (np.arange(NUM_STEPS) < 3))[:, None] & everywhere
    )
    np.testing.assert_array_equal(
        transitions.truncated, (is_end & (np.arange(NUM_STEPS) >= 3))[:, None] & everywhere
    )
    np.testing.assert_array_equal(transitions.is_first, np.roll(is_end, 1)[:, None] & everywhere)
    np.testing.assert_array_equal(transitions.reward, 1.0)
    before, after = (
        rows[:, 0].reshape(NUM_STEPS, NUM_ENVS)
        for rows in (transitions.observation.rows, transitions.next_observation.rows)
    )
    # Centred, but in order: the time after a step is later than before it, and latest at the end of an episode.
    assert (after > before).all()
    np.testing.assert_allclose(after[2], after.max())
    np.testing.assert_allclose(after[5], after.max())


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_advantages_and_returns_are_those_of_the_sum_of_rewards(kind):
    alone, mixed = trained(kind), trained(kind, recording([]))
    model = agent(kind)
    added = mixed["rewards"] - alone["rewards"]
    assert np.abs(added).max() > 0.5
    expected = np.zeros_like(added)
    for t in reversed(range(NUM_STEPS)):
        later = 0.0
        if t + 1 < NUM_STEPS:
            later = model.gamma * model.gae_lambda * (1 - alone["episode_starts"][t + 1]) * expected[t + 1]
        expected[t] = added[t] + later
    np.testing.assert_allclose(mixed["advantages"] - alone["advantages"], expected, atol=1e-5)
    np.testing.assert_allclose(mixed["returns"], mixed["advantages"] + mixed["values"], atol=1e-5)


def test_add_to_rewards_equals_what_the_buffer_computes_from_the_sum():
    draw = np.random.default_rng(0)
    buffer = RolloutBuffer(NUM_STEPS, spaces.Box(0, 1, (1,)), spaces.Discrete(2), "cpu", 0.9, 0.97, NUM_ENVS)
    shape = (NUM_STEPS, NUM_ENVS)
    buffer.rewards, buffer.values, added = (draw.normal(size=shape).astype(np.float32) for _ in range(3))
    buffer.episode_starts = (draw.random(shape) < 0.3).astype(np.float32)
    last = torch.as_tensor(draw.normal(size=NUM_ENVS)), draw.random(NUM_ENVS) < 0.5
    buffer.compute_returns_and_advantage(*last)
    add_to_rewards(buffer, added)
    found = buffer.rewards.copy(), buffer.advantages.copy(), buffer.returns.copy()
    buffer.compute_returns_and_advantage(*last)
    np.testing.assert_allclose(found[0], buffer.rewards)
    np.testing.assert_allclose(found[1], buffer.advantages, atol=1e-5)
    np.testing.assert_allclose(found[2], buffer.returns, atol=1e-5)


def test_the_intrinsic_reward_can_replace_that_of_the_environment():
    alone, replaced = trained(), trained(method="none", replace_reward=True)
    # The rest of the reward is the bootstrapped value of truncated episodes.
    np.testing.assert_allclose(alone["rewards"] - replaced["rewards"], 1.0, atol=1e-6)


@pytest.mark.parametrize("method", fast_or_slow(["gem", "rnd", "ngu", "ngu-rnd", "e3b", "re3"], ["gem"]))
@pytest.mark.parametrize("mean", [0.0, 0.25])
def test_the_mean_intrinsic_reward_is_intrinsic_shift_and_zero_by_default(method, mean):
    asked = {"intrinsic_shift": mean} if mean else {}
    alone, mixed = trained(), trained(method=method, horizon=3, **asked, **TINY)
    added = mixed["rewards"] - alone["rewards"]
    np.testing.assert_allclose(added.mean(), mean, atol=1e-6)
    assert added.std() > 0


@pytest.mark.parametrize("method", ["gem", "ngu-rnd"])
def test_ppo_learns_with_rewards_that_have_a_memory(method):
    callback = IntrinsicRewardCallback(method, horizon=3, **TINY)
    model = agent()
    model.learn(2 * NUM_ENVS * NUM_STEPS, callback=callback)
    assert int(callback.learner_state.updates) == 2
    assert all(torch.isfinite(weights).all() for weights in model.policy.parameters())


def test_a_recurrent_agent_works_like_any_other():
    callback = IntrinsicRewardCallback("rnd", **TINY)
    policy = {"net_arch": [8], "lstm_hidden_size": 8}
    agent(RecurrentPPO, policy="MlpLstmPolicy", policy_kwargs=policy).learn(
        2 * NUM_ENVS * NUM_STEPS, callback=callback
    )
    assert int(callback.learner_state.updates) == 2


def test_the_intrinsic_reward_is_saved_beside_the_model_and_loaded(tmp_path):
    callback = IntrinsicRewardCallback("rnd", **TINY)
    model = agent()
    with pytest.raises(ValueError, match="nothing to save yet"):
        callback.save(tmp_path / "model")
    model.learn(NUM_ENVS * NUM_STEPS, callback=callback)
    model.save(tmp_path / "model")
    callback.save(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.intrinsic", "model.zip"]
    again = IntrinsicRewardCallback("rnd", seed=7, **TINY)
    again.load(tmp_path / "model.zip")
    again.init_callback(PPO.load(tmp_path / "model", clocks()))
    for saved, loaded in zip(
        jax.tree.leaves(callback.learner_state.reward),
        jax.tree.leaves(again.learner_state.reward),
        strict=True,
    ):
        np.testing.assert_array_equal(saved, loaded)
    assert int(again.learner_state.updates) == 1


def test_learning_again_compiles_the_intrinsic_reward_only_if_the_environments_are_others():
    traced = []
    reward = recording([])

    def step(state, transitions, key):
        traced.append(transitions.action.shape)
        return reward.step(state, transitions, key)

    callback, frames = IntrinsicRewardCallback(reward._replace(step=step)), NUM_ENVS * NUM_STEPS
    model = agent()
    for _ in range(3):
        model.learn(frames, callback=callback, reset_num_timesteps=False)
    assert traced == [(NUM_STEPS, NUM_ENVS)]
    assert callback.learner_state is not None
    assert callback.learner_state.updates == 3
    agent(env=DummyVecEnv([Clock]), batch_size=NUM_STEPS).learn(NUM_STEPS, callback=callback)
    assert traced == [(NUM_STEPS, NUM_ENVS), (NUM_STEPS, 1)]


def test_an_off_policy_agent_is_referred_to_the_replay_buffer():
    model = DQN("MlpPolicy", Clock(), policy_kwargs=dict(SMALL_POLICY), device="cpu")
    with pytest.raises(ValueError, match="replay_buffer_class=IntrinsicReplayBuffer"):
        model.learn(1, callback=IntrinsicRewardCallback("gem"))


class RecordingFormat(KVWriter):
    """Keeps the logged values."""

    def __init__(self, logged):
        self._logged = logged

    def write(self, key_values, key_excluded, step=0):
        self._logged.update(key_values)


@pytest.mark.parametrize(
    ("kind", "env", "policy", "buffer"),
    [
        (DQN, {}, "MlpPolicy", IntrinsicReplayBuffer),
        (SAC, {"actions": spaces.Box(-1, 1, (2,))}, "MlpPolicy", IntrinsicReplayBuffer),
        (DQN, {"kind": "names"}, "MultiInputPolicy", IntrinsicDictReplayBuffer),
    ],
)
def test_off_policy_agents_get_the_reward_when_a_batch_is_sampled(kind, env, policy, buffer, tmp_path):
    model = kind(
        policy,
        Clock(**env),
        learning_starts=16,
        batch_size=16,
        train_freq=4,
        policy_kwargs=dict(SMALL_POLICY),
        device="cpu",
        seed=0,
        replay_buffer_class=buffer,
        replay_buffer_kwargs={"method": "gem", **TINY},
    )
    logged = {}
    model.set_logger(Logger(None, [RecordingFormat(logged)]))
    model.learn(32, callback=IntrinsicMetricsCallback(), log_interval=1)
    assert np.isfinite([logged["intrinsic/reward"], logged["intrinsic/gem_loss"]]).all()
    replay = model.replay_buffer
    assert int(replay.learner_state.updates) == 4
    rewards = replay.sample(16).rewards.numpy()
    assert np.isfinite(rewards).all()
    assert len(np.unique(rewards)) > 2
    np.testing.assert_array_equal(replay.rewards[:32], 1.0)
    model.save_replay_buffer(tmp_path / "replay.pkl")
    model.load_replay_buffer(tmp_path / "replay.pkl")
    jax.tree.map(
        np.testing.assert_array_equal, replay.learner_state.reward, model.replay_buffer.learner_state.reward
    )


@pytest.mark.parametrize("settings", [{"method": "ngu"}, {"method": "e3b"}, {"episodic_weight": 0.5}])
def test_methods_that_need_episodes_in_order_are_refused_by_the_replay_buffer(settings):
    with pytest.raises(
        ValueError,
        match="ngu, ngu-rnd, e3b and gem with an episodic_weight need the steps of an episode in order",
    ):
        DQN(
            "MlpPolicy",
            Clock(),
            replay_buffer_class=IntrinsicReplayBuffer,
            replay_buffer_kwargs=settings,
        )


def test_gymnasium_vector_environments_are_converted():
    settings = {"map": "S.G\n", "horizon": 4, "observation": "cells"}
    envs = GymnasiumVecEnv(gymnasium.make_vec("gemax/Map-v0", 2, autoreset_mode="SameStep", **settings))
    envs.seed(3)
    start = envs.reset()
    right, stay = 4, 0
    _, rewards, dones, _ = envs.step(np.asarray([right, stay]))
    assert (rewards.tolist(), dones.tolist()) == ([0, 0], [False, False])
    observations, rewards, dones, infos = envs.step(np.asarray([right, stay]))
    assert (rewards.tolist(), dones.tolist()) == ([1, 0], [True, False])
    np.testing.assert_array_equal(observations[0], start[0])
    assert (infos[0]["terminal_observation"] != start[0]).any()
    assert infos[0]["TimeLimit.truncated"] is False
    envs.step(np.asarray([stay, stay]))
    _, _, dones, infos = envs.step(np.asarray([stay, stay]))
    assert dones.tolist() == [False, True]
    assert infos[1]["TimeLimit.truncated"] is True


def test_other_autoreset_modes_are_refused_for_stable_baselines3():
    envs = gymnasium.make_vec("gemax/Map-v0", 2, map="S.G\n", horizon=4)
    with pytest.raises(ValueError, match='autoreset_mode="SameStep"'):
        GymnasiumVecEnv(envs)


def test_settings_that_only_the_agent_has_are_refused():
    for name in ("learning_rate", "num_envs", "intrinsic_half_life"):
        with pytest.raises(
            ValueError, match=f"{name} has no effect here, where another library trains the agent"
        ):
            trained(**{"method": "gem", name: 8})
    with pytest.raises(ValueError, match=r"there is no setting 'lr'. In gemax it is learning_rate"):
        trained(method="gem", lr=1e-3)
    with pytest.raises(ValueError, match="num_envs has no effect here"):
        DQN(
            "MlpPolicy",
            Clock(),
            replay_buffer_class=IntrinsicReplayBuffer,
            replay_buffer_kwargs={"num_envs": 4},
        )


def test_a_memory_of_negatives_is_refused_where_it_has_no_effect():
    with pytest.raises(ValueError, match="negative_memory_size must be 0 in a replay buffer"):
        DQN(
            "MlpPolicy",
            Clock(),
            replay_buffer_class=IntrinsicReplayBuffer,
            replay_buffer_kwargs={"negative_memory_size": 4},
        )
    # Fewer than eight environments.
    for name in ("negative_memory_size", "negative_memory_period"):
        with pytest.raises(ValueError, match=f"{name} has no effect here, where negatives come from"):
            trained(method="gem", **{name: 4})


def test_the_metrics_of_a_replay_buffer_need_one():
    with pytest.raises(ValueError, match="needs an agent with an IntrinsicReplayBuffer"):
        agent(PPO).learn(1, callback=IntrinsicMetricsCallback())

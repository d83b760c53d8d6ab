"""Agents of Stable-Baselines3 are paid for exploring, and nothing of what they would compute themselves is wrong."""

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
from stable_baselines3.common.vec_env import DummyVecEnv

import gemax.integrations.gymnasium  # noqa: F401
from gemax.integrations.stable_baselines3 import (
    GymnasiumVecEnv,
    IntrinsicDictReplayBuffer,
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
    """Shows the time. Episodes of three steps: every other one terminates, the rest are truncated."""

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


def recording(seen):
    """Pays each step the time it arrived at, and keeps every rollout. It gets the observations as they are."""

    def init(key, rows, num_worlds):
        return jnp.zeros(())

    def reward(state, rollout, key):
        return rollout.arrived.rows[:, 0].reshape(rollout.action.shape)

    def step(state, rollout, key):
        jax.debug.callback(lambda rollout: seen.append(jax.tree.map(np.asarray, rollout)), rollout)
        return reward(state, rollout, key), state + 1, {"rollouts": state + 1}

    return IntrinsicReward(init, reward, step)


class Keep(BaseCallback):
    """Keeps what the rollout buffer holds when it is learned from."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.locals["rollout_buffer"]
        self.kept = {
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
    """What the buffer held in the first rollout."""
    keep = Keep()
    callback = IntrinsicRewardCallback(method, **settings)
    agent(kind).learn(NUM_ENVS * NUM_STEPS, callback=[callback, keep])
    return keep.kept


def test_the_rollout_is_told_as_it_was_terminal_observations_included():
    seen = []
    trained(method=recording(seen))
    (rollout,) = seen
    is_end = np.arange(1, NUM_STEPS + 1) % 3 == 0
    everywhere = np.ones((1, NUM_ENVS), bool)
    np.testing.assert_array_equal(
        rollout.terminated, (is_end & (np.arange(NUM_STEPS) < 3))[:, None] & everywhere
    )
    np.testing.assert_array_equal(
        rollout.truncated, (is_end & (np.arange(NUM_STEPS) >= 3))[:, None] & everywhere
    )
    np.testing.assert_array_equal(rollout.is_first, np.roll(is_end, 1)[:, None] & everywhere)
    np.testing.assert_array_equal(rollout.reward, 1.0)
    before, after = (
        rows[:, 0].reshape(NUM_STEPS, NUM_ENVS) for rows in (rollout.seen.rows, rollout.arrived.rows)
    )
    # Centred, but in order: the time after a step is later than the time before it, and the latest at the end.
    assert (after > before).all()
    np.testing.assert_allclose(after[2], after.max())
    np.testing.assert_allclose(after[5], after.max())


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_advantages_and_returns_are_those_of_the_mixed_reward(kind):
    alone, mixed = trained(kind), trained(kind, recording([]))
    model = agent(kind)
    paid = mixed["rewards"] - alone["rewards"]
    assert np.abs(paid).max() > 0.5
    expected = np.zeros_like(paid)
    for t in reversed(range(NUM_STEPS)):
        later = 0.0
        if t + 1 < NUM_STEPS:
            later = model.gamma * model.gae_lambda * (1 - alone["episode_starts"][t + 1]) * expected[t + 1]
        expected[t] = paid[t] + later
    np.testing.assert_allclose(mixed["advantages"] - alone["advantages"], expected, atol=1e-5)
    np.testing.assert_allclose(mixed["returns"], mixed["advantages"] + mixed["values"], atol=1e-5)


def test_to_add_to_rewards_is_what_the_buffer_would_compute_from_the_sum():
    draw = np.random.default_rng(0)
    buffer = RolloutBuffer(NUM_STEPS, spaces.Box(0, 1, (1,)), spaces.Discrete(2), "cpu", 0.9, 0.97, NUM_ENVS)
    shape = (NUM_STEPS, NUM_ENVS)
    buffer.rewards, buffer.values, paid = (draw.normal(size=shape).astype(np.float32) for _ in range(3))
    buffer.episode_starts = (draw.random(shape) < 0.3).astype(np.float32)
    last = torch.as_tensor(draw.normal(size=NUM_ENVS)), draw.random(NUM_ENVS) < 0.5
    buffer.compute_returns_and_advantage(*last)
    add_to_rewards(buffer, paid)
    found = buffer.rewards.copy(), buffer.advantages.copy(), buffer.returns.copy()
    buffer.compute_returns_and_advantage(*last)
    np.testing.assert_allclose(found[0], buffer.rewards)
    np.testing.assert_allclose(found[1], buffer.advantages, atol=1e-5)
    np.testing.assert_allclose(found[2], buffer.returns, atol=1e-5)


def test_the_environments_reward_can_be_replaced():
    alone, replaced = trained(), trained(method="none", replaces=True)
    # What is left are the values of what was cut off, by which truncated episodes are made up for.
    left = replaced["rewards"]
    np.testing.assert_allclose(alone["rewards"] - left, 1.0, atol=1e-6)


@pytest.mark.parametrize("method", ["gem", "rnd", "ngu", "ngu-rnd"])
@pytest.mark.parametrize("mean", [0.0, 0.25])
def test_to_be_alive_earns_nothing_on_average_unless_it_is_asked_for(method, mean):
    asked = {"intrinsic_shift": mean} if mean else {}
    alone, mixed = trained(), trained(method=method, horizon=3, **asked, **TINY)
    paid = mixed["rewards"] - alone["rewards"]
    np.testing.assert_allclose(paid.mean(), mean, atol=1e-6)
    assert paid.std() > 0


@pytest.mark.parametrize("method", ["gem", "ngu-rnd"])
def test_ppo_learns_with_every_kind_of_memory(method):
    callback = IntrinsicRewardCallback(method, horizon=3, **TINY)
    model = agent()
    model.learn(2 * NUM_ENVS * NUM_STEPS, callback=callback)
    assert int(callback.learned.updates) == 2
    assert all(torch.isfinite(weights).all() for weights in model.policy.parameters())


def test_a_recurrent_agent_is_paid_like_any_other():
    callback = IntrinsicRewardCallback("rnd", **TINY)
    policy = {"net_arch": [8], "lstm_hidden_size": 8}
    agent(RecurrentPPO, policy="MlpLstmPolicy", policy_kwargs=policy).learn(
        2 * NUM_ENVS * NUM_STEPS, callback=callback
    )
    assert int(callback.learned.updates) == 2


def test_what_was_learned_is_saved_beside_the_model_and_goes_on(tmp_path):
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
        jax.tree.leaves(callback.learned.reward), jax.tree.leaves(again.learned.reward), strict=True
    ):
        np.testing.assert_array_equal(saved, loaded)
    assert int(again.learned.updates) == 1


def test_an_agent_that_replays_is_pointed_to_the_buffer():
    model = DQN("MlpPolicy", Clock(), policy_kwargs=dict(SMALL_POLICY), device="cpu")
    with pytest.raises(ValueError, match="replay_buffer_class=IntrinsicReplayBuffer"):
        model.learn(1, callback=IntrinsicRewardCallback("gem"))


@pytest.mark.parametrize(
    ("kind", "env", "policy", "buffer"),
    [
        (DQN, {}, "MlpPolicy", IntrinsicReplayBuffer),
        (SAC, {"actions": spaces.Box(-1, 1, (2,))}, "MlpPolicy", IntrinsicReplayBuffer),
        (DQN, {"kind": "names"}, "MultiInputPolicy", IntrinsicDictReplayBuffer),
    ],
)
def test_agents_that_replay_are_paid_when_a_batch_is_drawn(kind, env, policy, buffer, tmp_path):
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
        replay_buffer_kwargs={"method": "gem", "settings": TINY},
    )
    model.learn(32)
    replay = model.replay_buffer
    assert int(replay.learned.updates) == 4
    rewards = replay.sample(16).rewards.numpy()
    assert np.isfinite(rewards).all()
    assert len(np.unique(rewards)) > 2
    np.testing.assert_array_equal(replay.rewards[:32], 1.0)
    model.save_replay_buffer(tmp_path / "replay.pkl")
    model.load_replay_buffer(tmp_path / "replay.pkl")
    jax.tree.map(np.testing.assert_array_equal, replay.learned.reward, model.replay_buffer.learned.reward)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "ngu"}, "remembers episodes in order"),
        ({"settings": {"per_episode": True}}, "per_episode compares the visits of an episode in order"),
    ],
)
def test_what_needs_episodes_in_order_cannot_be_replayed(settings, words):
    with pytest.raises(ValueError, match=words):
        DQN(
            "MlpPolicy",
            Clock(),
            replay_buffer_class=IntrinsicReplayBuffer,
            replay_buffer_kwargs=settings,
        )


def test_vector_environments_of_gymnasium_are_taken_as_they_are():
    settings = {"map": "S.G\n", "horizon": 4, "observation": "squares"}
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

"""Intrinsic rewards for the agents of Stable-Baselines3.

PPO, A2C and other on-policy agents take a callback:

    model.learn(1_000_000, callback=IntrinsicRewardCallback("gem"))

DQN, SAC and other off-policy agents take a replay buffer:

    model = DQN("MlpPolicy", env, replay_buffer_class=IntrinsicReplayBuffer)
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from gemax.extras import require

try:
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
except ModuleNotFoundError:
    require("stable-baselines3", "gemax.integrations.stable_baselines3")
    raise

from gemax.integrations.build import (
    MIN_ENVS,
    Method,
    RewardOptions,
    action_indices,
    build_learner,
    check_options,
)
from gemax.integrations.intrinsic_learner import LearnerState, check_finite, host_transitions
from gemax.integrations.learner_checkpoint import load_learner, save_learner
from gemax.integrations.sb3_replay import (
    IntrinsicDictReplayBuffer,
    IntrinsicMetricsCallback,
    IntrinsicReplayBuffer,
)
from gemax.integrations.sb3_vec_env import GymnasiumVecEnv
from gemax.types import Transition

__all__ = [
    "GymnasiumVecEnv", "IntrinsicDictReplayBuffer", "IntrinsicMetricsCallback", "IntrinsicReplayBuffer",
    "IntrinsicRewardCallback",
]  # fmt: skip


class IntrinsicRewardCallback(BaseCallback):
    """Adds an intrinsic reward to every rollout of an on-policy agent before the agent learns from it.

    Args:
        method: The name of a method, or a custom `gemax.IntrinsicReward`.
        replace_reward: Whether the intrinsic reward replaces that of the environment, instead of being added to it.
        horizon: Maximum episode length. NGU and GEM remember at most this many steps of an episode.
        time_feature: Index of the time in the observation vector, if any. It is hidden from the intrinsic reward.
        seed: Seed of the networks of the intrinsic reward.
        verbose: Passed to `BaseCallback`.
        settings: Fields of `gemax.Config` that concern the intrinsic reward.
    """

    def __init__(
        self,
        method: Method = "gem",
        *,
        replace_reward: bool = False,
        horizon: int = 1000,
        time_feature: int | None = None,
        seed: int = 0,
        verbose: int = 0,
        **settings: Any,
    ):
        super().__init__(verbose)
        self.options = RewardOptions(method, settings, time_feature, horizon)
        check_options(self.options)
        self.replace_reward, self.seed = replace_reward, seed
        self.learner_state: LearnerState | None = None
        """State of the intrinsic reward. None before training."""
        self._load_from: Path | None = None
        self._built_for: tuple[Any, ...] | None = None
        """What the compiled learner was built for."""
        self._steps: list[tuple[Any, ...]] = []
        """Next observations, rewards and flags of the current rollout. The rollout buffer does not contain them."""

    def save(self, path: str | Path) -> None:
        """Saves the intrinsic reward to the folder `PATH.intrinsic`. `path` can be that of a saved model."""
        if self.learner_state is None:
            raise ValueError("there is nothing to save yet: call model.learn with this callback first.")
        save_learner(path, self.learner_state)

    def load(self, path: str | Path) -> None:
        """Loads the intrinsic reward that was saved beside a model. Takes effect at the next `model.learn`."""
        self._load_from = Path(path)

    def _init_callback(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            raise ValueError(
                f"IntrinsicRewardCallback is for on-policy agents such as PPO and A2C; got "
                f"{type(self.model).__name__}. For off-policy agents use replay_buffer_class=IntrinsicReplayBuffer."
            )
        num_envs = self.training_env.num_envs
        needed = (self.options, self.model.observation_space, self.model.action_space, num_envs)
        # Every call of `model.learn` comes here. A new learner would be compiled again.
        if needed != self._built_for:
            self._encoder, self._learner = build_learner(*needed, recent_negatives=num_envs < MIN_ENVS)
            self._built_for = needed
        if self.learner_state is None:
            self.learner_state = self._learner.init(jax.random.key(self.seed))
        if self._load_from is not None:
            self.learner_state = load_learner(self._load_from, self.learner_state)
            self._load_from = None

    def _on_rollout_start(self) -> None:
        self._steps = []

    def _on_step(self) -> bool:
        new_obs, rewards, dones, infos = (
            self.locals[name] for name in ("new_obs", "rewards", "dones", "infos")
        )
        next_observation = self._encoder.encode(new_obs)
        truncated = np.zeros(len(dones), bool)
        for i in np.flatnonzero(dones):
            # `new_obs[i]` is the first observation of the next episode.
            next_observation[i] = self._encoder.encode_one(infos[i]["terminal_observation"])
            truncated[i] = infos[i].get("TimeLimit.truncated", False)
        # A copy, because the agent adds to the rewards of truncated episodes later.
        self._steps.append((next_observation, np.array(rewards, np.float32), dones & ~truncated, truncated))
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        assert self.learner_state is not None
        transitions = self._transitions(buffer)
        all_valid = np.ones(transitions.action.shape[1], bool)
        check_finite(transitions, all_valid, f"in the rollout before step {self.num_timesteps}")
        rewards, self.learner_state, metrics = self._learner.learn(self.learner_state, transitions)
        rewards = np.asarray(rewards)
        add_to_rewards(buffer, rewards - transitions.reward if self.replace_reward else rewards)
        for name, value in metrics.items():
            self.logger.record(f"intrinsic/{name}", float(value))
        self.logger.record("intrinsic/reward", float(rewards.mean()))

    def _transitions(self, buffer: RolloutBuffer) -> Transition:
        """Returns the transitions of the rollout in the buffer."""
        next_observation, reward, terminated, truncated = map(np.stack, zip(*self._steps, strict=True))
        rows = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), buffer.observations)
        return host_transitions(
            observation=self._encoder.encode(rows).reshape(next_observation.shape),
            next_observation=next_observation,
            action=action_indices(self.model.action_space, buffer.actions, reward.shape),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            is_first=buffer.episode_starts.astype(bool),
        )


def add_to_rewards(buffer: RolloutBuffer, rewards: Float[np.ndarray, "time envs"]) -> None:
    """Adds rewards to those in the buffer, and updates its advantages and returns.

    Generalised advantages are linear in the rewards. So the added advantages are the sums of the added rewards with
    discount γλ. Values need not be predicted again, which recurrent agents could not do.
    """
    is_first, discount = buffer.episode_starts.astype(bool), buffer.gamma * buffer.gae_lambda
    advantages = discounted_sums(rewards, is_first, discount)
    buffer.rewards += rewards
    buffer.advantages += advantages
    buffer.returns += advantages


def discounted_sums(
    rewards: Float[np.ndarray, "time envs"], is_first: Bool[np.ndarray, "time envs"], discount: float
) -> Float[np.ndarray, "time envs"]:
    """Returns the discounted sum of rewards from each step to the end of its episode, or of the rollout."""
    sums = np.zeros_like(rewards)
    next_sum = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        sums[t] = next_sum = rewards[t] + discount * next_sum
        next_sum = np.where(is_first[t], 0.0, next_sum)
    return sums

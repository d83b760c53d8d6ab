"""Intrinsic rewards for the agents of Stable-Baselines3.

For PPO, A2C and whatever else learns from rollouts, a callback:

    model.learn(1_000_000, callback=IntrinsicRewardCallback("gem"))

For DQN, SAC and whatever else replays, a buffer:

    model = DQN("MlpPolicy", env, replay_buffer_class=IntrinsicReplayBuffer)
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from gemax.environments.flattening import Flattening, batch_of_one, flattening_of
from gemax.integrations.learner import Learner, LearnerState, Steps, check_finite, learner
from gemax.integrations.modules import Method, module_for, numbered
from gemax.integrations.saving import load_learner, save_learner
from gemax.integrations.sb3_replay import IntrinsicDictReplayBuffer, IntrinsicReplayBuffer
from gemax.integrations.sb3_vec_env import GymnasiumVecEnv

__all__ = ["GymnasiumVecEnv", "IntrinsicDictReplayBuffer", "IntrinsicReplayBuffer", "IntrinsicRewardCallback"]

FEWEST_WORLDS = 8
"""With fewer, half of them are too few to contrast the others with: GEM remembers recent observations instead."""


class IntrinsicRewardCallback(BaseCallback):
    """Pays an on-policy agent for exploring: adds an intrinsic reward to every rollout before it is learned from.

    Args:
        method: The name of a method, or an `IntrinsicReward` of your own.
        replaces: Whether the intrinsic reward takes the place of the environment's, in place of being added to it.
        horizon: The longest episode that NGU, or GEM `per_episode`, remembers whole.
        time_feature: Which entry of an observation vector is the time, if one is: free entropy, and kept from GEM.
        seed: Of the networks of the intrinsic reward.
        verbose: As for every callback.
        settings: Fields of `gemax.training.config.Config` that concern the intrinsic reward; a wrong name is refused.
    """

    def __init__(
        self,
        method: Method = "gem",
        *,
        replaces: bool = False,
        horizon: int = 1000,
        time_feature: int | None = None,
        seed: int = 0,
        verbose: int = 0,
        **settings: Any,
    ):
        super().__init__(verbose)
        self.method, self.horizon, self.seed, self.settings = method, horizon, seed, settings
        self.replaces, self.time_feature = replaces, time_feature
        self.learned: LearnerState | None = None
        """All that the intrinsic reward has learned; None before training."""
        self._saved: Path | None = None
        self._trail: list[tuple[Any, ...]] = []

    def save(self, path: str | Path) -> None:
        """Saves what was learned beside a model: give the path that you give to `model.save`."""
        if self.learned is None:
            raise ValueError("there is nothing to save yet: the callback has not been used in a training.")
        save_learner(path, self.learned)

    def load(self, path: str | Path) -> None:
        """Goes on from what was saved beside a model, in the next training."""
        self._saved = Path(path)

    def _init_callback(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            raise ValueError(
                f"IntrinsicRewardCallback is for agents that learn from rollouts, such as PPO and A2C; got "
                f"{type(self.model).__name__}. Agents that replay take replay_buffer_class=IntrinsicReplayBuffer."
            )
        num_worlds = self.training_env.num_envs
        self._flattening: Flattening = flattening_of(self.model.observation_space)
        module = module_for(
            self.method,
            self._flattening.shape,
            self.model.action_space,
            horizon=self.horizon,
            few_worlds=num_worlds < FEWEST_WORLDS,
            time_feature=self.time_feature,
            settings=self.settings,
        )
        self._learner: Learner = learner(
            module, self._flattening.shape, num_worlds, anneal_updates=self.settings.get("anneal_updates", 0)
        )
        if self.learned is None:
            self.learned = self._learner.init(jax.random.key(self.seed))
        if self._saved is not None:
            self.learned = load_learner(self._saved, self.learned)
            self._saved = None

    def _on_rollout_start(self) -> None:
        self._trail = []

    def _on_step(self) -> bool:
        new_obs, rewards, dones, infos = (
            self.locals[name] for name in ("new_obs", "rewards", "dones", "infos")
        )
        arrived = self._flattening.flatten(new_obs)
        truncated = np.zeros(len(dones), bool)
        for i in np.flatnonzero(dones):
            # What stands in `new_obs` is the start of the next episode.
            arrived[i] = self._flattening.flatten(batch_of_one(infos[i]["terminal_observation"]))[0]
            truncated[i] = infos[i].get("TimeLimit.truncated", False)
        # A copy: the agent adds to the rewards of truncated episodes afterwards.
        self._trail.append((arrived, np.array(rewards, np.float32), dones & ~truncated, truncated))
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        assert self.learned is not None
        steps = self._steps(buffer)
        check_finite(
            steps, np.ones(steps.action.shape[1], bool), f"in the rollout before step {self.num_timesteps}"
        )
        paid, self.learned, metrics = self._learner.learn(self.learned, steps)
        paid = np.asarray(paid)
        add_to_rewards(buffer, paid - steps.reward if self.replaces else paid)
        for name, value in metrics.items():
            self.logger.record(f"intrinsic/{name}", float(value))
        self.logger.record("intrinsic/reward", float(paid.mean()))

    def _steps(self, buffer: RolloutBuffer) -> Steps:
        """The rollout in the buffer, and what only the environment's answers told."""
        arrived, reward, terminated, truncated = (
            np.stack(column) for column in zip(*self._trail, strict=True)
        )
        return Steps(
            seen=self._flattening.flatten(_steps_in_a_row(buffer.observations)).reshape(arrived.shape),
            arrived=arrived,
            action=numbered(self.model.action_space, buffer.actions, reward.shape),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            is_first=buffer.episode_starts.astype(bool),
        )


def _steps_in_a_row(observations: Any) -> Any:
    """From [time, worlds, ...] to [steps, ...]."""
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), observations)


def add_to_rewards(buffer: RolloutBuffer, paid: Float[np.ndarray, "time worlds"]) -> None:
    """Adds to the rewards of a rollout whose advantages and returns are there already, and have to follow.

    Advantages are sums of rewards, discounted by γλ, and of values, which stay: what is added to one is added to the
    other. No value has to be predicted again, which agents with a memory could not do from outside.
    """
    advantage = summed(paid, buffer.episode_starts.astype(bool), buffer.gamma * buffer.gae_lambda)
    buffer.rewards += paid
    buffer.advantages += advantage
    buffer.returns += advantage


def summed(
    paid: Float[np.ndarray, "time worlds"], is_first: Bool[np.ndarray, "time worlds"], decay: float
) -> Float[np.ndarray, "time worlds"]:
    """What each step earns from now to the end of its episode, or of the rollout, discounted."""
    total = np.zeros_like(paid)
    following = np.zeros_like(paid[0])
    for t in reversed(range(len(paid))):
        total[t] = following = paid[t] + decay * following
        following = np.where(is_first[t], 0.0, following)
    return total

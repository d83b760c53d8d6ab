"""Intrinsic rewards for the off-policy agents of Stable-Baselines3: DQN, SAC, TD3 and others.

    model = DQN("MlpPolicy", env, replay_buffer_class=IntrinsicReplayBuffer, replay_buffer_kwargs={"method": "gem"})

A stored intrinsic reward would be stale when it is replayed. So the reward of every batch is computed when the batch is
sampled, and the intrinsic reward learns from the batch. GEM then maximises the entropy of the states in the buffer.
"""

import inspect
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gemax.extras import require

try:
    from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
except ModuleNotFoundError:
    require("stable-baselines3", "IntrinsicReplayBuffer")
    raise

from gemax.integrations.build import Method, RewardOptions, action_indices, build_learner
from gemax.integrations.intrinsic_learner import LearnerState, host_transitions
from gemax.integrations.learner_checkpoint import (
    load_learner,
    save_learner,
    state_from_arrays,
    state_to_arrays,
)
from gemax.types import Transition


class IntrinsicReplayBuffer(ReplayBuffer):
    """A `ReplayBuffer` that adds an intrinsic reward to every sampled batch.

    Args:
        arguments: Arguments of `ReplayBuffer`. The agent passes them.
        method: The name of a method, or a custom `gemax.IntrinsicReward`. Not NGU or E3B, which need steps in order.
        replace_reward: Whether the intrinsic reward replaces that of the environment, instead of being added to it.
        time_feature: Index of the time in the observation vector, if any. It is hidden from the intrinsic reward.
        seed: Seed of the networks of the intrinsic reward.
        settings: Fields of `gemax.Config` that concern the intrinsic reward, and keyword arguments of `ReplayBuffer`.
    """

    def __init__(
        self,
        *arguments: Any,
        method: Method = "gem",
        replace_reward: bool = False,
        time_feature: int | None = None,
        seed: int = 0,
        **settings: Any,
    ):
        of_buffer = inspect.signature(ReplayBuffer).parameters
        super().__init__(*arguments, **{name: settings.pop(name) for name in of_buffer if name in settings})
        if method == "gem":
            settings = {"episodic_weight": 0.0, **settings}
        self.options = RewardOptions(method, settings, time_feature)
        self.replace_reward, self.seed = replace_reward, seed
        if method in ("ngu", "ngu-rnd", "e3b") or self.options.settings.get("episodic_weight"):
            raise ValueError(
                "ngu, ngu-rnd, e3b and gem with an episodic_weight need the steps of an episode in order, and a replay "
                "buffer samples them at random. Use gem without episodic_weight, rnd or re3."
            )
        if self.options.settings.get("negative_memory_size"):
            raise ValueError(
                "negative_memory_size must be 0 in a replay buffer, whose batches already have steps of many rollouts; "
                f"got {self.options.settings['negative_memory_size']}."
            )
        self._build()
        self.learner_state: LearnerState = self._learner.init(jax.random.key(seed))
        self.metrics: dict[str, float] = {}
        """Metrics of the last sampled batch. `IntrinsicMetricsCallback` logs them."""

    def _build(self) -> None:
        # The steps are sampled at random, so GEM can take its negatives from the other half of the batch.
        options = self.options
        if options.method == "gem":
            options = options._replace(settings={**options.settings, "negative_memory_size": 0})
        self._encoder, self._learner = build_learner(
            options, self.observation_space, self.action_space, num_envs=2, recent_negatives=False
        )

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Samples a batch, computes its intrinsic reward and learns from it."""
        samples = super().sample(batch_size, env)
        rewards, self.learner_state, metrics = self._learner.learn(
            self.learner_state, self._transitions(samples)
        )
        self.metrics = {name: float(value) for name, value in metrics.items()}
        self.metrics["reward"] = float(np.mean(rewards))
        intrinsic = self.to_torch(np.asarray(rewards).reshape(-1, 1))
        return samples._replace(rewards=intrinsic if self.replace_reward else samples.rewards + intrinsic)

    def save(self, path: str | Path) -> None:
        """Saves the intrinsic reward to the folder `PATH.intrinsic`. `path` can be that of a saved model."""
        save_learner(path, self.learner_state)

    def load(self, path: str | Path) -> None:
        """Loads the intrinsic reward that was saved beside a model."""
        self.learner_state = load_learner(path, self.learner_state)

    def _transitions(self, samples: Any) -> Transition:
        """Returns the batch as one step of `batch_size` environments. Episode starts and truncations are not known."""
        samples = jax.tree.map(lambda tensor: tensor.cpu().numpy(), samples)
        shape = (1, len(samples.rewards))
        never = np.zeros(shape, bool)
        return host_transitions(
            observation=self._encoder.encode(samples.observations)[None],
            next_observation=self._encoder.encode(samples.next_observations)[None],
            action=action_indices(self.action_space, samples.actions, shape),
            reward=samples.rewards.reshape(shape),
            terminated=samples.dones.reshape(shape) > 0,
            truncated=never,
            is_first=never,
        )

    def __getstate__(self) -> dict[str, Any]:
        # `save_replay_buffer` pickles the buffer. Compiled functions cannot be pickled and are built again.
        compiled = ("_learner", "_encoder", "learner_state")
        state = {name: value for name, value in vars(self).items() if name not in compiled}
        return {**state, "arrays": state_to_arrays(self.learner_state)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = state.pop("arrays")
        vars(self).update(state)
        self._build()
        self.learner_state = state_from_arrays(self._learner.init(jax.random.key(self.seed)), arrays)


class IntrinsicDictReplayBuffer(IntrinsicReplayBuffer, DictReplayBuffer):
    """An `IntrinsicReplayBuffer` for dictionary observations."""


class IntrinsicMetricsCallback(BaseCallback):
    """Logs the metrics of an `IntrinsicReplayBuffer` as `intrinsic/NAME`, with those of the agent.

    A replay buffer cannot reach the logger of its agent, so pass this to `learn`:

        model.learn(100_000, callback=IntrinsicMetricsCallback())
    """

    def _on_training_start(self) -> None:
        if not isinstance(getattr(self.model, "replay_buffer", None), IntrinsicReplayBuffer):
            raise ValueError(
                "IntrinsicMetricsCallback needs an agent with an IntrinsicReplayBuffer. PPO and other on-policy agents "
                "log with IntrinsicRewardCallback."
            )

    def _on_step(self) -> bool:
        buffer = getattr(self.model, "replay_buffer", None)
        assert isinstance(buffer, IntrinsicReplayBuffer)
        for name, value in buffer.metrics.items():
            self.logger.record(f"intrinsic/{name}", value)
        return True

"""Intrinsic rewards for the agents of Stable-Baselines3 that replay: DQN, SAC, TD3 and the like.

    model = DQN("MlpPolicy", env, replay_buffer_class=IntrinsicReplayBuffer, replay_buffer_kwargs={"method": "gem"})

An intrinsic reward that was stored with its step would be stale when it is replayed. So nothing is stored: every batch
is paid for when it is drawn, and learned from at the same time. What counts as visited is what the buffer holds.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from gemax.environments.flattening import flattening_of
from gemax.integrations.learner import LearnerState, Steps, learner
from gemax.integrations.modules import Method, module_for, numbered
from gemax.integrations.saving import arrays_of, load_learner, save_learner, with_arrays


class _Relabelling(ReplayBuffer):
    """What the two buffers have in common."""

    def __init__(
        self,
        *arguments: Any,
        method: Method = "gem",
        replaces: bool = False,
        time_feature: int | None = None,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        **buffer_settings: Any,
    ):
        super().__init__(*arguments, **buffer_settings)
        if method in ("ngu", "ngu-rnd"):
            raise ValueError(
                f"method {method} remembers episodes in order, and a replay buffer draws steps at random: use gem, rnd."
            )
        if (settings or {}).get("per_episode"):
            raise ValueError(
                "per_episode compares the visits of an episode in order, and a replay buffer draws steps at random: "
                "leave it out."
            )
        self.method, self.replaces, self.seed = method, replaces, seed
        self.time_feature, self.settings = time_feature, settings or {}
        self._build()
        self.learned: LearnerState = self._learner.init(jax.random.key(seed))
        self.metrics: dict[str, float] = {}

    def _build(self) -> None:
        self._flattening = flattening_of(self.observation_space)
        module = module_for(
            self.method,
            self._flattening.shape,
            self.action_space,
            horizon=1,
            few_worlds=False,
            time_feature=self.time_feature,
            settings=self.settings,
        )
        # Steps that were drawn at random are as good as steps of different worlds.
        self._learner = learner(
            module, self._flattening.shape, 2, anneal_updates=self.settings.get("anneal_updates", 0)
        )

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """A batch, paid for with what is known now."""
        samples = super().sample(batch_size, env)
        paid, self.learned, metrics = self._learner.learn(self.learned, self._steps(samples))
        self.metrics = {name: float(value) for name, value in metrics.items()}
        intrinsic = self.to_torch(np.asarray(paid).reshape(-1, 1))
        return samples._replace(rewards=intrinsic if self.replaces else samples.rewards + intrinsic)

    def save(self, path: str | Path) -> None:
        """Saves what was learned beside a model: give the path that you give to `model.save`."""
        save_learner(path, self.learned)

    def load(self, path: str | Path) -> None:
        """Goes on from what was saved beside a model."""
        self.learned = load_learner(path, self.learned)

    def _steps(self, samples: Any) -> Steps:
        """One step each of as many worlds as there are samples; nobody knows where their episodes started."""
        seen, arrived = (
            self._flattening.flatten(jax.tree.map(lambda tensor: tensor.cpu().numpy(), observations))
            for observations in (samples.observations, samples.next_observations)
        )
        shape = (1, len(arrived))
        return Steps(
            seen=seen[None],
            arrived=arrived[None],
            action=numbered(self.action_space, samples.actions.cpu().numpy(), shape),
            reward=samples.rewards.cpu().numpy().reshape(shape),
            terminated=samples.dones.cpu().numpy().reshape(shape) > 0,
            truncated=np.zeros(shape, bool),
            is_first=np.zeros(shape, bool),
        )

    def __getstate__(self) -> dict[str, Any]:
        # `save_replay_buffer` pickles. Compiled functions cannot be, and are built again.
        compiled = ("_learner", "_flattening", "learned")
        kept = {name: value for name, value in vars(self).items() if name not in compiled}
        return {**kept, "arrays": arrays_of(self.learned)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = state.pop("arrays")
        vars(self).update(state)
        self._build()
        self.learned = with_arrays(self._learner.init(jax.random.key(self.seed)), arrays)


class IntrinsicReplayBuffer(_Relabelling):
    """A `ReplayBuffer` that pays for exploring.

    Args:
        arguments: As for every buffer; the agent gives them.
        method: The name of a method, or an `IntrinsicReward` of your own. Not NGU, which needs steps in order.
        replaces: Whether the intrinsic reward takes the place of the environment's, in place of being added to it.
        time_feature: Which entry of an observation vector is the time, if one is: free entropy, and kept from GEM.
        seed: Of the networks of the intrinsic reward.
        settings: Fields of `gemax.training.config.Config` that concern the intrinsic reward; a wrong name is refused.
        buffer_settings: As for every buffer.
    """


class IntrinsicDictReplayBuffer(_Relabelling, DictReplayBuffer):
    """The same for observations in dictionaries."""

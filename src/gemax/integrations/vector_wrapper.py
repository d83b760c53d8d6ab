"""A Gymnasium vector wrapper that adds an intrinsic reward to every step, and learns from these steps."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, Float

from gemax.envs.host.autoreset import autoreset_mode, interpret_step, resets_next, where_env
from gemax.integrations.build import MIN_ENVS, Method, RewardOptions, action_indices, build_learner
from gemax.integrations.intrinsic_learner import check_finite, host_transitions
from gemax.integrations.learner_checkpoint import load_learner, save_learner
from gemax.integrations.step_rewards import StepRewards
from gemax.integrations.transitions import TransitionQueue
from gemax.types import Transition


class IntrinsicRewardWrapper(gymnasium.vector.VectorWrapper):
    """Adds an intrinsic reward to the reward of a vector environment.

    The intrinsic reward alone is in `infos["intrinsic_reward"]`.

    The reward of a step is computed when the step is taken. After every `rollout_length` steps of each environment, the
    intrinsic reward learns from them. Intrinsic rewards are zero before the first update.

    With `per_step=False`, `step` returns the rewards of the environment. Every `rollout_length` steps, the intrinsic
    rewards of these steps are computed together and are then in `rollout_rewards`. This is faster, for agents that
    learn from rollouts and can add the rewards to them.

    Apply wrappers that record returns before this one. Otherwise the returns include the intrinsic reward.

    Args:
        env: The vector environment. Its metadata must contain the autoreset mode.
        method: The name of a method, or a custom `gemax.IntrinsicReward`.
        replace_reward: Whether the intrinsic reward replaces that of the environment, instead of being added to it.
        rollout_length: Number of steps of each environment between two updates.
        per_step: Whether `step` returns intrinsic rewards. Otherwise they are computed once per rollout, and the
            environment must have the autoreset mode SAME_STEP.
        horizon: Maximum episode length. NGU and GEM remember at most this many steps of an episode.
        time_feature: Index of the time in the observation vector, if any. It is hidden from the intrinsic reward.
        seed: Seed of the networks of the intrinsic reward.
        settings: Fields of `gemax.Config` that concern the intrinsic reward.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        method: Method = "gem",
        *,
        replace_reward: bool = False,
        rollout_length: int = 32,
        per_step: bool = True,
        horizon: int = 1000,
        time_feature: int | None = None,
        seed: int = 0,
        **settings: Any,
    ):
        super().__init__(env)
        if rollout_length < 1:
            raise ValueError(f"rollout_length must be at least 1; got {rollout_length}.")
        if replace_reward and not per_step:
            raise ValueError(
                "replace_reward has no effect with per_step=False: add rollout_rewards yourself."
            )
        self.replace_reward = replace_reward
        self._has_reward, self._per_step = method != "none", per_step
        self.metrics: dict[str, float] = {}
        """Metrics of the last update."""
        self.rollout_rewards: Float[np.ndarray, "time envs"] | None = None
        """With `per_step=False`: intrinsic rewards of the rollout that the last step completed. None if it completed
        none."""
        self._mode = autoreset_mode(env)
        if not per_step and self._mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"per_step=False needs the autoreset mode SAME_STEP, where every step is a transition; got "
                f"{self._mode.name}. Make the environments with it, or leave per_step=True."
            )
        self._encoder, self._learner = build_learner(
            RewardOptions(method, settings, time_feature, horizon),
            env.single_observation_space,
            env.single_action_space,
            env.num_envs,
            # One step, or few environments, have too few states for negatives, so they come from recent episodes.
            recent_negatives=per_step or env.num_envs < MIN_ENVS,
            per_step=per_step,
        )
        # `_learned_state` is the state after the last update. `_step_rewards` also remembers the steps since then.
        self._learned_state = self._learner.init(jax.random.key(seed))
        self._step_rewards = StepRewards(self._learner, self._learned_state)
        self._rollout_length = rollout_length
        self._num_steps = 0
        self._forget_episodes()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in every environment, or where `options["reset_mask"]` is true.

        Args:
            seed: Passed to the environment: one seed, or one per environment.
            options: Passed to the environment. May contain `reset_mask`, a boolean array.
        """
        mask = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            # A copy, because Gymnasium's environments remove the mask from the options.
            mask = np.array(options["reset_mask"], bool)
        observations, infos = self.env.reset(seed=seed, options=options)
        observation = self._encoder.encode(observations)
        first = self._observation is None
        self._observation = observation if first else where_env(mask, observation, self._observation)
        self._is_first = self._is_first | mask
        self._resets_now = self._resets_now & ~mask
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes an action in every environment. Adds the intrinsic reward of the step."""
        if self._observation is None:
            raise ResetNeeded("There are no episodes yet: call reset() first.")
        result = self.env.step(actions)
        observations, rewards, terminated, truncated, infos = result
        self._num_steps += 1
        outcome = interpret_step(self._mode, self._encoder, self._resets_now, result)
        transitions = host_transitions(
            observation=self._observation[None],
            next_observation=outcome.next_observation[None],
            action=action_indices(self.single_action_space, actions, (1, self.num_envs)),
            reward=outcome.reward[None],
            terminated=outcome.terminated[None],
            truncated=outcome.truncated[None],
            is_first=self._is_first[None],
        )
        self._observation, self._is_first = outcome.current_observation, outcome.is_first
        self._resets_now = resets_next(self._mode, outcome)
        check_finite(transitions, outcome.is_valid, f"at step {self._num_steps}")
        if not self._per_step:
            self.rollout_rewards = self._rewards_of_rollout(transitions)
            return result
        intrinsic = self._intrinsic_reward(transitions, outcome.is_valid)
        # A copy, because the queue keeps the mask.
        infos = {**infos, "intrinsic_reward": intrinsic, "_intrinsic_reward": outcome.is_valid.copy()}
        total = intrinsic if self.replace_reward else np.asarray(rewards) + intrinsic
        return observations, total, terminated, truncated, infos

    def save(self, path: str | Path) -> None:
        """Saves the learned intrinsic reward to the folder `PATH.intrinsic`. `path` can be that of a saved model."""
        save_learner(path, self._learned_state)

    def load(self, path: str | Path) -> None:
        """Loads an intrinsic reward that `save` wrote. Discards the current episodes: call `reset` afterwards."""
        self._learned_state = load_learner(path, self._learned_state)
        self._step_rewards.restart(self._learned_state)
        self._forget_episodes()

    def _forget_episodes(self) -> None:
        self._queue = TransitionQueue(self.num_envs, self._rollout_length)
        self._observation: Any = None
        self._is_first = self._resets_now = np.zeros(self.num_envs, bool)

    def _intrinsic_reward(
        self, transitions: Transition, is_valid: Bool[np.ndarray, " envs"]
    ) -> Float[np.ndarray, " envs"]:
        if not self._has_reward or not is_valid.any():
            return np.zeros(self.num_envs)
        intrinsic = self._step_rewards(transitions, is_valid)
        self._queue.push(transitions, is_valid)
        rollout = self._queue.pop()
        if rollout is not None:
            self._learn(rollout)
        return intrinsic

    def _rewards_of_rollout(self, transitions: Transition) -> Float[np.ndarray, "time envs"] | None:
        """Adds a step. Returns the intrinsic rewards of the rollout if it is complete now."""
        self._queue.push(transitions, np.ones(self.num_envs, bool))
        rollout = self._queue.pop()
        if rollout is None:
            return None
        return self._learn(rollout) if self._has_reward else np.zeros((self._rollout_length, self.num_envs))

    def _learn(self, rollout: Transition) -> Float[np.ndarray, "time envs"]:
        """Learns from a rollout. Returns its intrinsic rewards."""
        rewards, self._learned_state, metrics = self._learner.learn(self._learned_state, rollout)
        self.metrics = {name: float(value) for name, value in metrics.items()}
        if self._per_step:
            self._step_rewards.restart(self._learned_state)
            if self._learner.has_memory:
                # The steps still in the queue belong to current episodes: add them to the new memory.
                for transitions, is_valid in self._queue.pending():
                    self._step_rewards(transitions, is_valid)
        return np.asarray(rewards, np.float64)

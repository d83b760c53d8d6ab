"""An intrinsic reward around any Gymnasium vector environment: it pays every step at once, and learns as it goes."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import ResetNeeded
from jaxtyping import Bool, Float

from gemax.environments.flattening import flattening_of
from gemax.environments.vector import autoreset_mode_of
from gemax.integrations.learner import Steps, check_finite, learner
from gemax.integrations.modules import Method, module_for, numbered
from gemax.integrations.saving import load_learner, save_learner
from gemax.integrations.transitions import Position, Queues, Told, started, stepped


class IntrinsicReward(gymnasium.vector.VectorWrapper):
    """Adds an intrinsic reward to what a vector environment pays. It is in `infos["intrinsic_reward"]` as well.

    Steps are paid with what is known when they are taken. Once every environment has `rollout_length` of them, the
    intrinsic reward learns from these. Nothing is paid before it did so for the first time.

    Wrappers that add up returns go inside of this one, or they count the intrinsic reward as well.

    Args:
        env: The environment. It has to tell its autoreset mode.
        method: The name of a method, or an `IntrinsicReward` of `gemax.rewards.base`, your own.
        replaces: Whether the intrinsic reward takes the place of the environment's, in place of being added to it.
        rollout_length: How many steps of each environment are learned from at a time.
        horizon: The longest episode that NGU, or GEM `per_episode`, remembers whole.
        time_feature: Which entry of an observation vector is the time, if one is: free entropy, and kept from GEM.
        seed: Of the networks of the intrinsic reward.
        settings: Fields of `gemax.training.config.Config` that concern the intrinsic reward; a wrong name is refused.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        method: Method = "gem",
        *,
        replaces: bool = False,
        rollout_length: int = 32,
        horizon: int = 1000,
        time_feature: int | None = None,
        seed: int = 0,
        **settings: Any,
    ):
        super().__init__(env)
        if rollout_length < 1:
            raise ValueError(f"rollout_length must be at least 1; got {rollout_length}.")
        self.replaces = replaces
        self._pays = method != "none"
        self.metrics: dict[str, float] = {}
        """Of the last rollout that was learned from."""
        self._mode = autoreset_mode_of(env)
        self._flattening = flattening_of(env.single_observation_space)
        module = module_for(
            method,
            self._flattening.shape,
            env.single_action_space,
            horizon=horizon,
            # One step at a time, other worlds are always too few.
            few_worlds=True,
            time_feature=time_feature,
            settings=settings,
        )
        self._learner = learner(
            module, self._flattening.shape, env.num_envs, anneal_updates=settings.get("anneal_updates", 0)
        )
        self._learned = self._learner.init(jax.random.key(seed))
        # Has learned as much, and remembers what has happened since.
        self._paying = self._learned
        self._rollout_length = rollout_length
        self._queues = Queues(env.num_envs, rollout_length)
        self._position: Position | None = None
        self._num_steps = 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in every environment, or where `options["reset_mask"]` is true.

        Args:
            seed: Whatever the environment takes: one, or one for each.
            options: May hold `reset_mask`, an array of truth values.
        """
        mask = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            # Gymnasium's own environments take the mask out of the options.
            mask = np.array(options["reset_mask"], bool)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._position = started(self._position, self._flattening.flatten(observations), mask)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes an action in every environment, and pays for where it led to."""
        if self._position is None:
            raise ResetNeeded("There are no episodes yet: call reset() first.")
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._num_steps += 1
        told = Told(self._flattening.flatten(observations), rewards, terminated, truncated, infos)
        action = numbered(self.single_action_space, actions, (1, self.num_envs))[0]
        steps, is_real, self._position = stepped(self._mode, self._flattening, self._position, action, told)
        paid = self._pay(steps, is_real)
        # A copy: the mask stays in the queues.
        infos = {**infos, "intrinsic_reward": paid, "_intrinsic_reward": is_real.copy()}
        mixed = paid if self.replaces else np.asarray(rewards) + paid
        return observations, mixed, terminated, truncated, infos

    def save(self, path: str | Path) -> None:
        """Saves what was learned beside a model of this path: a folder with `.intrinsic` in its name."""
        save_learner(path, self._learned)

    def load(self, path: str | Path) -> None:
        """Goes on from what was saved beside a model of this path. Episodes start anew: call `reset`."""
        self._learned = self._paying = load_learner(path, self._learned)
        self._position, self._queues = None, Queues(self.num_envs, self._rollout_length)

    def _pay(self, steps: Steps, is_real: Bool[np.ndarray, " worlds"]) -> Float[np.ndarray, " worlds"]:
        check_finite(steps, is_real, f"at step {self._num_steps}")
        if not self._pays or not is_real.any():
            return np.zeros(self.num_envs)
        paid, self._paying = self._learner.pay(self._paying, steps, is_real)
        self._queues.push(steps, is_real)
        rollout = self._queues.pop()
        if rollout is not None:
            self._learn(rollout)
        return np.asarray(paid, np.float64)

    def _learn(self, rollout: Steps) -> None:
        _, self._learned, metrics = self._learner.learn(self._learned, rollout)
        self.metrics = {name: float(value) for name, value in metrics.items()}
        self._paying = self._learned
        if self._learner.remember is not None:
            for steps, is_real in self._queues.waiting():
                self._paying = self._learner.remember(self._paying, steps, is_real)

"""Gymnasium's vector environments for Stable-Baselines3, which has vector environments of its own.

It would step single environments one after the other. All worlds of gemax step in one compiled call.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from gemax.environments.vector import autoreset_mode_of


class GymnasiumVecEnv(VecEnv):
    """A vector environment of Gymnasium, in the autoreset mode `SAME_STEP`, which is what Stable-Baselines3 expects."""

    def __init__(self, envs: gymnasium.vector.VectorEnv):
        mode = autoreset_mode_of(envs)
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"autoreset_mode must be SAME_STEP for Stable-Baselines3; got {mode.name}. Make the "
                'environments with autoreset_mode="SameStep".'
            )
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Starts an episode in every environment, with the seeds that `seed` has set."""
        # Gymnasium's own vector environments take a seed for each environment; their base class does not say so.
        seeds: Any = None if None in self._seeds else self._seeds
        observations, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Keeps the actions until `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Takes the actions. Last observations of episodes are in the infos, as Stable-Baselines3 has them."""
        observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        dones = terminated | truncated
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(dones):
            told[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
            }
        return observations, np.asarray(rewards, np.float32), dones, told

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector environment, once for each asked."""
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not possible: there are no single environments."""
        raise NotImplementedError(f"cannot set {attr_name!r}: there are no single environments to set it in.")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Not possible: there are no single environments."""
        raise NotImplementedError(
            f"cannot call {method_name!r}: there are no single environments to call it in."
        )

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None) -> list[bool]:
        """Never: there are no single environments."""
        return [False for _ in self._get_indices(indices)]

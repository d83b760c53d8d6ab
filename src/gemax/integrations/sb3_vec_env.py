"""Converts Gymnasium vector environments to the `VecEnv` of Stable-Baselines3.

`DummyVecEnv` steps single environments one after the other. A vector environment of gemax steps all of them at once.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from gemax.envs.host.autoreset import autoreset_mode
from gemax.extras import require

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError:
    require("stable-baselines3", "GymnasiumVecEnv")
    raise


class GymnasiumVecEnv(VecEnv):
    """A `VecEnv` around a Gymnasium vector environment.

    Args:
        envs: The vector environment, with the autoreset mode SAME_STEP.
    """

    def __init__(self, envs: gymnasium.vector.VectorEnv):
        mode = autoreset_mode(envs)
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"autoreset_mode must be SAME_STEP for Stable-Baselines3; got {mode.name}. Make the "
                'environments with autoreset_mode="SameStep".'
            )
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Starts an episode in every environment, with the seeds of the last call of `seed`."""
        # Gymnasium's vector environments accept one seed per environment, but the type of their base class does not.
        seeds: Any = None if None in self._seeds else self._seeds
        observations, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Stores the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Takes the stored actions. When an episode ends, its info has the terminal observation."""
        observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        dones = terminated | truncated
        env_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(dones):
            is_truncated = bool(truncated[i] and not terminated[i])
            env_infos[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": is_truncated,
            }
        return observations, np.asarray(rewards, np.float32), dones, env_infos

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns an attribute of the vector environment, once per requested environment."""
        return [getattr(self.envs, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raises NotImplementedError, because there are no single environments."""
        raise NotImplementedError(f"cannot set {attr_name!r}: there are no single environments.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Raises NotImplementedError, because there are no single environments."""
        raise NotImplementedError(f"cannot call {method_name!r}: there are no single environments.")

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None) -> list[bool]:
        """Returns False for each environment, because there are no single environments."""
        return [False for _ in self._get_indices(indices)]

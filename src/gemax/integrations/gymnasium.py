"""The gemax environments as Gymnasium environments: one at a time, or many in one compiled call.

Importing this module registers the ids, from `gemax/TwoRooms-v0` to `gemax/Map-v0`. Single and vector environments give
the same episodes for the same seeds: each environment has a NumPy generator, each episode draws a key from it, and
each step adds one to the key.
"""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from gemax.envs.base import JaxEnv
from gemax.extras import require

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.error import InvalidAction, ResetNeeded, UnsupportedMode
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    require("gymnasium", "gemax.integrations.gymnasium")
    raise

from gemax.integrations.compiled_env import CompiledEnv, EpisodeState, compiled_env
from gemax.integrations.registration import gymnasium_id, register_envs
from gemax.integrations.render_window import RenderWindow, missing_requirement
from gemax.settings import did_you_mean

if TYPE_CHECKING:
    from gemax.integrations.vector_wrapper import IntrinsicRewardWrapper

__all__ = ["GemaxEnv", "GemaxVectorEnv", "IntrinsicRewardWrapper"]

register_envs()


def __getattr__(name: str) -> Any:
    """Imports `IntrinsicRewardWrapper` on first use, because the environments alone need no networks."""
    if name == "IntrinsicRewardWrapper":
        return importlib.import_module("gemax.integrations.vector_wrapper").IntrinsicRewardWrapper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CompiledEpisodes:
    """Base class of the single and the vector environment, with the compiled functions and the current episodes."""

    _compiled: CompiledEnv
    _episode: EpisodeState | None = None
    """The current episodes. None before the first reset."""

    @property
    def jax_env(self) -> JaxEnv:
        """The environment as pure functions, with its spec."""
        return self._compiled.env

    def _current(self) -> EpisodeState:
        if self._episode is None:
            raise ResetNeeded("There is no episode yet: call reset() first.")
        return self._episode

    def _observation(self) -> np.ndarray:
        # A copy, because JAX arrays are read-only. The dtype is given, because JAX may be set to 64 bits.
        return np.array(self._current().timestep.observation, self.jax_env.spec.observation.dtype)


class GemaxEnv(_CompiledEpisodes, gymnasium.Env[np.ndarray, np.int64]):
    """One environment, stepped from Python.

    Args:
        env_id: Name in `gemax.envs.registry`, or `map`.
        render_mode: `rgb_array` for images, `human` for a window, None for neither.
        settings: Arguments of the environment's factory.
    """

    # `gymnasium.make` reads this. The metadata of an instance contains `human` only if it can open a window.
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 8}  # noqa: RUF012 (as in Gymnasium)

    # `gymnasium.make` passes settings as keywords. `compiled_env` checks them.
    def __init__(self, env_id: str, render_mode: str | None = None, **settings: Any):
        if render_mode not in (None, *GemaxEnv.metadata["render_modes"]):
            raise UnsupportedMode(f"render_mode must be 'rgb_array', 'human' or None; got {render_mode!r}.")
        self._compiled = compiled_env(env_id, settings)
        self._is_over = False
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(self.jax_env)
        modes = ["rgb_array"] if missing_requirement() else ["human", "rgb_array"]
        self.metadata = {"render_modes": modes, "render_fps": _fps(self.jax_env)}
        self._window = (
            RenderWindow(gymnasium_id(env_id), _fps(self.jax_env)) if render_mode == "human" else None
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode. Without a seed, the generator continues."""
        super().reset(seed=seed)
        self._episode = self._compiled.reset(_draw_key(self.np_random))
        self._is_over = False
        self._show()
        return self._observation(), self._info()

    def step(
        self, action: np.ndarray | np.integer | int
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes an action. The last observation of an episode is the terminal one."""
        if self._is_over:
            raise ResetNeeded("The episode is over: call reset() before the next step().")
        if not self.action_space.contains(action):
            raise InvalidAction(
                f"action must be 0..{self.jax_env.spec.num_actions - 1}; got {action} of type {type(action).__name__}."
            )
        current = self._current()
        self._episode = self._compiled.step(current.key, current.state, np.int32(action))
        reward, terminated, truncated = map(_item, self._episode.timestep[1:])
        self._is_over = terminated or truncated
        self._show()
        return self._observation(), reward, terminated, truncated, self._info()

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Returns an image of the state in the mode `rgb_array`. In the mode `human`, `step` updates the window."""
        if self.render_mode is None:
            _warn_about_render_mode()
        return self.jax_env.render(self._current().state) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self.jax_env.render(self._current().state))

    def _info(self) -> dict[str, Any]:
        return {name: _item(index) for name, index in self._current().info.items()}


class GemaxVectorEnv(_CompiledEpisodes, gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Several copies of an environment, stepped in one compiled call.

    Observations, rewards, flags and infos have the layout of Gymnasium's `SyncVectorEnv`, and the same values for the
    same seeds.

    Args:
        env_id: Name in `gemax.envs.registry`, or `map`.
        num_envs: Number of copies.
        render_mode: `rgb_array` for an image of each copy, or None.
        autoreset_mode: When a copy starts the next episode; see Gymnasium's `AutoresetMode`.
        settings: Arguments of the environment's factory.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 (as in Gymnasium)

    # `gymnasium.make_vec` passes settings as keywords. `compiled_env` checks them.
    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **settings: Any,
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1; got {num_envs}.")
        if render_mode not in (None, "rgb_array"):
            raise UnsupportedMode(
                f"render_mode must be 'rgb_array' or None; got {render_mode!r}. A window shows one environment: "
                "use gymnasium.make."
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self._compiled = compiled_env(env_id, settings)
        self._is_over = np.zeros(num_envs, bool)
        self._generators = [seeding.np_random() for _ in range(num_envs)]
        self.single_observation_space, self.single_action_space = _spaces(self.jax_env)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": _fps(self.jax_env),
            "autoreset_mode": self.autoreset_mode,
        }

    # The base class has one generator for all environments, Gymnasium's own vector environments one for each.
    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The generator of each environment."""
        return tuple(generator for generator, _ in self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed of each generator."""
        return tuple(seed for _, seed in self._generators)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode in every environment, or where `options["reset_mask"]` is true.

        Args:
            seed: One seed per environment, or the first of consecutive seeds. Without one, the generators continue.
            options: May contain `reset_mask`, a boolean array. It is not removed, so that wrappers can read it.
        """
        mask = self._reset_mask(options)
        seeds = self._seeds(seed)
        for i in np.flatnonzero(mask).tolist():
            if seeds[i] is not None:
                self._generators[i] = seeding.np_random(seeds[i])
        self._reset_where(mask)
        self._is_over = self._is_over & ~mask
        return self._observation(), self._infos(mask)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes an action in every environment. The autoreset mode determines when ended episodes are reset."""
        current = self._current()
        if self.autoreset_mode is AutoresetMode.DISABLED and self._is_over.any():
            raise ResetNeeded(
                f"The episodes of environments {np.flatnonzero(self._is_over).tolist()} are over: start new ones with "
                "reset(options={'reset_mask': terminated | truncated})."
            )
        self._episode = self._compiled.step_all(current.key, current.state, self._checked_actions(actions))
        if self._is_over.any():
            # NEXT_STEP: this step is the reset of the ended episodes, with reward 0 and both flags false.
            self._reset_where(self._is_over)
        timestep = self._current().timestep
        rewards = np.array(timestep.reward, np.float64)
        terminated, truncated = np.array(timestep.terminated), np.array(timestep.truncated)
        self._is_over = terminated | truncated
        final_infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._is_over.any():
            final_infos = self._final_infos(self._is_over)
            self._reset_where(self._is_over)
            self._is_over = np.zeros(self.num_envs, bool)
        infos = self._infos(np.ones(self.num_envs, bool)) | final_infos
        return self._observation(), rewards, terminated, truncated, infos

    def render(self) -> tuple[UInt8[np.ndarray, "height width 3"], ...] | None:
        """Returns one image per environment in the mode `rgb_array`."""
        if self.render_mode is None:
            return _warn_about_render_mode()
        states = jax.device_get(self._current().state)
        return tuple(
            self.jax_env.render(jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(self.num_envs)
        )

    def _reset_where(self, mask: Bool[np.ndarray, " num_envs"]) -> None:
        """Starts episodes where the mask is true. Only their generators advance."""
        if self._episode is None and not mask.all():
            raise ResetNeeded("There are no episodes yet: the first reset() takes no reset_mask.")
        keys = np.zeros((self.num_envs, 2), np.uint32)
        for i in np.flatnonzero(mask).tolist():
            keys[i] = _draw_key(self._generators[i][0])
        if self._episode is None:
            self._episode = self._compiled.reset_all(keys)
        else:
            self._episode = self._compiled.reset_where(mask, keys, self._episode)

    def _checked_actions(self, actions: np.ndarray) -> Int[np.ndarray, " num_envs"]:
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or not np.issubdtype(actions.dtype, np.integer):
            raise InvalidAction(
                f"actions must be {self.num_envs} integers, one for each environment; got shape {actions.shape} "
                f"of {actions.dtype}."
            )
        num_actions = self.jax_env.spec.num_actions
        wrong = np.flatnonzero((actions < 0) | (actions >= num_actions))
        if wrong.size:
            raise InvalidAction(
                f"action must be 0..{num_actions - 1}; got {actions[wrong[0]]} for environment {wrong[0]}."
            )
        return actions.astype(np.int32)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None or isinstance(seed, int):
            return [seed if seed is None else seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(
                f"seed must hold {self.num_envs} seeds, one for each environment; got {len(seed)}."
            )
        return seed

    def _reset_mask(self, options: dict[str, Any] | None) -> Bool[np.ndarray, " num_envs"]:
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must be {self.num_envs} booleans, at least one of them true; got {mask}."
            )
        return mask

    def _infos(self, mask: Bool[np.ndarray, " num_envs"]) -> dict[str, Any]:
        """Returns infos in Gymnasium's layout: for each name an array, 0 where the mask is false, and the mask."""
        infos: dict[str, Any] = {}
        for name, index in self._current().info.items():
            infos[name], infos[f"_{name}"] = np.where(mask, index, 0).astype(np.int64), mask.copy()
        return infos

    def _final_infos(self, is_over: Bool[np.ndarray, " num_envs"]) -> dict[str, Any]:
        """Returns the last observations and infos of ended episodes, in the layout of Gymnasium's SAME_STEP mode."""
        final_obs = np.full(self.num_envs, None, object)
        observation = self._observation()
        for i in np.flatnonzero(is_over):
            final_obs[i] = observation[i].copy()
        return {
            "final_obs": final_obs,
            "_final_obs": is_over.copy(),
            "final_info": self._infos(is_over),
            "_final_info": is_over.copy(),
        }


def _draw_key(generator: np.random.Generator) -> UInt32[np.ndarray, "2"]:
    return generator.integers(2**32, size=2, dtype=np.uint32)


def _item(scalar: Array) -> Any:
    # Several times faster than `float(scalar)`.
    return np.asarray(scalar).item()


def _fps(env: JaxEnv) -> int:
    # Slow enough to follow each move on a map. A step of physics is about a hundredth of a second.
    return 50 if env.finite is None else 8


def _spaces(env: JaxEnv) -> tuple[spaces.Box, spaces.Discrete]:
    low, high = env.spec.observation
    return spaces.Box(low, high, dtype=low.dtype.type), spaces.Discrete(env.spec.num_actions)


def _warn_about_render_mode() -> None:
    gymnasium.logger.warn(
        "render() returns nothing without a render mode. Make the environment with render_mode='rgb_array'."
    )


def _autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    modes = {member.value: member for member in AutoresetMode}
    if isinstance(mode, str) and mode not in modes:
        raise ValueError(
            f"autoreset_mode must be one of {', '.join(modes)}; got {mode!r}.{did_you_mean(mode, modes)}"
        )
    return AutoresetMode(mode)

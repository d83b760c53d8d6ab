"""The worlds as Gymnasium environments: one at a time, or many in one compiled call.

Importing this module registers the ids, from `gemax/TwoRooms-v0` to `gemax/Map-v0`. Both kinds of environment follow
the same rule for randomness, so the same seed gives the same episodes in either: each environment has a NumPy
generator, each episode draws a key from it, and each step counts that key up.
"""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded, UnsupportedMode
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from gemax.integrations.compiled import Moment, compiled_world, nearest
from gemax.integrations.registration import environment_id, register_worlds
from gemax.integrations.window import Window, missing_for_a_window
from gemax.worlds.base import World

if TYPE_CHECKING:
    from gemax.integrations.vector_wrapper import IntrinsicReward

__all__ = ["IntrinsicReward", "WorldEnv", "WorldVectorEnv"]

register_worlds()


def __getattr__(name: str) -> Any:
    """`IntrinsicReward`, imported when it is first asked for: whoever wants worlds only needs no networks."""
    if name == "IntrinsicReward":
        return importlib.import_module("gemax.integrations.vector_wrapper").IntrinsicReward
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _episode_key(generator: np.random.Generator) -> UInt32[np.ndarray, "2"]:
    return generator.integers(2**32, size=2, dtype=np.uint32)


def _number(scalar: Array) -> Any:
    # Several times faster than `float(scalar)`.
    return np.asarray(scalar).item()


def _pictures_per_second(world: World) -> int:
    # A step on a map is a decision to look at; a step of physics is a hundredth of a second or so.
    return 50 if world.finite is None else 8


def _observation_space(world: World) -> gymnasium.spaces.Box:
    low, high = world.observation
    return gymnasium.spaces.Box(low, high, dtype=low.dtype.type)


class WorldEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One world, stepped from Python.

    Args:
        world: The name of the world, as in `gemax.worlds.registry`, or `map`.
        render_mode: `rgb_array` for pictures, `human` for a window, None for neither.
        settings: The arguments of the world's factory.
    """

    # What `gymnasium.make` looks at. An environment tells in its own metadata whether it could open a window.
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 8}  # noqa: RUF012 (as Gymnasium has it)

    # Settings come as keywords because that is how `gymnasium.make` hands them over. They are checked one by one.
    def __init__(self, world: str, render_mode: str | None = None, **settings: Any):
        if render_mode not in (None, *WorldEnv.metadata["render_modes"]):
            raise UnsupportedMode(f"render_mode must be 'rgb_array', 'human' or None; got {render_mode!r}.")
        self._compiled = compiled_world(world, settings)
        self._moment: Moment | None = None
        self._is_over = False
        self.render_mode = render_mode
        self.observation_space = _observation_space(self.world)
        self.action_space = gymnasium.spaces.Discrete(self.world.num_actions)
        fps = _pictures_per_second(self.world)
        modes = ["rgb_array"] if missing_for_a_window() else ["human", "rgb_array"]
        self.metadata = {"render_modes": modes, "render_fps": fps}
        self._window = Window(environment_id(world), fps) if render_mode == "human" else None

    @property
    def world(self) -> World:
        """The world behind the environment: its horizon, and what it knows about itself."""
        return self._compiled.world

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode. The same seed starts the same one; without a seed the generator goes on."""
        super().reset(seed=seed)
        self._moment = self._compiled.begin(_episode_key(self.np_random))
        self._is_over = False
        self._show()
        return self._observation(self._moment), self._info(self._moment)

    def step(
        self, action: np.ndarray | np.integer | int
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes an action. The last observation of an episode is the terminal one."""
        if self._is_over:
            raise ResetNeeded("The episode is over: call reset() before the next step().")
        if not self.action_space.contains(action):
            raise InvalidAction(
                f"action must be 0..{self.world.num_actions - 1}; got {action} of type {type(action).__name__}."
            )
        before = self._begun()
        self._moment = self._compiled.proceed(before.key, before.state, np.int32(action))
        timestep = self._moment.timestep
        terminated, truncated = _number(timestep.terminated), _number(timestep.truncated)
        self._is_over = terminated or truncated
        self._show()
        observation, info = self._observation(self._moment), self._info(self._moment)
        return observation, _number(timestep.reward), terminated, truncated, info

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """The state as a picture, in the mode `rgb_array`. A window shows every step without being asked."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() shows nothing without a render mode: make the environment with render_mode='rgb_array'."
            )
        return self.world.picture(self._begun().state) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def _begun(self) -> Moment:
        if self._moment is None:
            raise ResetNeeded("There is no episode yet: call reset() first.")
        return self._moment

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self.world.picture(self._begun().state))

    def _observation(self, moment: Moment) -> np.ndarray:
        # A copy, since what jax hands out cannot be written to; cast, since jax may be set to 64 bits.
        return np.array(moment.timestep.observation, self.observation_space.dtype)

    def _info(self, moment: Moment) -> dict[str, Any]:
        return {name: _number(index) for name, index in moment.info.items()}


class WorldVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of a world: a step of all is one compiled call, and one more where episodes start.

    Observations, rewards, flags and infos are laid out as by Gymnasium's `SyncVectorEnv`, and with the same seeds they
    are those that it would get from single environments.

    Args:
        world: The name of the world, as in `gemax.worlds.registry`, or `map`.
        num_envs: How many copies.
        render_mode: `rgb_array` for a picture of each, or None.
        autoreset_mode: When a copy whose episode is over starts the next one; see Gymnasium's `AutoresetMode`.
        settings: The arguments of the world's factory.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 (as Gymnasium has it)

    # Settings come as keywords because that is how `gymnasium.make_vec` hands them over. They are checked one by one.
    def __init__(
        self,
        world: str,
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
        self._compiled = compiled_world(world, settings)
        self._moment: Moment | None = None
        self._is_over = np.zeros(num_envs, bool)
        self._generators = [seeding.np_random() for _ in range(num_envs)]
        self.single_observation_space = _observation_space(self.world)
        self.single_action_space = gymnasium.spaces.Discrete(self.world.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": _pictures_per_second(self.world),
            "autoreset_mode": self.autoreset_mode,
        }

    @property
    def world(self) -> World:
        """The world behind the environments: its horizon, and what it knows about itself."""
        return self._compiled.world

    # One generator each, as in Gymnasium's own vector environments, whose base class has one for all.
    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The generators that episodes draw their keys from, one for each environment."""
        return tuple(generator for generator, _ in self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed of each generator."""
        return tuple(seed for _, seed in self._generators)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode in every environment, or where `options["reset_mask"]` is true.

        Args:
            seed: One for each environment, or the first of consecutive ones. None lets the generators go on.
            options: May hold `reset_mask`, an array of truth values. It is not changed, so that wrappers see it too.
        """
        mask = self._reset_mask(options)
        seeds = self._seeds(seed)
        for i in np.flatnonzero(mask).tolist():
            if seeds[i] is not None:
                self._generators[i] = seeding.np_random(seeds[i])
        self._moment = self._start(self._moment, mask)
        self._is_over = self._is_over & ~mask
        return self._observation(self._moment), self._infos(self._moment, mask)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes an action in every environment. What happens at the end of an episode is up to the autoreset mode."""
        moment = self._begun()
        if self.autoreset_mode is AutoresetMode.DISABLED and self._is_over.any():
            raise ResetNeeded(
                f"The episodes of environments {np.flatnonzero(self._is_over).tolist()} are over: start new ones with "
                "reset(options={'reset_mask': terminated | truncated})."
            )
        moment = self._compiled.proceed_all(moment.key, moment.state, self._checked(actions))
        if self._is_over.any():
            # NEXT_STEP: where an episode was over, this step is the reset. Its reward is 0 and its flags are false.
            moment = self._start(moment, self._is_over)
        timestep = moment.timestep
        rewards = np.array(timestep.reward, np.float64)
        terminated, truncated = np.array(timestep.terminated), np.array(timestep.truncated)
        self._is_over = terminated | truncated
        final: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._is_over.any():
            final = self._final(moment, self._is_over)
            moment = self._start(moment, self._is_over)
            self._is_over = np.zeros(self.num_envs, bool)
        self._moment = moment
        infos = self._infos(moment, np.ones(self.num_envs, bool)) | final
        return self._observation(moment), rewards, terminated, truncated, infos

    def render(self) -> tuple[UInt8[np.ndarray, "height width 3"], ...] | None:
        """A picture of every environment, in the mode `rgb_array`."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() shows nothing without a render mode: make the environments with render_mode='rgb_array'."
            )
            return None
        states = jax.device_get(self._begun().state)
        return tuple(
            self.world.picture(jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(self.num_envs)
        )

    def _begun(self) -> Moment:
        if self._moment is None:
            raise ResetNeeded("There are no episodes yet: call reset() first.")
        return self._moment

    def _start(self, moment: Moment | None, mask: Bool[np.ndarray, " num_envs"]) -> Moment:
        """New episodes where the mask says so. Only their generators move on."""
        if moment is None and not mask.all():
            raise ResetNeeded("There are no episodes yet: the first reset() takes no reset_mask.")
        keys = np.zeros((self.num_envs, 2), np.uint32)
        for i in np.flatnonzero(mask).tolist():
            keys[i] = _episode_key(self._generators[i][0])
        if moment is None:
            return self._compiled.begin_all(keys)
        return self._compiled.restart(moment, mask, keys)

    def _checked(self, actions: np.ndarray) -> Int[np.ndarray, " num_envs"]:
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or not np.issubdtype(actions.dtype, np.integer):
            raise InvalidAction(
                f"actions must be {self.num_envs} whole numbers, one for each environment; got shape {actions.shape} "
                f"of {actions.dtype}."
            )
        wrong = np.flatnonzero((actions < 0) | (actions >= self.world.num_actions))
        if wrong.size:
            raise InvalidAction(
                f"action must be 0..{self.world.num_actions - 1}; got {actions[wrong[0]]} for environment {wrong[0]}."
            )
        return actions.astype(np.int32)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            return [seed + i for i in range(self.num_envs)]
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
                f"options['reset_mask'] must be {self.num_envs} truth values, at least one of them true; got {mask}."
            )
        return mask

    def _observation(self, moment: Moment) -> np.ndarray:
        # A copy, since what jax hands out cannot be written to; cast, since jax may be set to 64 bits.
        return np.array(moment.timestep.observation, self.observation_space.dtype)

    def _infos(self, moment: Moment, mask: Bool[np.ndarray, " num_envs"]) -> dict[str, Any]:
        """Gymnasium's layout: an array of values, 0 where there is none, and a mask of where there is one."""
        infos: dict[str, Any] = {}
        for name, index in moment.info.items():
            infos[name], infos[f"_{name}"] = np.where(mask, index, 0).astype(np.int64), mask.copy()
        return infos

    def _final(self, moment: Moment, is_over: Bool[np.ndarray, " num_envs"]) -> dict[str, Any]:
        """What SAME_STEP would lose: the terminal observations, and their infos."""
        observations = np.full(self.num_envs, None, object)
        arrived = np.asarray(moment.timestep.observation)
        for i in np.flatnonzero(is_over):
            observations[i] = np.array(arrived[i], self.observation_space.dtype)
        return {
            "final_obs": observations,
            "_final_obs": is_over.copy(),
            "final_info": self._infos(moment, is_over),
            "_final_info": is_over.copy(),
        }


def _autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    known = {member.value: member for member in AutoresetMode}
    if isinstance(mode, str) and mode not in known:
        raise ValueError(
            f"autoreset_mode must be one of {', '.join(known)}; got {mode!r}.{nearest(mode, known)}"
        )
    return AutoresetMode(mode)

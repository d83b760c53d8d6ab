"""Checks the results of every reset and step: observations in their space, finite rewards. Gymnasium does not.

Worker processes import this module, so it does not import JAX.
"""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from gemax.envs.host.faults import describe_exception
from gemax.errors import EnvFault

SpaceCheck: TypeAlias = Callable[[Any], str | None]
"""Returns the error message for an invalid observation, and None for a valid one."""

TOLERANCE = 1e-5
"""Floats may exceed their bounds by this share of the range, because of rounding."""
MAX_FLOAT32 = float(np.finfo(np.float32).max)
"""Larger numbers would become infinite in the agent."""


def space_check(space: Space, name: str = "observation") -> SpaceCheck:
    """Returns the check of a single or batched space. Spaces that the agent cannot observe are not checked."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _parts_check(space, name)
    if isinstance(space, spaces.Discrete):
        return _integer_check(space, name)
    if isinstance(space, spaces.MultiDiscrete):
        space = spaces.Box(space.start, space.start + space.nvec - 1, space.shape, np.int64)
    if isinstance(space, spaces.MultiBinary):
        space = spaces.Box(0, 1, space.shape, np.int8)
    return _box_check(space, name) if isinstance(space, spaces.Box) else lambda observation: None


def _parts_check(space: Any, name: str) -> SpaceCheck:
    """Returns the check of a dict or tuple space. It returns the message of the first invalid part."""
    is_dict = isinstance(space, spaces.Dict)
    parts: dict[Any, Space] = dict(space.spaces) if is_dict else dict(enumerate(space.spaces))
    checks = {key: space_check(part, f"{name}[{key!r}]") for key, part in parts.items()}

    def check(observation: Any) -> str | None:
        if is_dict and not (isinstance(observation, dict) and observation.keys() == parts.keys()):
            got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
            return f"{name} must be a dict of {', '.join(map(str, parts))}; got {got}"
        if not is_dict and not (isinstance(observation, tuple) and len(observation) == len(parts)):
            return f"{name} must be a tuple of {len(parts)}; got {type(observation).__name__}"
        for key, check_part in checks.items():
            if (problem := check_part(observation[key])) is not None:
                return problem
        return None

    return check


def _integer_check(space: spaces.Discrete, name: str) -> SpaceCheck:
    low, high = int(space.start), int(space.start + space.n - 1)
    check_array = _box_check(spaces.Box(low, high, (), np.int64), name)

    def check(observation: Any) -> str | None:
        # The comparison of arrays takes many times as long.
        is_valid = type(observation) in (int, np.int64) and low <= observation <= high
        return None if is_valid else check_array(observation)

    return check


def _box_check(space: spaces.Box, name: str) -> SpaceCheck:
    tolerance, is_full_range, shape, dtype = 0, False, space.shape, space.dtype
    if np.issubdtype(space.dtype, np.floating):
        is_bounded = np.isfinite(space.high) & np.isfinite(space.low)
        with np.errstate(over="ignore", invalid="ignore"):
            tolerance = np.where(is_bounded, TOLERANCE * (space.high - space.low), 0)
    else:
        limits = np.iinfo(str(space.dtype))
        is_full_range = bool(np.all(space.low == limits.min) and np.all(space.high == limits.max))

    def check(observation: Any) -> str | None:
        array = np.asarray(observation)
        if is_full_range and array.dtype == dtype and array.shape == shape:
            return None
        if array.shape != space.shape:
            return f"{name} must have the shape {space.shape}; got {array.shape}"
        if array.dtype != space.dtype and not np.can_cast(array.dtype, space.dtype, "same_kind"):
            return f"{name} must be {space.dtype}; got {array.dtype}"
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{name} must be finite; got {_first_entry(array, ~np.isfinite(array))}"
        if array.dtype == np.float64 and (np.abs(array) > MAX_FLOAT32).any():
            return f"{name} must fit into float32; got {_first_entry(array, np.abs(array) > MAX_FLOAT32)}"
        is_outside = (array < space.low - tolerance) | (array > space.high + tolerance)
        if not is_outside.any():
            return None
        index = tuple(np.argwhere(is_outside)[0])
        bounds = f"from {space.low[index]} to {space.high[index]}"
        return f"{name} must lie in its space, {bounds}; got {_first_entry(array, is_outside)}"

    return check


def _first_entry(array: np.ndarray, is_wrong: np.ndarray | np.bool_) -> str:
    """Returns the first wrong entry and its index, as text. Comparisons of arrays without axes are no arrays."""
    index = tuple(int(i) for i in np.argwhere(is_wrong)[0])
    return f"{array[index]}" + (f" at {list(index)}" if index else "")


class CheckedEnv(gymnasium.Wrapper):
    """Raises a fault if a result is not valid. The message contains the environment, step and value."""

    def __init__(self, env: gymnasium.Env, index: int) -> None:
        super().__init__(env)
        self._index, self._steps, self._episodes = index, 0, 0
        self._seed, self._action = None, None
        self._check = space_check(env.observation_space)
        self.is_busy = False
        """Whether the environment is executing a call."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode. Returns observation and info."""
        self._steps, self._seed = 0, seed
        self._episodes += 1
        result = self._call(self.env.reset, seed=seed, options=options)
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._fault(f"must return an observation and an info; got {describe_result(result)}")
        self._check_observation(result[0])
        if self._index == 0 and self._episodes == 1:
            _warn_about_cast(self.env.observation_space, result[0])
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action. Returns the result with a float reward and bool flags."""
        self._steps += 1
        self._action = action
        result = self._call(self.env.step, action)
        if not isinstance(result, tuple) or len(result) != 5:
            raise self._fault(
                f"must return 5 values; got {describe_result(result)}. Environments of the old Gym return 4: wrap "
                "them with shimmy"
            )
        observation, reward, terminated, truncated, info = result
        if (number := finite_number(reward)) is None:
            raise self._fault(f"must return a reward that is a finite number; got {reward!r}")
        self._check_observation(observation)
        return observation, number, bool(terminated), bool(truncated), info

    def location(self) -> str:
        """Returns the environment, step, episode and last call, for error messages."""
        step, call = f"step {self._steps}", f"step({self._action})"
        if not self._steps:
            step, call = "start", "reset()" if not self._episodes else f"reset(seed={self._seed})"
        return f"environment {self._index}, {step} of episode {self._episodes}, {call}"

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.is_busy = True
        try:
            return call(*args, **kwargs)
        except EnvFault:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, ValueError) and "expected 5, got 4" in str(error):
                raise self._fault("returned 4 values, as in the old Gym: wrap it with shimmy") from error
            raise self._fault(describe_exception(error)) from error
        finally:
            self.is_busy = False

    def _check_observation(self, observation: Any) -> None:
        if (problem := self._check(observation)) is not None:
            raise self._fault(f"returned an observation that is not in its space: {problem}")

    def _fault(self, message: str) -> EnvFault:
        return EnvFault(f"{self.location()}: {message}.")


class VectorCheck:
    """Checks the results of a vector environment that was not made from `CheckedEnv`s."""

    def __init__(self, vector: VectorEnv) -> None:
        self._vector = vector
        self._check = space_check(vector.observation_space)
        self._check_one = space_check(vector.single_observation_space)

    def check_observations(self, observations: Any, step: int) -> None:
        """Raises a fault for observations outside of their space. The message contains the environment if possible."""
        if (problem := self._check(observations)) is None:
            return
        with contextlib.suppress(TypeError):  # raised if this is not a batch
            for index, observation in enumerate(iterate(self._vector.observation_space, observations)):
                if (problem_here := self._check_one(observation)) is not None:
                    raise EnvFault(f"environment {index}, step {step}: {problem_here}.")
        raise EnvFault(f"the vector environment, step {step}: {problem}.")

    def check_result(self, result: Any, step: int) -> None:
        """Raises a fault for an invalid result of `step`: wrong shapes, infinite rewards or invalid observations."""
        location, shape = f"the vector environment, step {step}", (self._vector.num_envs,)
        if not isinstance(result, tuple) or len(result) != 5:
            raise EnvFault(f"{location}: must return 5 values; got {describe_result(result)}.")
        for name, values in zip(("rewards", "terminated", "truncated"), result[1:4], strict=True):
            if np.shape(values) != shape:
                raise EnvFault(f"{location}: {name} must have the shape {shape}; got {np.shape(values)}.")
        for index, reward in enumerate(np.asarray(result[1], object)):
            if finite_number(reward) is None:
                raise EnvFault(
                    f"environment {index}, step {step}: must return a reward that is a finite number; got {reward!r}."
                )
        self.check_observations(result[0], step)


def finite_number(value: Any) -> float | None:
    """Converts a reward, possibly an array with one entry, to a float. Returns None if it is not finite in float32."""
    try:
        number = float(value if type(value) in (int, float) else np.asarray(value).item())
    except (TypeError, ValueError):
        return None
    return number if abs(number) <= MAX_FLOAT32 else None


def describe_result(result: Any) -> str:
    """Returns the number of values in a result, or its type."""
    return f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__


def _warn_about_cast(space: Space, observation: Any) -> None:
    dtype = np.asarray(observation).dtype if isinstance(space, spaces.Box) else space.dtype
    if dtype != space.dtype:
        warnings.warn(
            f"observations are {dtype}, but their space is {space.dtype}. They are cast.", stacklevel=2
        )

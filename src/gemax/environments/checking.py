"""Whether an environment keeps to its own spaces, looked at after every step: Gymnasium itself lets it all pass.

It knows neither jax nor networks: worker processes import it.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from gemax.environments.faults import EnvironmentFault, in_words

Complaint: TypeAlias = Callable[[Any], str | None]
"""What is wrong with an observation, in words: what was expected, and what came. None where all is well."""

ROUNDING = 1e-5
"""Numbers may lie outside of their range by this share of it."""


def complaint_about(space: Space, name: str = "observation") -> Complaint:
    """Looks at observations of a space, of one environment or of a batch. Spaces that nobody reads pass unseen."""
    if isinstance(space, spaces.Dict):
        return _about_parts(dict(space.spaces), dict, name)
    if isinstance(space, spaces.Tuple):
        return _about_parts(dict(enumerate(space.spaces)), tuple, name)
    if isinstance(space, spaces.Box):
        return _about_box(space, name)
    if isinstance(space, spaces.Discrete):
        return _about_whole_numbers((), space.start, space.start + space.n - 1, name)
    if isinstance(space, spaces.MultiDiscrete):
        return _about_whole_numbers(space.shape, space.start, space.start + space.nvec - 1, name)
    if isinstance(space, spaces.MultiBinary):
        return _about_whole_numbers(space.shape, 0, 1, name)
    return lambda observation: None


def _about_parts(parts: dict[Any, Space], kind: type, name: str) -> Complaint:
    complaints = {key: complaint_about(space, f"{name}[{key!r}]") for key, space in parts.items()}

    def about(observation: Any) -> str | None:
        if kind is dict and (not isinstance(observation, dict) or observation.keys() != parts.keys()):
            got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
            return f"{name} must be a dict of {', '.join(map(str, parts))}; got {got}"
        if kind is tuple and (not isinstance(observation, tuple) or len(observation) != len(parts)):
            return f"{name} must be a tuple of {len(parts)}; got {type(observation).__name__}"
        found = (complaint(observation[key]) for key, complaint in complaints.items())
        return next((words for words in found if words is not None), None)

    return about


def _about_box(space: spaces.Box, name: str) -> Complaint:
    with np.errstate(over="ignore", invalid="ignore"):
        slack = np.where(
            np.isfinite(space.high) & np.isfinite(space.low), ROUNDING * (space.high - space.low), 0
        )
    is_float = np.issubdtype(space.dtype, np.floating)
    low, high = (space.low - slack, space.high + slack) if is_float else (space.low, space.high)
    whole = None if is_float else np.iinfo(str(space.dtype))
    takes_all = whole is not None and bool(np.all(low == whole.min) and np.all(high == whole.max))

    def about(observation: Any) -> str | None:
        array = np.asarray(observation)
        if array.shape != space.shape:
            return f"{name} must have the shape {space.shape}; got {array.shape}"
        if array.dtype != space.dtype and not np.can_cast(array.dtype, space.dtype, "same_kind"):
            return f"{name} must be {space.dtype}; got {array.dtype}"
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{name} must be finite; got {_worst(array, ~np.isfinite(array))}"
        if takes_all and array.dtype == space.dtype:
            return None
        outside = (array < low) | (array > high)
        if outside.any():
            index = tuple(np.argwhere(outside)[0])
            limits = f"{space.low[index]} to {space.high[index]}"
            return f"{name} must lie in its space, from {limits}; got {_worst(array, outside)}"
        return None

    return about


def _about_whole_numbers(shape: tuple[int, ...], low: Any, high: Any, name: str) -> Complaint:
    def about(observation: Any) -> str | None:
        array = np.asarray(observation)
        if array.shape != shape:
            return f"{name} must have the shape {shape}; got {array.shape}"
        if array.dtype.kind not in "iub":
            return f"{name} must be whole numbers; got {array.dtype}"
        outside = (array < low) | (array > high)
        if outside.any():
            return f"{name} must lie from {np.min(low)} to {np.max(high)}; got {_worst(array, outside)}"
        return None

    return about


def _worst(array: np.ndarray, is_bad: np.ndarray) -> str:
    """The first bad entry, and where it stands."""
    index = tuple(int(i) for i in np.argwhere(is_bad)[0])
    return f"{array[index]}" + (f" at {list(index)}" if index else "")


def number_of(value: Any) -> float | None:
    """A number that a reward can be, or None: arrays of one entry are taken, NaN and None are not."""
    try:
        number = float(np.asarray(value).item())
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


class Guard(gymnasium.Wrapper):
    """Steps one environment and stops the run where it breaks its promises, with all that a user has to know."""

    def __init__(self, env: gymnasium.Env, index: int) -> None:
        super().__init__(env)
        self._index, self._steps, self._episodes = index, 0, 0
        self._doing = "reset()"
        self._complaint = complaint_about(env.observation_space)
        self._may_be_cast = True
        self.is_busy = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode."""
        self._steps, self._doing = 0, f"reset(seed={seed})"
        self._episodes += 1
        result = self._call(lambda: self.env.reset(seed=seed, options=options))
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._fault(f"must return an observation and an info; got {kind_of(result)}")
        self._check_observation(result[0])
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action."""
        self._steps += 1
        self._doing = f"step({action})"
        result = self._call(lambda: self.env.step(action))
        if not isinstance(result, tuple) or len(result) != 5:
            raise self._fault(
                f"must return 5 values; got {kind_of(result)}. An environment of the old Gym returns 4: wrap it with "
                "shimmy"
            )
        observation, reward, terminated, truncated, info = result
        number = number_of(reward)
        if number is None:
            raise self._fault(f"must return a reward that is a finite number; got {reward!r}")
        self._check_observation(observation)
        return observation, number, bool(terminated), bool(truncated), info

    def where(self) -> str:
        """Which environment this is, and what it does or did last."""
        moment = f"step {self._steps}" if self._steps else "start"
        return f"environment {self._index}, {moment} of episode {self._episodes}, {self._doing}"

    def _call(self, call: Callable[[], Any]) -> Any:
        self.is_busy = True
        try:
            return call()
        except EnvironmentFault:
            raise
        except Exception as error:
            if isinstance(error, ValueError) and "expected 5, got 4" in str(error):
                raise self._fault("returned 4 values, as the old Gym did: wrap it with shimmy") from error
            raise self._fault(in_words(error)) from error
        finally:
            self.is_busy = False

    def _check_observation(self, observation: Any) -> None:
        words = self._complaint(observation)
        if words is not None:
            raise self._fault(f"returned what its space does not allow: {words}")
        if self._may_be_cast and self._index == 0:
            self._may_be_cast = False
            _warn_of_cast(self.env.observation_space, observation)

    def _fault(self, words: str) -> EnvironmentFault:
        return EnvironmentFault(f"{self.where()}: {words}.")


def kind_of(result: Any) -> str:
    """What came where several values should have."""
    return f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__


def _warn_of_cast(space: Space, observation: Any) -> None:
    if isinstance(space, spaces.Box) and np.asarray(observation).dtype != space.dtype:
        warnings.warn(
            f"observations are {np.asarray(observation).dtype} where their space says {space.dtype}; they are cast.",
            stacklevel=2,
        )

"""Converts results of Gymnasium's vector environments to transitions, in each of the three autoreset modes.

| autoreset mode | step that ends an episode | after it |
|---|---|---|
| NEXT_STEP | returns the terminal observation | the next step ignores its action and resets |
| SAME_STEP | returns the first observation of the next episode, and the terminal one in `infos["final_obs"]` | |
| DISABLED | returns the terminal observation | the caller has to reset |

Worker processes import this module, so it does not import JAX.
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Bool, Shaped

from gemax.envs.host.base import VectorTransition
from gemax.envs.host.observations import ObservationEncoder
from gemax.envs.host.restarts import DROPPED
from gemax.errors import EnvFault


def autoreset_mode(vector: VectorEnv) -> AutoresetMode:
    """Returns the autoreset mode of a vector environment.

    Raises:
        ValueError: The environment does not declare a mode. It is not guessed, because a wrong one would lose steps.
    """
    mode = vector.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"metadata['autoreset_mode'] of {type(vector.unwrapped).__name__} must be one of "
            f"{', '.join(f'AutoresetMode.{known.name}' for known in AutoresetMode)}; got {mode!r}."
        ) from None


def interpret_step(
    mode: AutoresetMode,
    encoder: ObservationEncoder,
    resets_now: Bool[np.ndarray, " envs"],
    result: tuple[Any, Any, Any, Any, dict[str, Any]],
) -> VectorTransition:
    """Returns the transition of a step, with encoded observations. All arrays are copies.

    At the end of an episode in mode DISABLED, `current_observation` is the terminal observation: the caller resets and
    replaces it.

    Args:
        mode: The autoreset mode.
        encoder: Encodes the observations.
        resets_now: Whether each environment uses this step to reset itself; see `resets_next`.
        result: The return value of `VectorEnv.step`.
    """
    observations, rewards, terminated, truncated, infos = result
    observation = encoder.encode(observations)
    terminated = np.array(terminated, bool)
    truncated = np.asarray(truncated, bool) & ~terminated
    next_observation, is_first = observation, resets_now
    if mode is AutoresetMode.SAME_STEP:
        is_first = terminated | truncated
        next_observation = _with_terminal(encoder, observation, is_first, infos)
    reward = np.array(rewards, np.float32)
    is_dropped = np.array(infos.get(DROPPED, np.zeros_like(terminated)), bool)
    return VectorTransition(
        next_observation, reward, terminated, truncated, observation, is_first, ~resets_now, is_dropped
    )


def resets_next(mode: AutoresetMode, transition: VectorTransition) -> Bool[np.ndarray, " envs"]:
    """Whether each environment will use the next step to reset itself."""
    ends = (transition.terminated | transition.truncated) & transition.is_valid
    return ends if mode is AutoresetMode.NEXT_STEP else np.zeros_like(ends)


def where_env(
    mask: Bool[np.ndarray, " envs"],
    new: Shaped[np.ndarray, "envs *shape"],
    old: Shaped[np.ndarray, "envs *shape"],
) -> Shaped[np.ndarray, "envs *shape"]:
    """Returns `new` for the environments in the mask, and `old` for the others."""
    return np.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def _with_terminal(
    encoder: ObservationEncoder, observation: np.ndarray, ends: np.ndarray, infos: dict[str, Any]
) -> np.ndarray:
    """Returns the observations, with the terminal ones from `infos` where episodes end."""
    if not ends.any():
        return observation
    if "final_obs" not in infos:
        raise EnvFault(
            "a vector environment with the autoreset mode SAME_STEP must return the terminal observation in "
            f"infos['final_obs']; its infos are {', '.join(infos) or 'empty'}."
        )
    next_observation = observation.copy()
    for index in np.flatnonzero(ends):
        next_observation[index] = encoder.encode_one(infos["final_obs"][index])
    return next_observation

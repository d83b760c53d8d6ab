"""From what vector environments tell to transitions: the same ones, whatever happens at the end of an episode.

NEXT_STEP   the step after the end is the reset: no transition
SAME_STEP   the step that ends an episode shows the next start; its own last observation is in `infos["final_obs"]`
DISABLED    nothing happens until someone resets
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, Shaped

from gemax.environments.flattening import Flattening
from gemax.integrations.learner import Steps

MOST_AHEAD = 8
"""How many rollouts a world may be ahead of the slowest before its oldest steps are left out."""


class Position(NamedTuple):
    """Where the worlds stand between two steps."""

    seen: Shaped[np.ndarray, "worlds *shape"]
    """What the next actions are chosen from."""
    is_first: Bool[np.ndarray, " worlds"]
    """Whether an episode starts with it."""
    is_over: Bool[np.ndarray, " worlds"]
    """Whether the next step only resets."""


class Told(NamedTuple):
    """What a step of a vector environment returns, observations flattened."""

    observations: Shaped[np.ndarray, "worlds *shape"]
    reward: np.ndarray
    terminated: Bool[np.ndarray, " worlds"]
    truncated: Bool[np.ndarray, " worlds"]
    infos: dict[str, Any]


def mode_of(envs: gymnasium.vector.VectorEnv) -> AutoresetMode:
    """What an environment does at the end of an episode. It has to tell."""
    mode = envs.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"metadata['autoreset_mode'] of {type(envs.unwrapped).__name__} must be one of "
            f"{', '.join(f'AutoresetMode.{known.name}' for known in AutoresetMode)}, or nobody knows which steps are "
            f"transitions; got {mode!r}."
        ) from None


def started(
    position: Position | None,
    observations: Shaped[np.ndarray, "worlds *shape"],
    mask: Bool[np.ndarray, " worlds"],
) -> Position:
    """After a reset of the worlds in the mask."""
    if position is None:
        return Position(observations, np.ones_like(mask), np.zeros_like(mask))
    lead = mask.reshape(-1, *(1,) * (observations.ndim - 1))
    return Position(
        np.where(lead, observations, position.seen), position.is_first | mask, position.is_over & ~mask
    )


def stepped(
    mode: AutoresetMode, flattening: Flattening, position: Position, action: np.ndarray, told: Told
) -> tuple[Steps, Bool[np.ndarray, " worlds"], Position]:
    """The transitions of one step, in which worlds there was one, and where all stand after it."""
    is_real = ~position.is_over
    ends = (told.terminated | told.truncated) & is_real
    arrived = told.observations
    if mode is AutoresetMode.SAME_STEP and ends.any():
        arrived = np.array(arrived)
        final = told.infos["final_obs"]
        for i in np.flatnonzero(ends):
            arrived[i] = flattening.flatten(batch_of_one(final[i]))[0]
    steps = Steps(
        seen=position.seen[None],
        arrived=arrived[None],
        action=action[None],
        reward=np.asarray(told.reward, np.float32)[None],
        terminated=told.terminated[None],
        truncated=told.truncated[None],
        is_first=position.is_first[None],
    )
    resets_next = ends if mode is AutoresetMode.NEXT_STEP else np.zeros_like(ends)
    starts = ends if mode is AutoresetMode.SAME_STEP else ~is_real
    return steps, is_real, Position(told.observations, starts, resets_next)


def batch_of_one(observation: Any) -> Any:
    """An observation as the only one of a batch."""
    if isinstance(observation, dict):
        return {name: batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]


class Queues:
    """Transitions that wait until every world has a rollout of them.

    Worlds that reset more often have fewer, so that the others run ahead of them; a rollout holds the k-th transition
    of every world side by side, whenever that was.
    """

    def __init__(self, num_worlds: int, rollout_length: int):
        self._length = rollout_length
        self._queues: list[deque[Steps]] = [deque() for _ in range(num_worlds)]

    def push(self, steps: Steps, is_real: Bool[np.ndarray, " worlds"]) -> None:
        """Takes in the transitions of one step."""
        for i in np.flatnonzero(is_real):
            queue = self._queues[i]
            queue.append(Steps(*(field[0, i] for field in steps)))
            if len(queue) > MOST_AHEAD * self._length:
                for _ in range(self._length):
                    queue.popleft()
                queue[0] = queue[0]._replace(is_first=np.asarray(True))

    def pop(self) -> Steps | None:
        """The next rollout, once it is complete."""
        if min(map(len, self._queues)) < self._length:
            return None
        return _stacked([[queue.popleft() for queue in self._queues] for _ in range(self._length)])

    def waiting(self) -> Sequence[tuple[Steps, Bool[np.ndarray, " worlds"]]]:
        """The transitions that are left, step by step, and which worlds have one."""
        longest = max(map(len, self._queues))
        rows = []
        for k in range(longest):
            is_real = np.asarray([len(queue) > k for queue in self._queues])
            # Somebody has one, and stands in where there is none.
            someone = self._queues[int(np.argmax(is_real))][k]
            rows.append((_stacked([[q[k] if len(q) > k else someone for q in self._queues]]), is_real))
        return rows


def _stacked(rows: Sequence[Sequence[Steps]]) -> Steps:
    """By time and world."""
    return Steps(
        *(np.asarray([[step[i] for step in row] for row in rows]) for i in range(len(Steps._fields)))
    )

"""From what vector environments tell to transitions: the same ones, whatever happens at the end of an episode.

NEXT_STEP   the step after the end is the reset: no transition
SAME_STEP   the step that ends an episode shows the next start; its own last observation is in `infos["final_obs"]`
DISABLED    nothing happens until someone resets
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, Shaped

from gemax.environments.flattening import Flattening, batch_of_one
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
        # Copies: an environment may write its next step into the same arrays.
        reward=np.array(told.reward, np.float32)[None],
        terminated=np.array(told.terminated)[None],
        truncated=np.array(told.truncated)[None],
        is_first=position.is_first[None],
    )
    resets_next = ends if mode is AutoresetMode.NEXT_STEP else np.zeros_like(ends)
    starts = ends if mode is AutoresetMode.SAME_STEP else ~is_real
    return steps, is_real, Position(told.observations, starts, resets_next)


class Logged(NamedTuple):
    """What happened over some time, and where."""

    steps: Steps
    is_real: Bool[np.ndarray, "time worlds"]


class Queues:
    """Transitions that wait until every world has a rollout of them.

    Worlds that reset more often have fewer, so that the others run ahead of them; a rollout holds the k-th transition
    of every world side by side, whenever that was.
    """

    def __init__(self, num_worlds: int, rollout_length: int):
        self._length = rollout_length
        self._log: list[Logged] = []
        self._count = np.zeros(num_worlds, int)
        """How many transitions of each world are in the log."""

    def push(self, steps: Steps, is_real: Bool[np.ndarray, " worlds"]) -> None:
        """Takes in the transitions of one step. The arrays are kept: nobody may write to them."""
        self._log.append(Logged(steps, is_real[None]))
        self._count += is_real
        if self._count.max() > MOST_AHEAD * self._length:
            self._leave_out(self._count > MOST_AHEAD * self._length)

    def pop(self) -> Steps | None:
        """The next rollout, once it is complete."""
        if self._count.min() < self._length:
            return None
        steps, is_real = packed(self._log)
        self._log = [Logged(Steps(*(field[self._length :] for field in steps)), is_real[self._length :])]
        self._count -= self._length
        return Steps(*(field[: self._length] for field in steps))

    def waiting(self) -> Sequence[tuple[Steps, Bool[np.ndarray, " worlds"]]]:
        """The transitions that are left, step by step, and which worlds have one."""
        if not self._count.any():
            return []
        steps, is_real = packed(self._log)
        return [(Steps(*(field[k : k + 1] for field in steps)), row) for k, row in enumerate(is_real)]

    def _leave_out(self, worlds: Bool[np.ndarray, " worlds"]) -> None:
        """The oldest transitions of some worlds."""
        steps, is_real = packed(self._log)
        is_real[: self._length, worlds] = False
        steps.is_first[self._length, worlds] = True
        self._log = [Logged(steps, is_real)]
        self._count[worlds] -= self._length


def packed(log: Sequence[Logged]) -> Logged:
    """The k-th transition of every world in row k; what was none comes last, or is left out."""
    steps = Steps(*map(np.concatenate, zip(*(part.steps for part in log), strict=True)))
    is_real = np.concatenate([part.is_real for part in log])
    longest = is_real.sum(axis=0).max()
    order = np.argsort(~is_real, axis=0, kind="stable")[:longest]
    worlds = np.arange(is_real.shape[1])
    return Logged(Steps(*(field[order, worlds] for field in steps)), is_real[order, worlds])

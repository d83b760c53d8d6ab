"""Collects the transitions of vector environments into rollouts of equal length."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Bool

from gemax.types import Transition

MAX_ROLLOUTS_AHEAD = 8
"""Number of rollouts that an environment may be ahead of the slowest one before its oldest steps are dropped."""


class TransitionQueue:
    """Holds transitions until every environment has enough of them for a rollout.

    In the autoreset mode NEXT_STEP, a reset takes a whole step, which is not a transition. So the environments have
    different numbers of transitions. Row k of a rollout holds the k-th transition of every environment, even if they
    were taken at different times.
    """

    def __init__(self, num_envs: int, rollout_length: int):
        self._length = rollout_length
        self._parts: list[Transition] = []
        self._counts = np.zeros(num_envs, int)
        """Number of transitions of each environment in the queue."""

    def push(self, transitions: Transition, is_valid: Bool[np.ndarray, " envs"]) -> None:
        """Adds one step of all environments. Transitions that are not valid are ignored. The arrays are not copied."""
        self._parts.append(transitions._replace(is_valid=is_valid[None]))
        self._counts += is_valid
        is_far_ahead = self._counts > MAX_ROLLOUTS_AHEAD * self._length
        if is_far_ahead.any():
            self._drop_oldest(is_far_ahead)

    def pop(self) -> Transition | None:
        """Returns the next rollout, or None if it is not complete yet."""
        if self._counts.min() < self._length:
            return None
        packed = self._pack()
        self._parts = [_rows(packed, slice(self._length, None))]
        self._counts -= self._length
        return _rows(packed, slice(self._length))._replace(is_valid=None)

    def pending(self) -> Sequence[tuple[Transition, Bool[np.ndarray, " envs"]]]:
        """Returns the rows of the queue. Each has a mask of the environments that have a transition in it."""
        if not self._counts.any():
            return []
        packed = self._pack()
        steps = packed._replace(is_valid=None)
        return [(_rows(steps, slice(k, k + 1)), is_valid) for k, is_valid in enumerate(packed.is_valid)]

    def _drop_oldest(self, envs: Bool[np.ndarray, " envs"]) -> None:
        packed = self._pack()
        packed.is_valid[: self._length, envs] = False
        packed.is_first[self._length, envs] = True  # pyright: ignore[reportIndexIssue] (NumPy)
        self._parts = [packed]
        self._counts[envs] -= self._length

    def _pack(self) -> Transition:
        """Moves the k-th transition of every environment to row k. Invalid ones come last."""
        joined: Transition = jax.tree.map(lambda *parts: np.concatenate(parts), *self._parts)
        num_rows = joined.is_valid.sum(axis=0).max()
        order = np.argsort(~joined.is_valid, axis=0, kind="stable")[:num_rows]
        return jax.tree.map(lambda field: field[order, np.arange(order.shape[1])], joined)


def _rows(transitions: Transition, rows: slice) -> Transition:
    return jax.tree.map(lambda field: field[rows], transitions)

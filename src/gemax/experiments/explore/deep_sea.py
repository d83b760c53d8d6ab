"""DeepSea of bsuite as a Gymnasium environment (Osband et al., 2020), with deterministic transitions."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MOVE_COST = 0.01
"""Cost of an episode in which every step goes right."""
MAPPING_SEED = 42
"""Seed of bsuite's experiment, which decides the meaning of the actions in every cell."""


class DeepSea(gymnasium.Env):
    """A diver in a square of `size` × `size` cells who sinks by one row in every step, to the left or to the right.

    Only `size` steps to the right reach the treasure, with reward 1. Each of them costs 0.01 / `size`, so that the best
    return is 0.99. Which of the two actions goes right depends on the cell.

    Args:
        size: Number of rows, columns and steps of an episode.
        mapping_seed: Seed of the actions that go right.
        render_mode: Not supported.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's name)

    def __init__(
        self, size: int = 10, mapping_seed: int = MAPPING_SEED, render_mode: str | None = None
    ) -> None:
        self.size, self.render_mode = size, render_mode
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, 1.0, (size, size), np.float32)
        self.right_actions = np.random.RandomState(mapping_seed).binomial(1, 0.5, (size, size))
        """The action that goes right in each cell."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts at the top left."""
        super().reset(seed=seed)
        self._row = self._column = 0
        return self._observation(), {}

    def step(self, action: int | np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Sinks by one row and moves by one column. The last observation of an episode is all zeros."""
        goes_right = action == self.right_actions[self._row, self._column]
        has_treasure = goes_right and self._column == self.size - 1
        reward = float(has_treasure) - goes_right * MOVE_COST / self.size
        self._column = int(np.clip(self._column + (1 if goes_right else -1), 0, self.size - 1))
        self._row += 1
        return self._observation(), float(reward), self._row == self.size, False, {}

    def _observation(self) -> np.ndarray:
        cells = np.zeros((self.size, self.size), np.float32)
        if self._row < self.size:
            cells[self._row, self._column] = 1.0
        return cells

"""A key-and-door map as a custom Gymnasium environment with Dict observations."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SIZE = 15
START, KEY, DOOR, GOAL = (0, 0), (SIZE - 1, 0), (SIZE // 2, SIZE // 2), (SIZE - 1, SIZE - 1)
"""Cells as (row, column). The wall is the middle column, and the door is in the middle of the wall."""
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Up, down, left, right."""
MAX_STEPS = 120


class KeyAndDoor(gymnasium.Env):
    """A 15 × 15 map that a wall divides. The reward is 1 at the goal, and 0 everywhere else.

    The agent starts at the top left. The key lies at the bottom left and is taken by moving onto it. With the key, the
    agent opens the door by moving into it. The goal is at the bottom right and ends the episode. The shortest plan has
    42 steps, and episodes are truncated after 120.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's name)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(MOVES))
        self.observation_space = spaces.Dict(
            {
                "position": spaces.MultiDiscrete([SIZE, SIZE]),
                "has_key": spaces.Discrete(2),
                "door_open": spaces.Discrete(2),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts at the top left, without the key."""
        super().reset(seed=seed)
        self._cell, self._has_key, self._is_open, self._steps = START, False, False, 0
        return self._observation(), {}

    def step(self, action: int | np.integer) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Moves to a neighbouring cell, unless a wall or the closed door is there."""
        row, column = self._cell[0] + MOVES[action][0], self._cell[1] + MOVES[action][1]
        if (row, column) == DOOR and self._has_key:
            self._is_open = True
        is_inside = 0 <= row < SIZE and 0 <= column < SIZE
        is_blocked = column == DOOR[1] and not ((row, column) == DOOR and self._is_open)
        if is_inside and not is_blocked:
            self._cell = row, column
        self._has_key = self._has_key or self._cell == KEY
        self._steps += 1
        terminated = self._cell == GOAL
        truncated = self._steps >= MAX_STEPS and not terminated
        return self._observation(), float(terminated), terminated, truncated, {}

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the map as text: `#` wall, `D` closed door, `K` key, `G` goal, `A` agent."""
        if self.render_mode != "ansi":
            return None
        cells = np.full((SIZE, SIZE), ".")
        cells[:, DOOR[1]] = "#"
        cells[DOOR] = "." if self._is_open else "D"
        cells[KEY] = "." if self._has_key else "K"
        cells[GOAL], cells[self._cell] = "G", "A"
        return "\n".join(map("".join, cells))

    def _observation(self) -> dict[str, Any]:
        return {
            "position": np.array(self._cell, np.int64),
            "has_key": int(self._has_key),
            "door_open": int(self._is_open),
        }

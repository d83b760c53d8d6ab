"""A point mass behind a wall as a custom Gymnasium environment with continuous actions."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

START, GOAL, GOAL_RADIUS = (-0.75, -0.75), (0.75, -0.75), 0.25
GAP = (0.6, 0.9)
"""The wall is at x = 0. Its gap lies between these values of y."""
FRICTION, MAX_FORCE = 0.1, 0.004
"""Share of the velocity that is lost in every step, and the change of velocity by the largest action. The terminal
velocity is their ratio, 0.04 per step."""
MAX_STEPS = 200


class PointMass(gymnasium.Env):
    """A point mass in the square [-1, 1]², with a wall between start and goal. The reward is 1 in the goal region.

    The action is the force, in [-1, 1]². The observation is the position and the velocity relative to its largest
    value. The only way to the goal is a gap near the top of the wall, and start and goal are near the bottom. The goal
    ends the episode. Episodes are truncated after 200 steps.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's name)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts at the bottom left, at rest, with a little noise in the position."""
        super().reset(seed=seed)
        self._position = np.array(START) + self.np_random.uniform(-0.05, 0.05, 2)
        self._velocity, self._steps = np.zeros(2), 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Applies the force for one step. The wall and the boundary stop the mass."""
        force = np.clip(np.asarray(action, float), -1.0, 1.0)
        self._velocity = (1 - FRICTION) * self._velocity + MAX_FORCE * force
        target = self._position + self._velocity
        if self._hits_wall(target):
            target[0], self._velocity[0] = self._position[0], 0.0
        self._velocity[np.abs(target) > 1] = 0.0
        self._position = np.clip(target, -1.0, 1.0)
        self._steps += 1
        terminated = bool(np.linalg.norm(self._position - GOAL) < GOAL_RADIUS)
        truncated = self._steps >= MAX_STEPS and not terminated
        return self._observation(), float(terminated), terminated, truncated, {}

    def _hits_wall(self, target: np.ndarray) -> bool:
        (x, y), (target_x, target_y) = self._position, target
        if (x < 0) == (target_x < 0):
            return False
        crossing = y + (target_y - y) * x / (x - target_x)
        return not GAP[0] < crossing < GAP[1]

    def _observation(self) -> np.ndarray:
        return np.concatenate([self._position, self._velocity * FRICTION / MAX_FORCE]).astype(np.float32)

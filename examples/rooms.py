"""Three rooms, a key and a locked door: a Gymnasium environment without code of gemax."""

import gymnasium
import numpy as np

MAP = np.array([list(row) for row in (
    "################",
    "#K...#....D....#",
    "#....#.S..#....#",
    "#....#....#....#",
    "#.........#...G#",
    "################",
)])  # fmt: skip
COLOURS = {"#": (60, 62, 68), "K": (240, 200, 40), "D": (150, 90, 40), "G": (60, 160, 90)}
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class Rooms(gymnasium.Env):
    """From S, the agent fetches the key at K, opens the door D and earns 1 at G.

    It has 80 steps and needs 33.
    """

    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gymnasium.spaces.MultiDiscrete([*MAP.shape, 2])
    action_space = gymnasium.spaces.Discrete(len(MOVES))

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        """Returns row, column, and whether the agent has the key."""
        super().reset(seed=seed)
        self.row, self.column, self.has_key, self.time = 2, 7, False, 0
        return self.observe(), {}

    def observe(self):
        """Returns the observation."""
        return np.array([self.row, self.column, self.has_key])

    def step(self, action):
        """Moves the agent, unless there is a wall or a locked door."""
        row, column = self.row + MOVES[action][0], self.column + MOVES[action][1]
        if MAP[row, column] != "#" and (self.has_key or MAP[row, column] != "D"):
            self.row, self.column = row, column
        self.time += 1
        self.has_key = self.has_key or MAP[self.row, self.column] == "K"
        terminated = bool(MAP[self.row, self.column] == "G")
        return self.observe(), float(terminated), terminated, self.time >= 80, {}

    def render(self):
        """Returns an image with 16 × 16 pixels per cell."""
        image = np.full((*MAP.shape, 3), 236, np.uint8)
        for cell in "#G" if self.has_key else "#GKD":
            image[cell == MAP] = COLOURS[cell]
        image[self.row, self.column] = (38, 90, 222)
        return image.repeat(16, axis=0).repeat(16, axis=1)

import gymnasium
import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from gemax.envs.host.minigrid_view import View

# Doors, keys, lava, moving balls, boxes, a see-through map, and a map smaller than the view.
ENV_IDS = (
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-DistShift1-v0",
    "MiniGrid-Dynamic-Obstacles-8x8-v0",
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-MultiRoom-N4-S5-v1",
    "MiniGrid-ObstructedMaze-2Dlhb-v1",
    "BabyAI-GoToObjMaze-v0",
)


def play(env, num_steps, seed=0):
    """Yields after a reset and after each of some random steps."""
    generator = np.random.default_rng(seed)
    env.reset(seed=seed)
    for _ in range(num_steps):
        yield
        _, _, terminated, truncated, _ = env.step(generator.integers(env.action_space.n))
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_view_is_equal_to_that_of_minigrid(env_id):
    env = gymnasium.make(env_id, disable_env_checker=True)
    view = View(env.unwrapped)
    for _ in play(env, 150):
        expected = MiniGridEnv.gen_obs(env.unwrapped)["image"]
        np.testing.assert_array_equal(view.image(), expected)
    env.close()


@pytest.mark.parametrize(
    "settings", [{"agent_view_size": 3}, {"agent_view_size": 9}, {"see_through_walls": True}]
)
def test_view_is_equal_for_other_view_sizes_and_transparent_walls(settings):
    env = gymnasium.make("MiniGrid-DoorKey-6x6-v0", disable_env_checker=True)
    for name, value in settings.items():
        setattr(env.unwrapped, name, value)
    view = View(env.unwrapped)
    for _ in play(env, 100):
        expected = MiniGridEnv.gen_obs(env.unwrapped)["image"]
        np.testing.assert_array_equal(view.image(), expected)


def test_view_follows_changed_colours_and_doors():
    env = gymnasium.make("MiniGrid-DoorKey-6x6-v0", disable_env_checker=True)
    env.reset(seed=0)
    env.unwrapped.see_through_walls = True
    view = View(env.unwrapped)
    for thing in {id(thing): thing for thing in env.unwrapped.grid.grid if thing is not None}.values():
        thing.color = "purple"
        if thing.type == "door":
            thing.is_locked, thing.is_open = False, True
        np.testing.assert_array_equal(view.image(), MiniGridEnv.gen_obs(env.unwrapped)["image"])


class Room(MiniGridEnv):
    """An empty room. Subclasses have a grid of their own, or objects."""

    grid_class = Grid

    def __init__(self):
        super().__init__(mission_space=MissionSpace(lambda: ""), width=7, height=7, max_steps=100)

    def _gen_grid(self, width, height):
        self.grid = self.grid_class(width, height)
        self.grid.wall_rect(0, 0, width, height)
        self.agent_pos, self.agent_dir, self.mission = (1, 3), 0, ""
        self.place_objects()

    def place_objects(self):
        pass


class Fog(Grid):
    """Only cells near the agent are visible."""

    def process_vis(self, agent_pos):
        visible = np.zeros((self.width, self.height), bool)
        visible[2:5, 4:] = True
        return visible

    def slice(self, *arguments):
        return self.like(super().slice(*arguments))

    def rotate_left(self):
        return self.like(super().rotate_left())

    def like(self, grid):
        copied = Fog(grid.width, grid.height)
        copied.grid = grid.grid
        return copied


class FoggyRoom(Room):
    grid_class = Fog


class Lamp(Box):
    """A box that lights a ball when it is opened."""

    def __init__(self, ball):
        super().__init__("blue")
        self.ball = ball

    def toggle(self, env, pos):
        self.ball.color = "green"
        return super().toggle(env, pos)


class RoomWithLamp(Room):
    def place_objects(self):
        ball = Ball("red")
        self.grid.set(3, 2, ball)
        self.grid.set(2, 3, Lamp(ball))


class Curtain(WorldObj):
    def __init__(self):
        super().__init__("box", "red")

    def see_behind(self):
        return self.contains  # None: MiniGrid only asks whether it is true


class RoomWithCurtain(Room):
    def place_objects(self):
        self.grid.set(3, 3, Curtain())


@pytest.mark.parametrize("kind", [FoggyRoom, RoomWithLamp, RoomWithCurtain])
def test_grids_and_objects_of_users_are_seen_as_in_minigrid(kind):
    env = kind()
    view = View(env)
    env.reset(seed=0)
    for action in (6, 5, 6, 1, 2, 0, 2):
        np.testing.assert_array_equal(view.observe()["image"], MiniGridEnv.gen_obs(env)["image"])
        env.step(action)
    np.testing.assert_array_equal(view.observe()["image"], MiniGridEnv.gen_obs(env)["image"])

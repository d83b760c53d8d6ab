import gymnasium
import numpy as np
import pytest
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

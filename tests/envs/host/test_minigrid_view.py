import gymnasium
import numpy as np
import pytest
from minigrid.minigrid_env import MiniGridEnv

from gemax.envs.host.minigrid_view import use_fast_view, view

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
    for _ in play(env, 150):
        expected = MiniGridEnv.gen_obs(env.unwrapped)["image"]
        np.testing.assert_array_equal(view(env.unwrapped), expected)
    env.close()


@pytest.mark.parametrize(
    "settings", [{"agent_view_size": 3}, {"agent_view_size": 9}, {"see_through_walls": True}]
)
def test_view_is_equal_for_other_view_sizes_and_transparent_walls(settings):
    env = gymnasium.make("MiniGrid-DoorKey-6x6-v0", disable_env_checker=True)
    for name, value in settings.items():
        setattr(env.unwrapped, name, value)
    for _ in play(env, 100):
        expected = MiniGridEnv.gen_obs(env.unwrapped)["image"]
        np.testing.assert_array_equal(view(env.unwrapped), expected)


def test_steps_return_the_same_observations_as_before():
    plain, fast = (gymnasium.make("MiniGrid-DoorKey-5x5-v0", disable_env_checker=True) for _ in range(2))
    use_fast_view(fast)
    first, second = plain.reset(seed=3)[0], fast.reset(seed=3)[0]
    for action in [2, 1, 3, 5, 0, 2, 3, 4, 2, 5] * 3:
        assert first.keys() == second.keys()
        assert first["direction"] == second["direction"]
        assert first["mission"] == second["mission"]
        assert second["image"].dtype == np.uint8
        np.testing.assert_array_equal(first["image"], second["image"])
        first, second = plain.step(action)[0], fast.step(action)[0]


def test_environment_with_a_view_of_its_own_keeps_it():
    class Blind(type(gymnasium.make("MiniGrid-Empty-5x5-v0").unwrapped)):
        def gen_obs(self):
            return {**super().gen_obs(), "image": np.zeros((7, 7, 3), np.uint8)}

    env = Blind(size=5)
    use_fast_view(env)
    assert not env.reset(seed=0)[0]["image"].any()


def test_other_environments_are_left_alone():
    env = gymnasium.make("CartPole-v1")
    before = dict(vars(env.unwrapped))
    use_fast_view(env)
    assert vars(env.unwrapped).keys() == before.keys()

import gymnasium
import minigrid  # noqa: F401 (registers the ids)
import numpy as np
import pytest

from gemax.envs.host.minigrid_step import speed_up

# Doors, keys, lava, boxes and balls; rooms with several objects; environments with a `step` of their own.
ENV_IDS = (
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-LavaGapS5-v0",
    "MiniGrid-Empty-Random-5x5-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
    "MiniGrid-ObstructedMaze-2Dlhb-v1",
    "MiniGrid-Dynamic-Obstacles-5x5-v0",
    "BabyAI-GoToObj-v0",
)


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_steps_are_equal_to_those_of_minigrid(env_id):
    plain, fast = (gymnasium.make(env_id, disable_env_checker=True) for _ in range(2))
    speed_up(fast)
    generator = np.random.default_rng(0)
    first, second = plain.reset(seed=3), fast.reset(seed=3)
    for _ in range(400):
        assert_equal_observations(first[0], second[0])
        assert first[1:] == second[1:]
        assert_equal_states(plain.unwrapped, fast.unwrapped)
        # Mostly forwards, so that the agent reaches objects.
        action = generator.choice([2, generator.integers(plain.action_space.n)])
        first, second = plain.step(action), fast.step(action)
        if first[2] or first[3]:
            assert first[1:] == second[1:]
            first, second = plain.reset(), fast.reset()


def assert_equal_observations(first, second):
    assert first.keys() == second.keys()
    assert first["direction"] == second["direction"]
    assert first["mission"] == second["mission"]
    assert second["image"].dtype == np.uint8
    np.testing.assert_array_equal(first["image"], second["image"])


def assert_equal_states(first, second):
    """Compares the whole maps, with the positions that objects store."""
    np.testing.assert_array_equal(first.grid.encode(), second.grid.encode())
    assert tuple(first.agent_pos) == tuple(second.agent_pos)
    for one, other in zip(
        [*first.grid.grid, first.carrying], [*second.grid.grid, second.carrying], strict=True
    ):
        assert type(one) is type(other)
        if one is not None and one.cur_pos is not None:
            assert tuple(one.cur_pos) == tuple(other.cur_pos)


def test_carried_keys_open_doors_as_in_minigrid():
    plain, fast = (gymnasium.make("MiniGrid-DoorKey-5x5-v0", disable_env_checker=True) for _ in range(2))
    speed_up(fast)
    plain.reset(seed=3), fast.reset(seed=3)
    for action in [2, 1, 3, 5, 0, 2, 3, 4, 2, 5] * 20:
        first, second = plain.step(action), fast.step(action)
        assert_equal_observations(first[0], second[0])
        assert first[1:] == second[1:]
        assert_equal_states(plain.unwrapped, fast.unwrapped)


@pytest.mark.parametrize("action", [7, -1, 0.5])
def test_unknown_actions_are_refused_as_in_minigrid(action):
    env = gymnasium.make("MiniGrid-Empty-5x5-v0", disable_env_checker=True)
    speed_up(env)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="Unknown action"):
        env.step(action)


def test_environment_with_a_view_of_its_own_keeps_it():
    class Blind(type(gymnasium.make("MiniGrid-Empty-5x5-v0").unwrapped)):
        def gen_obs(self):
            return {**super().gen_obs(), "image": np.zeros((7, 7, 3), np.uint8)}

    env = Blind(size=5)
    speed_up(env)
    assert not env.reset(seed=0)[0]["image"].any()
    assert not env.step(2)[0]["image"].any()


def test_environment_with_a_step_of_its_own_keeps_it():
    class Paying(type(gymnasium.make("MiniGrid-Empty-5x5-v0").unwrapped)):
        def step(self, action):
            observation, _, *others = super().step(action)
            return observation, 3.0, *others

    env = Paying(size=5)
    speed_up(env)
    env.reset(seed=0)
    assert env.step(2)[1] == 3.0


def test_step_and_view_of_the_instance_are_kept():
    env = gymnasium.make("MiniGrid-Empty-5x5-v0", disable_env_checker=True).unwrapped
    original_step, original_view = env.step, env.gen_obs
    env.step = lambda action: (original_step(action)[0], 3.0, False, False, {})
    env.gen_obs = lambda: {**original_view(), "image": np.zeros((7, 7, 3), np.uint8)}
    speed_up(env)
    env.reset(seed=0)
    observation, reward, *_ = env.step(2)
    assert reward == 3.0
    assert not observation["image"].any()


def test_other_environments_are_left_alone():
    env = gymnasium.make("CartPole-v1")
    before = dict(vars(env.unwrapped))
    speed_up(env)
    assert vars(env.unwrapped).keys() == before.keys()

"""Single environments behave as Gymnasium and Stable-Baselines3 expect."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded, UnsupportedMode
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.seeding import np_random
from stable_baselines3.common.env_checker import check_env as check_env_for_stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv

from gemax.envs.registry import ENVS, make_env
from gemax.integrations import render_window
from gemax.integrations.gymnasium import GemaxEnv
from gemax.integrations.registration import gymnasium_id, register_envs

IDS = [gymnasium_id(name) for name in ENVS]
GRIDWORLD_IDS = [gymnasium_id(name) for name, row in ENVS.items() if row.is_gridworld]
UP, DOWN, LEFT, RIGHT = 1, 2, 3, 4
NO_OP = 0
PATH_TO_REWARD = [RIGHT] * 6 + [DOWN] * 10 + [LEFT] * 6
"""In 2-Rooms: along the first row, down through the bottleneck, along the last row."""
CORRIDOR = "S..G\n"


@pytest.fixture(scope="module")
def two_rooms():
    """One environment for many tests. Each test starts with a reset."""
    return gymnasium.make("gemax/TwoRooms-v0", observation="cells", render_mode="rgb_array")


def walk(env, actions):
    """Returns the results of actions up to the end of the episode."""
    outcomes = []
    for action in actions:
        outcomes.append(env.step(action))
        if outcomes[-1][2] or outcomes[-1][3]:
            break
    return outcomes


def assert_equal_outcomes(first, second):
    assert len(first) == len(second)
    for (observation, *facts), (other_observation, *other_facts) in zip(first, second, strict=True):
        np.testing.assert_array_equal(observation, other_observation)
        assert facts == other_facts


# Registration


def test_every_environment_is_registered_under_its_name_in_camel_case():
    ids = {"gemax/TwoRooms-v0", "gemax/TwoRoomsNoisy-v0", "gemax/CartpoleSwingup-v0", "gemax/Map-v0"}
    assert ids <= set(gymnasium.registry)
    assert {*IDS, "gemax/Map-v0", "gemax/KeyAndDoor-v0", "gemax/DeepSea-N50-v0"} <= set(gymnasium.registry)


def test_an_id_can_be_trained_from_the_command_line():
    for name in ("gemax/TwoRooms-v0", "gemax/KeyAndDoor-v0"):
        code = (
            "from gemax.envs.host.make import gym_maker\n"
            f"assert gym_maker('gym:{name}')().spec.id == '{name}'"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_registration_imports_neither_jax_nor_an_environment():
    code = (
        "import sys, gymnasium\n"
        "from gemax.integrations.registration import register_envs\n"
        "register_envs()\n"
        "assert gymnasium.spec('gemax/TwoRooms-v0').kwargs == {'env_id': 'two-rooms'}\n"
        "sys.exit('jax' in sys.modules or 'gemax.envs.gridworld' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_registration_may_be_repeated():
    register_envs()  # Gymnasium would warn, and warnings are errors


def test_an_id_may_name_the_module_that_registers_it():
    env = gymnasium.make("gemax.integrations.gymnasium:gemax/TwoRooms-v0")
    assert isinstance(env.unwrapped, GemaxEnv)


@pytest.mark.parametrize("convert", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_spec_survives_copies_and_makes_the_same_environment(convert):
    spec = gymnasium.make("gemax/TwoRooms-v0", observation="cells").spec
    assert convert(spec) == spec
    assert gymnasium.make(convert(spec)).observation_space.shape == (9, 7, 3)


def test_a_spec_survives_json():
    spec = gymnasium.make("gemax/CartpoleSwingup-v0", height_threshold=0.5).spec
    again = gymnasium.envs.registration.EnvSpec.from_json(spec.to_json())
    assert json.loads(spec.to_json())["kwargs"] == {"env_id": "cartpole-swingup", "height_threshold": 0.5}
    assert gymnasium.make(again).unwrapped._compiled is gymnasium.make(spec).unwrapped._compiled


def test_gymnasium_adds_no_time_limit(two_rooms):
    assert two_rooms.spec.max_episode_steps is None
    assert two_rooms.unwrapped.jax_env.spec.horizon == 30


# Checkers of other libraries


@pytest.mark.parametrize("environment", IDS)
def test_gymnasium_check_env_passes(environment):
    check_env(gymnasium.make(environment).unwrapped)


@pytest.mark.parametrize("environment", IDS)
def test_stable_baselines3_check_env_passes(environment):
    check_env_for_stable_baselines3(gymnasium.make(environment))


@pytest.mark.parametrize("environment", GRIDWORLD_IDS)
def test_stable_baselines3_warns_only_about_the_size_of_small_images(environment):
    env = gymnasium.make(environment, observation="cells")
    check_env(env.unwrapped)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        check_env_for_stable_baselines3(env)
    assert [str(remark.message).split(" for the")[0] for remark in remarks] == [
        "The minimal resolution for an image is 36x36"
    ]


def test_stable_baselines3_gets_the_terminal_observation_and_the_truncation(two_rooms):
    two_rooms.reset(seed=0)
    last = walk(two_rooms, [RIGHT] * 30)[-1][0]
    vector = DummyVecEnv([lambda: gymnasium.make("gemax/TwoRooms-v0", observation="cells")])
    first = vector.reset()
    for _ in range(30):
        observations, _, is_over, infos = vector.step(np.array([RIGHT]))
    assert is_over[0]
    assert infos[0]["TimeLimit.truncated"]
    np.testing.assert_array_equal(infos[0]["terminal_observation"], last)
    np.testing.assert_array_equal(observations, first)


# Episodes


@pytest.mark.parametrize("environment", IDS)
def test_every_observation_of_an_episode_lies_in_the_space(environment):
    env = gymnasium.make(environment, disable_env_checker=False)  # which would warn
    space = env.observation_space
    observation, _ = env.reset(seed=3)
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    env.action_space.seed(3)
    for outcome in [(observation,), *walk(env, [env.action_space.sample() for _ in range(100)])]:
        assert outcome[0] in space
        assert (outcome[0].dtype, outcome[0].shape) == (space.dtype, space.shape)


def test_reaching_the_reward_terminates_and_returns_the_terminal_observation(two_rooms):
    two_rooms.reset(seed=0)
    outcomes = walk(two_rooms, PATH_TO_REWARD)
    assert [outcome[1:4] for outcome in outcomes] == [(0.0, False, False)] * 21 + [(1.0, True, False)]
    before, last = outcomes[-2][0], outcomes[-1][0]
    # The agent moved to the cell of the reward, in the lower left corner.
    changed = np.argwhere((before[3:] != last[3:]).any(axis=-1))
    np.testing.assert_array_equal(changed, [[4, 0], [4, 1]])


def test_the_horizon_truncates(two_rooms):
    two_rooms.reset(seed=0)
    outcomes = walk(two_rooms, [NO_OP] * 40)
    assert [outcome[2:4] for outcome in outcomes] == [(False, False)] * 29 + [(False, True)]


def test_a_reward_on_the_last_step_terminates_and_does_not_truncate():
    env = gymnasium.make("gemax/Map-v0", map=CORRIDOR, horizon=3)
    env.reset(seed=0)
    assert walk(env, [RIGHT] * 3)[-1][1:4] == (1.0, True, False)


def test_reward_free_episodes_end_only_at_the_horizon():
    env = gymnasium.make("gemax/TwoRooms-v0", observation="cells", reward_free=True)
    env.reset(seed=0)
    outcomes = walk(env, PATH_TO_REWARD + [NO_OP] * 10)
    assert sum(outcome[1] for outcome in outcomes) == 0
    assert [outcome[2:4] for outcome in outcomes] == [(False, False)] * 29 + [(False, True)]


def test_the_same_seed_gives_the_same_episodes():
    env = gymnasium.make("gemax/TwoRoomsNoisy-v0", observation="cells")
    runs = []
    for _ in range(2):
        first, first_info = env.reset(seed=5)
        outcomes = [(first, first_info), *walk(env, PATH_TO_REWARD)]
        second, second_info = env.reset()
        runs.append([*outcomes, (second, second_info), *walk(env, [NO_OP] * 5)])
    assert_equal_outcomes(*runs)


def test_without_a_seed_the_generator_continues():
    env = gymnasium.make("gemax/CartpoleSwingup-v0")
    starts = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0], env.reset(seed=6)[0]]
    assert len({start.tobytes() for start in starts}) == 4


def test_an_episode_follows_from_its_seed_by_the_documented_rule():
    """Recomputes the keys of an episode independently. Single and vector environments share this rule."""
    env = gymnasium.make("gemax/TwoRoomsNoisy-v0", observation="cells")
    jax_env = make_env("two-rooms-noisy", observation="cells")
    reset, step = jax.jit(jax_env.reset), jax.jit(jax_env.step)
    words = np_random(11)[0].integers(2**32, size=2, dtype=np.uint32)

    def key(draw):
        return jax.random.wrap_key_data(words + np.array([0, draw], np.uint32))

    state, timestep = reset(key(0))
    np.testing.assert_array_equal(env.reset(seed=11)[0], timestep.observation)
    for draw, action in enumerate([RIGHT, DOWN, DOWN], 1):
        state, timestep = step(key(draw), state, action)
        np.testing.assert_array_equal(env.step(action)[0], timestep.observation)


def test_info_has_cell_and_state_of_finite_environments():
    env = gymnasium.make("gemax/Map-v0", map=CORRIDOR, horizon=8)
    infos = [env.reset(seed=0)[1]] + [outcome[4] for outcome in walk(env, [RIGHT, LEFT, RIGHT, RIGHT])]
    assert [info["cell"] for info in infos] == [0, 1, 0, 1, 2]
    assert [info["state"] for info in infos] == [0, 1, 0, 1, 2]
    assert gymnasium.make("gemax/MountainCar-v0").reset(seed=0)[1] == {}


def test_observations_are_writable_copies(two_rooms):
    first, _ = two_rooms.reset(seed=0)
    kept = first.copy()
    second = two_rooms.step(RIGHT)[0]
    second[:] = 0
    np.testing.assert_array_equal(first, kept)
    assert two_rooms.step(NO_OP)[0].any()


def test_a_copy_continues_from_the_middle_of_an_episode():
    env = gymnasium.make("gemax/TwoRoomsNoisy-v0", observation="cells")
    env.reset(seed=1)
    walk(env, [RIGHT] * 4)
    copies = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    expected = walk(env, [DOWN] * 4)
    for other in copies:
        assert_equal_outcomes(walk(other, [DOWN] * 4), expected)
        np.testing.assert_array_equal(other.reset()[0], copy.deepcopy(env).reset()[0])


# Speed


def test_environments_with_the_same_settings_share_their_compiled_functions():
    settings = {"map": "S.G\n", "horizon": 4}
    environments = [gymnasium.make("gemax/Map-v0", **settings).unwrapped for _ in range(5)]
    for env in environments:
        env.reset(seed=0)
        env.step(RIGHT)
    assert len({id(env._compiled) for env in environments}) == 1
    assert environments[0]._compiled.step._cache_size() == 1


# Errors


def test_step_after_the_end_of_an_episode_is_an_error(two_rooms):
    two_rooms.reset(seed=0)
    walk(two_rooms, [NO_OP] * 30)
    with pytest.raises(ResetNeeded, match=r"episode is over: call reset\(\)"):
        two_rooms.step(NO_OP)
    two_rooms.reset()
    two_rooms.step(NO_OP)


def test_step_and_render_before_the_first_reset_are_errors():
    env = GemaxEnv("two-rooms", render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(0)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.render()


@pytest.mark.parametrize("action", [RIGHT, np.int64(RIGHT), np.int32(RIGHT), np.array(RIGHT)])
def test_an_action_may_be_any_kind_of_integer(two_rooms, action):
    _, info = two_rooms.reset(seed=0)
    assert two_rooms.step(action)[4]["cell"] == info["cell"] + 1


@pytest.mark.parametrize("action", [7, -1, np.int64(5)])
def test_an_action_out_of_range_is_refused(two_rooms, action):
    two_rooms.reset(seed=0)
    with pytest.raises(InvalidAction, match=rf"action must be 0\.\.4; got {action}"):
        two_rooms.step(action)


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        (
            "TwoRooms",
            {"observations": "cells"},
            "it has observation, reward_free. Did you mean observation?",
        ),
        (
            "MountainCar",
            {"observation": "pixels"},
            "gemax/MountainCar-v0 has no setting 'observation'; it has reward_free.",
        ),
        ("TwoRooms", {"reward_free": "no"}, "reward_free must be True or False; got 'no'."),
        ("CartpoleSwingup", {"height_threshold": "0.5"}, "height_threshold must be a number; got '0.5'."),
        ("TwoRooms", {"env_id": "two-room"}, "got 'two-room'. Did you mean two-rooms?"),
        ("Map", {"horizon": 40}, "gemax/Map-v0 needs the setting 'map'."),
        ("Map", {"map": CORRIDOR, "horizon": 2}, "this G cannot be reached in less than 3 steps"),
        ("Map", {"map": "nowhere.txt", "horizon": 2}, "there is no map file nowhere.txt."),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_ones(environment, settings, message):
    with pytest.raises(ValueError, match=r".") as error:
        gymnasium.make(f"gemax/{environment}-v0", **settings)
    assert message in str(error.value)


def test_settings_reach_the_environment():
    env = gymnasium.make("gemax/CartpoleSwingup-v0", x_threshold=0.1)
    env.reset(seed=0)
    assert walk(env, [2] * 60)[-1][2:4] == (True, False)
    assert gymnasium.make("gemax/TwoRooms-v0").observation_space.shape == (72, 56, 3)


def test_a_map_is_read_again_when_its_file_has_changed(tmp_path):
    file = tmp_path / "mine.txt"
    for width in (4, 6):
        file.write_text("S" + "." * (width - 2) + "G\n")
        for path in (file, str(file)):
            env = gymnasium.make("gemax/Map-v0", map=path, horizon=10, observation="cells")
            assert env.observation_space.shape == (3, width, 3)


# Rendering


@pytest.mark.parametrize("environment", IDS)
def test_render_returns_the_image_of_the_state(environment):
    env = gymnasium.make(environment, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(2)
    render = env.render()
    assert render.dtype == np.uint8
    np.testing.assert_array_equal(render, env.unwrapped.jax_env.render(env.unwrapped._episode.state))


def test_the_image_follows_the_agent(two_rooms):
    two_rooms.reset(seed=0)
    before = two_rooms.render()
    two_rooms.step(RIGHT)
    changed = np.argwhere((two_rooms.render() != before).any(axis=-1)) // 24
    # The map has a border of one cell, so the first cell is (1, 1).
    np.testing.assert_array_equal(np.unique(changed, axis=0), [[1, 1], [1, 2]])


def test_rgb_array_list_collects_images():
    env = gymnasium.make("gemax/TwoRooms-v0", render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(RIGHT)
    assert len(env.render()) == 2


def test_render_without_a_render_mode_warns_and_returns_none():
    env = GemaxEnv("two-rooms")
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(UnsupportedMode, match="must be 'rgb_array', 'human' or None; got 'ansi'"):
        GemaxEnv("two-rooms", render_mode="ansi")


def test_a_window_without_pygame_is_refused(monkeypatch):
    monkeypatch.setattr(render_window, "is_installed", lambda extra: False)
    with pytest.raises(UnsupportedMode, match=r"pip install 'gemax\[window\]'.*render_mode='rgb_array'"):
        gymnasium.make("gemax/TwoRooms-v0", render_mode="human")
    assert GemaxEnv("two-rooms").metadata["render_modes"] == ["rgb_array"]


def test_a_window_without_a_display_is_refused(monkeypatch):
    monkeypatch.setattr(render_window, "is_installed", lambda extra: True)
    monkeypatch.setattr(render_window.sys, "platform", "linux")
    for variable in render_window.DISPLAY_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UnsupportedMode, match=r"set DISPLAY.*render_mode='rgb_array'"):
        gymnasium.make("gemax/TwoRooms-v0", render_mode="human")


def test_a_window_on_a_display_that_does_not_respond_is_refused(monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("DISPLAY", ":4711")
    with pytest.raises(UnsupportedMode, match=r"display that responds.*render_mode='rgb_array'"):
        gymnasium.make("gemax/TwoRooms-v0", render_mode="human")


def test_a_window_shows_every_state(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make("gemax/TwoRooms-v0", render_mode="human")
    env.reset(seed=0)
    env.step(RIGHT)
    result = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    np.testing.assert_array_equal(result, env.unwrapped.jax_env.render(env.unwrapped._episode.state))
    assert env.render() is None
    check_env(gymnasium.make("gemax/TwoRooms-v0").unwrapped)
    env.close()
    env.close()

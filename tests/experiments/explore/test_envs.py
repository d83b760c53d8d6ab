"""The environments of the suite are valid Gymnasium environments, and as hard as they claim to be."""

import subprocess
import sys
from collections import deque

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import gemax.integrations.registration  # noqa: F401 (registers the ids)
from gemax.experiments.explore import key_and_door, point_mass
from gemax.experiments.explore.deep_sea import DeepSea
from gemax.experiments.explore.key_and_door import KeyAndDoor
from gemax.experiments.explore.point_mass import PointMass


@pytest.mark.parametrize("make", [KeyAndDoor, PointMass, DeepSea])
def test_an_environment_passes_the_checks_of_gymnasium(make):
    check_env(make(), skip_render_check=True)


def test_an_environment_is_made_by_its_id():
    assert gymnasium.make("gemax/KeyAndDoor-v0").spec.max_episode_steps == key_and_door.MAX_STEPS
    assert gymnasium.make("gemax/PointMass-v0").spec.max_episode_steps == point_mass.MAX_STEPS
    assert gymnasium.make("gemax/DeepSea-v0", size=13).observation_space.shape == (13, 13)
    assert gymnasium.make("gemax/DeepSea-N20-v0").observation_space.shape == (20, 20)
    assert gymnasium.make("gemax/TwoRoomsCells-v0").observation_space.shape[:2] == (9, 7)


def test_an_environment_imports_nothing_of_gemax_but_its_own_package():
    code = (
        "import sys, gemax.experiments.explore.key_and_door, gemax.experiments.explore.point_mass\n"
        "import gemax.experiments.explore.deep_sea\n"
        "sys.exit('jax' in sys.modules or 'gemax.envs' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# Key and door


def replay(env, actions):
    """Resets, takes the actions, and returns the last transition."""
    env.reset(seed=0)
    return [env.step(action) for action in actions][-1]


def hashable(observation):
    return (*observation["position"].tolist(), observation["has_key"], observation["door_open"])


def key_and_door_plan():
    """A shortest plan, by breadth-first search that only uses `step`."""
    env, plans = KeyAndDoor(), deque([()])
    seen = {hashable(env.reset(seed=0)[0])}
    while plans:
        plan = plans.popleft()
        for action in range(4):
            observation, reward, *_ = replay(env, (*plan, action))
            if reward:
                return (*plan, action)
            if hashable(observation) not in seen:
                seen.add(hashable(observation))
                plans.append((*plan, action))
    return None


@pytest.fixture(scope="module")
def plan():
    return key_and_door_plan()


def test_the_shortest_plan_through_the_door_has_42_steps(plan):
    assert len(plan) == 42
    observation, reward, terminated, truncated, _ = replay(KeyAndDoor(), plan)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert hashable(observation) == (14, 14, 1, 1)


def test_the_door_stays_closed_without_the_key():
    to_the_door = [1] * 7 + [3] * 10
    observation, *_ = replay(KeyAndDoor(), to_the_door)
    assert hashable(observation) == (7, 6, 0, 0)


def test_an_episode_is_truncated_after_120_steps():
    assert [replay(KeyAndDoor(), [0] * steps)[3] for steps in (119, 120)] == [False, True]


def test_the_map_is_drawn_as_text(plan):
    env = KeyAndDoor(render_mode="ansi")
    replay(env, plan[:-1])
    lines = env.render().split("\n")
    assert [line[7] for line in lines] == ["#"] * 7 + ["."] + ["#"] * 7
    assert lines[0][0] == "."
    assert "A" in lines[-1] + lines[-2]
    assert lines[-1][-1] == "G"


def random_returns(env, num_episodes):
    env.action_space.seed(0)
    returns = np.zeros(num_episodes)
    for episode in range(num_episodes):
        env.reset(seed=episode)
        is_over = False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns[episode] += reward
            is_over = terminated or truncated
    return returns


@pytest.mark.parametrize("make", [KeyAndDoor, PointMass])
def test_a_random_policy_never_reaches_the_goal(make):
    assert random_returns(make(), 30).sum() == 0


# Point mass


def steer(env, waypoints):
    """Steers the mass from one point to the next. Returns the number of steps and the last transition."""
    observation, _ = env.reset(seed=0)
    remaining = list(waypoints)
    for step in range(1, point_mass.MAX_STEPS + 1):
        position, velocity = observation[:2], observation[2:]
        if len(remaining) > 1 and np.linalg.norm(position - remaining[0]) < 0.1:
            remaining.pop(0)
        force = np.clip(20 * (remaining[0] - position) - 4 * velocity, -1, 1)
        transition = env.step(force.astype(np.float32))
        observation = transition[0]
        if transition[2] or transition[3]:
            return step, transition
    raise AssertionError


def test_the_goal_is_reached_through_the_gap_in_half_of_the_time():
    steps, (_, reward, terminated, truncated, _) = steer(
        PointMass(), [(-0.1, 0.75), (0.12, 0.75), point_mass.GOAL]
    )
    assert steps < 110
    assert (reward, terminated, truncated) == (1.0, True, False)


def test_the_wall_stops_the_mass():
    steps, (observation, reward, terminated, truncated, _) = steer(PointMass(), [point_mass.GOAL])
    assert steps == point_mass.MAX_STEPS
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert -0.1 < observation[0] < 0


# DeepSea


@pytest.mark.parametrize("size", [10, 20])
def test_deep_sea_equals_the_one_of_bsuite_step_by_step(size):
    from bsuite.environments import deep_sea

    theirs, ours = deep_sea.DeepSea(size, mapping_seed=42), DeepSea(size)
    rng = np.random.default_rng(0)
    for episode in range(20):
        timestep, (observation, _) = theirs.reset(), ours.reset(seed=episode)
        np.testing.assert_array_equal(observation, timestep.observation)
        while not timestep.last():
            # Half of the steps go right, or all of them in every fifth episode.
            cell = np.unravel_index(observation.argmax(), observation.shape)
            action = int(ours.right_actions[cell] if episode % 5 == 0 else rng.integers(2))
            timestep = theirs.step(action)
            observation, reward, terminated, truncated, _ = ours.step(action)
            np.testing.assert_array_equal(observation, timestep.observation)
            assert reward == pytest.approx(timestep.reward, abs=1e-12)
            assert (terminated, truncated) == (timestep.last(), False)


def test_going_right_in_every_cell_of_deep_sea_earns_the_best_return():
    env, total, is_over = DeepSea(14), 0.0, False
    observation, _ = env.reset(seed=0)
    while not is_over:
        cell = np.unravel_index(observation.argmax(), observation.shape)
        observation, reward, is_over, _, _ = env.step(int(env.right_actions[cell]))
        total += reward
    assert total == pytest.approx(0.99)

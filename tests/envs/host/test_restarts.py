"""Environments that fail are named, and restarted if the user wants it: their episode is dropped and counted."""

import multiprocessing
from functools import partial

import numpy as np
import pytest
from tests.envs.host.toys import Counting, Faulty, HangsIn

from gemax.envs.config import EnvConfig
from gemax.envs.host.host_env import make_host_env
from gemax.errors import EnvFault


def host_env(make, **settings):
    return make_host_env(EnvConfig("test", horizon=50, **settings), make)


def play(envs, num_steps, num_envs=2):
    """Yields the observations before each step, and its transition."""
    before = envs.reset(0)
    for _ in range(num_steps):
        transition = envs.step(np.zeros(num_envs, int))
        yield before, transition
        before = transition.current_observation


# Named


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("hangs", r"the constructor of test: did not answer within 0.3 s"),
        ("raises", r"test could not be made: it raised RuntimeError: the cable is stuck"),
        ("exits", r"test could not be made: it raised SystemExit: 7"),
    ],
)
def test_a_fault_of_the_constructor_is_reported_in_time(how, words):
    with pytest.raises(EnvFault, match=words):
        host_env(partial(HangsIn, "constructor", how), env_timeout=0.3)


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("hangs", r"close\(\) of .* did not answer within"),
        ("raises", r"close\(\) of .* raised RuntimeError: the cable is stuck"),
        ("exits", r"close\(\) of .* raised SystemExit: 7"),
    ],
)
def test_a_fault_of_close_is_a_warning(how, words, monkeypatch):
    monkeypatch.setattr("gemax.envs.host.faults.CLOSE_SECONDS", 0.2)
    with pytest.warns(UserWarning, match=words):
        envs = host_env(partial(HangsIn, "close", how)).open(2)
    envs.reset(0)
    with pytest.warns(UserWarning, match=words):
        envs.close()


@pytest.mark.fault(51)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_environment_that_exits_is_a_fault_and_not_the_end_of_the_program(mode):
    envs = host_env(partial(Faulty, "exits"), vectorization_mode=mode, num_workers=1).open(2)
    with pytest.raises(EnvFault, match=r"environment 0, step \d .*raised SystemExit: the simulator exits"):
        list(play(envs, 4))
    envs.close()


# Restarted


def run_until_dropped(make, **settings):
    env = host_env(make, on_env_fault="restart", env_timeout=1.0, **settings)
    envs = env.open(2)
    try:
        with pytest.warns(UserWarning, match="It is restarted, and its episode is dropped"):
            steps = list(play(envs, 6))
    finally:
        envs.close()
    return [(before, transition) for before, transition in steps if transition.is_dropped.any()]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=pytest.mark.fault(row, times=2))
        for fault, row in (("nan", 22), ("raises", 25), ("hangs", 26))
    ],
)
def test_an_environment_that_fails_is_restarted_and_its_episode_dropped(fault):
    dropped = run_until_dropped(partial(Faulty, fault))
    # Both environments fail in their third step, and again three steps later.
    assert len(dropped) == 2
    for before, transition in dropped:
        assert transition.is_dropped.all()
        assert transition.truncated.all()
        assert not transition.terminated.any()
        assert (transition.reward == 0).all()
        assert transition.is_first.all()
        np.testing.assert_array_equal(transition.next_observation, before)
        assert np.isfinite(transition.current_observation).all()
        # A new episode: step 0.
        assert (transition.current_observation[:, 1] == 0).all()


@pytest.mark.fault(25, times=4)
def test_an_environment_that_keeps_failing_stops_the_run():
    envs = host_env(partial(Faulty, "raises"), on_env_fault="restart", max_env_restarts=3).open(1)
    words = r"the robot fell over .* after 3 restarts within 1,000 steps: giving up"
    with pytest.warns(UserWarning, match="restarted"), pytest.raises(EnvFault, match=words):
        list(play(envs, 20, num_envs=1))
    envs.close()


def die_in_worker(folder):
    """The environment in a process dies once."""
    in_worker = multiprocessing.current_process().name.startswith("environments-1")
    if in_worker and not (folder / "died").exists():
        (folder / "died").touch()
        return Faulty("killed")
    return Counting()


@pytest.mark.fault(27)
def test_a_process_that_dies_is_restarted(tmp_path):
    dropped = run_until_dropped(partial(die_in_worker, tmp_path), vectorization_mode="async", num_workers=2)
    ((before, transition),) = dropped
    assert transition.is_dropped.tolist() == [False, True]
    np.testing.assert_array_equal(transition.next_observation[1], before[1])
    assert transition.current_observation[1, 1] == 0

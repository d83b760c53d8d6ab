import contextlib
import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.envs.host.toys import FAULTS, Counting, Endless, Faulty, JaxDetector, LeavesFile, SamplesSpace

from gemax.envs.config import EnvConfig
from gemax.envs.host.faults import time_limit
from gemax.envs.host.host_env import make_host_env
from gemax.envs.host.make import gym_maker, make_compiled_vector
from gemax.envs.host.workers import split_envs
from gemax.errors import EnvFault

NUM_ENVS, STEPS = 3, 40
ACTIONS = np.random.default_rng(0).integers(2, size=(STEPS * 2, NUM_ENVS))


def plain_loop(index, seed):
    """Returns the transitions of one environment from a plain Gymnasium loop."""
    env = Counting()
    observation, _ = env.reset(seed=seed + index)
    is_first, transitions = True, []
    actions = iter(range(len(ACTIONS)))
    for step in actions:
        next_observation, reward, terminated, truncated, _ = env.step(ACTIONS[step, index])
        transitions.append(
            (observation, next_observation, reward, terminated, truncated and not terminated, is_first)
        )
        observation, is_first = next_observation, False
        if terminated or truncated:
            observation, _ = env.reset()
            is_first = True
    return transitions


def host_env(make, horizon=50, **settings):
    return make_host_env(EnvConfig("test", horizon=horizon, **settings), make)


def host_transitions(make, num_steps=STEPS, **settings):
    """Returns the transitions of every environment. After a step that only reset, the action is repeated."""
    episodes = host_env(make, **settings).open(NUM_ENVS)
    observation, is_first = episodes.reset(7), np.ones(NUM_ENVS, bool)
    taken, transitions = np.zeros(NUM_ENVS, int), [[] for _ in range(NUM_ENVS)]
    for _ in range(num_steps):
        step = episodes.step(ACTIONS[taken, np.arange(NUM_ENVS)])
        for i in np.flatnonzero(step.is_valid):
            transitions[i].append(
                (
                    observation[i],
                    step.next_observation[i],
                    step.reward[i],
                    step.terminated[i],
                    step.truncated[i],
                    is_first[i],
                )
            )
        taken += step.is_valid
        observation, is_first = step.current_observation, step.is_first
    episodes.close()
    return transitions


def assert_same_transitions(transitions):
    for index, ours in enumerate(transitions):
        assert len(ours) > STEPS // 2
        for one, other in zip(ours, plain_loop(index, 7), strict=False):
            for mine, theirs in zip(one, other, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        assert any(terminated for *_, terminated, _, _ in ours)
        assert any(truncated for *_, truncated, _ in ours)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.fault(29)
def test_every_autoreset_mode_gives_the_transitions_of_a_plain_loop(mode):
    assert_same_transitions(
        host_transitions(partial(SyncVectorEnv, [Counting] * NUM_ENVS, autoreset_mode=mode))
    )


def test_single_environments_give_the_transitions_of_a_plain_loop():
    assert_same_transitions(host_transitions(Counting))


def test_environments_in_processes_give_the_transitions_of_a_plain_loop():
    assert_same_transitions(host_transitions(Counting, vectorization_mode="async", num_workers=2))


def test_episodes_are_truncated_at_max_episode_steps():
    episodes = host_env(Endless, horizon=5).open(2, max_episode_steps=3)
    episodes.reset(0)
    steps = [episodes.step(np.zeros(2, int)) for _ in range(7)]
    cut = [False, False, True, False, False, True, False]
    assert [list(step.truncated) for step in steps] == [[is_cut] * 2 for is_cut in cut]
    assert [step.next_observation[0, 1] for step in steps] == [1, 2, 3, 1, 2, 3, 1]
    assert [step.current_observation[0, 1] for step in steps] == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("vectorization_mode", ["sync", "async"])
def test_only_the_first_episodes_are_truncated_at_their_own_limits(vectorization_mode):
    episodes = host_env(Endless, horizon=5, vectorization_mode=vectorization_mode, num_workers=2).open(3)
    episodes.reset(0, np.array([2, 1, 5]))
    steps = [episodes.step(np.zeros(3, int)) for _ in range(7)]
    episodes.close()
    cut = np.stack([step.truncated for step in steps])
    assert [list(np.flatnonzero(column)) for column in cut.T] == [[1], [0], [4]]
    assert [step.current_observation[0, 1] for step in steps] == [1, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vector_environments_that_reset_themselves_cannot_be_truncated(mode):
    make = partial(SyncVectorEnv, [partial(Counting, limit=3), Endless], autoreset_mode=mode)
    episodes = host_env(make, horizon=5).open(2, max_episode_steps=6)
    episodes.reset(0)
    for _ in range(5):
        episodes.step(np.zeros(2, int))
    with pytest.raises(EnvFault, match=r"environment 1, step 6: its episode has not ended after 6 steps"):
        episodes.step(np.zeros(2, int))


def test_a_vector_environment_must_declare_its_autoreset_mode():
    def make():
        vector = SyncVectorEnv([Counting] * NUM_ENVS)
        del vector.metadata["autoreset_mode"]
        return vector

    with pytest.raises(ValueError, match="autoreset_mode"):
        host_env(make, horizon=5).open(NUM_ENVS)


def test_a_vector_environment_must_have_num_envs_environments():
    env = host_env(partial(SyncVectorEnv, [Counting] * 2), horizon=5)
    with pytest.raises(ValueError, match="num_envs must be 2"):
        env.open(NUM_ENVS)


def run_faulty(make, num_envs=NUM_ENVS, **settings):
    episodes = host_env(make, **settings).open(num_envs)
    try:
        episodes.reset(0)
        for _ in range(10):
            episodes.step(np.zeros(num_envs, int))
    finally:
        episodes.close()


class SecondIsFaulty:
    """The environment with index 1 is faulty. The first one that is made only serves to read the spaces."""

    def __init__(self, fault):
        self._fault, self._made = fault, 0

    def __call__(self):
        self._made += 1
        if self._made == 3 and self._fault == "constructor":
            raise OSError("no robot left")
        return Faulty(self._fault) if self._made == 3 else Counting()


ROWS = {
    "nan": 22, "infinite": 22, "reward nan": 22, "shape": 23, "dtype": 23, "range": 23, "reward none": 24,
    "reward text": 24, "four": 24, "raises": 25, "constructor": 25, "killed at once": 27, "killed": 27,
}  # fmt: skip
"""The fault of tests/reliability.py that each toy has."""


def with_row(fault, *values):
    return pytest.param(fault, *values, marks=pytest.mark.fault(ROWS[fault]))


@pytest.mark.parametrize("fault", [with_row(fault) for fault in (*FAULTS, "four", "raises")])
def test_a_fault_names_environment_step_and_expectation(fault):
    with pytest.raises(EnvFault, match=r"environment 1, step \d of episode \d, step\(0\)") as caught:
        run_faulty(SecondIsFaulty(fault))
    expected = {
        "nan": "must be finite; got nan at [0]",
        "infinite": "must be finite; got inf at [0]",
        "shape": "must have the shape (2,); got (3,)",
        "dtype": "must be float32; got <U1",
        "range": "from -1000.0 to 1000.0; got 1000000000.0 at [0]",
        "reward nan": "reward that is a finite number; got nan",
        "reward none": "reward that is a finite number; got None",
        "reward text": "reward that is a finite number; got 'one'",
        "four": "must return 5 values; got 4 values",
        "raises": "raised RuntimeError: the robot fell over",
    }
    assert expected[fault] in str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("nan", marks=pytest.mark.fault(22)),
        pytest.param("range", marks=pytest.mark.fault(23)),
        pytest.param("reward nan", marks=pytest.mark.fault(22)),
    ],
)
def test_results_of_custom_vector_environments_are_checked(fault):
    def make():
        return SyncVectorEnv([Counting, partial(Faulty, fault), Counting])

    with pytest.raises(EnvFault, match=r"environment 1, step 3: .*must"):
        run_faulty(make)


class ChangedResults(SyncVectorEnv):
    """A vector environment whose results are changed."""

    def __init__(self, change):
        super().__init__([Counting] * NUM_ENVS)
        self._change = change

    def step(self, actions):
        return self._change(*super().step(actions))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda observation, reward, end, cut, info: (observation, reward, end, info),
            "must return 5 values; got 4 values",
        ),
        (lambda observation, *rest: (None, *rest), r"observation must have the shape \(3, 2\); got \(\)"),
        (
            lambda observation, *rest: (observation[:2], *rest),
            r"observation must have the shape \(3, 2\); got \(2, 2\)",
        ),
        (
            lambda observation, reward, *rest: (observation, None, *rest),
            r"rewards must have the shape \(3,\); got \(\)",
        ),
        (
            lambda observation, reward, end, *rest: (observation, reward, end[:2], *rest),
            r"terminated must .*; got \(2,\)",
        ),
    ],
)
@pytest.mark.fault(24)
def test_the_form_of_results_of_vector_environments_is_checked(change, words):
    with pytest.raises(EnvFault, match=f"the vector environment, step 1: {words}"):
        run_faulty(partial(ChangedResults, change))


@pytest.mark.fault(26)
def test_the_timeout_names_the_environment_that_hangs():
    with pytest.raises(EnvFault, match=r"environment 1, step 3 .*did not answer within 0.5 s"):
        run_faulty(SecondIsFaulty("hangs"), env_timeout=0.5)


def test_a_time_limit_restores_the_alarm_handler():
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(5.0, lambda: EnvFault("late")):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.fault(25)
def test_a_fault_in_reset_names_the_episode():
    words = r"environment 1, start of episode 2, reset\(seed=None\): raised RuntimeError: the robot does not get up"
    with pytest.raises(EnvFault, match=words):
        run_faulty(SecondIsFaulty("reset"))


@pytest.mark.fault(25)
def test_a_fault_in_the_constructor_names_the_environment():
    words = (
        r"environment 1 of test could not be made: it raised OSError: no robot left \(.*test_vector.py:\d+\)"
    )
    with pytest.raises(EnvFault, match=words):
        run_faulty(SecondIsFaulty("constructor"))


def test_exceptions_are_reported_on_one_line():
    def make():
        raise OSError("no such robot.\nPlug it in.\n")

    words = (
        r"^test could not be made: it raised OSError: no such robot. Plug it in \(.*test_vector.py:\d+\)\.$"
    )
    with pytest.raises(EnvFault, match=words):
        host_env(make, horizon=7)


# In processes


class FaultyInProcess:
    """Makes environments of which one is faulty: the one in the process of this index."""

    def __init__(self, fault, index=1):
        self._fault, self._index = fault, index

    def __call__(self):
        if not multiprocessing.current_process().name.endswith(f"-{self._index}"):
            return Counting()
        if self._fault == "constructor":
            raise OSError("no robot left")
        if self._fault == "killed at once":
            os.kill(os.getpid(), signal.SIGKILL)
        return Faulty(self._fault)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        with_row(
            "raises",
            r"environment 1, step 3 of episode \d, step\(0\): raised RuntimeError: the robot fell over",
        ),
        with_row("constructor", r"environment 1 of test could not be made: it raised OSError: no robot left"),
        with_row(
            "killed at once", r"environment 1: its process \(\d+\) was killed .* before the first step\."
        ),
        with_row(
            "killed",
            r"environment 1: its process \(\d+\) was killed \(signal 9\), maybe .* memory .* at step 3\.",
        ),
    ],
)
def test_faults_in_workers_are_reported_and_all_workers_end(fault, words, capfd):
    with pytest.raises(EnvFault, match=words):
        run_faulty(FaultyInProcess(fault), num_envs=2, vectorization_mode="async")
    assert not multiprocessing.active_children()
    assert capfd.readouterr().err == ""


@pytest.mark.fault(26)
def test_a_worker_that_is_stuck_is_killed_from_any_thread():
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(
            run_faulty, FaultyInProcess("stuck"), num_envs=2, vectorization_mode="async", env_timeout=2.0
        )
        with pytest.raises(EnvFault, match=r"environment 1, step 3: did not answer within 2 s"):
            work.result()
    assert not multiprocessing.active_children()


def test_a_warning_says_that_the_timeout_needs_the_main_thread():
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.warns(
            UserWarning, match=r"only works in the main thread.* vectorization_mode to async"
        ) as caught,
    ):
        thread.submit(run_faulty, Counting).result()
    assert len(caught) == 1


@pytest.mark.fault(28)
def test_workers_split_the_environments_and_do_not_import_jax():
    num_envs = 5
    make = partial(host_env, JaxDetector)
    with contextlib.closing(make(vectorization_mode="async", num_workers=2).open(num_envs)) as episodes:
        assert len(multiprocessing.active_children()) == 2
        assert episodes.reset(0)[:, 0].tolist() == [0.0] * num_envs
    with contextlib.closing(make().open(num_envs)) as episodes:
        assert episodes.reset(0)[:, 0].tolist() == [1.0] * num_envs
    assert [len(indices) for indices in split_envs(num_envs, 2)] == [2, 3]
    assert split_envs(3, 8) == [range(0, 1), range(1, 2), range(2, 3)]


def test_the_fault_of_a_dead_worker_names_all_its_environments():
    with pytest.raises(EnvFault, match=r"environments 0 to 1: its process \(\d+\) was killed"):
        run_faulty(FaultyInProcess("killed", index=0), num_envs=4, vectorization_mode="async", num_workers=2)


def test_other_environments_of_a_faulty_worker_are_closed(tmp_path):
    with pytest.raises(EnvFault, match=r"environment 0, step 3 .*the robot fell over"):
        run_faulty(partial(LeavesFile, tmp_path), num_envs=3, vectorization_mode="async", num_workers=1)
    assert len(list(tmp_path.iterdir())) == 1 + 3  # the first one only served to read the spaces


@pytest.mark.fault(28)
def test_functions_that_cannot_be_pickled_raise_an_error(tmp_path):
    with (tmp_path / "log.txt").open("w") as log:

        def make():
            return Counting() if log else None

        with pytest.raises(
            ValueError, match=r"cannot be sent to another process: .*vectorization_mode to sync"
        ):
            run_faulty(make, num_envs=2, vectorization_mode="async")


@pytest.mark.fault(23)
def test_observations_of_another_precision_are_cast_with_one_warning():
    class Double(Counting):
        def _observation(self):
            return super()._observation().astype(np.float64)

    with pytest.warns(UserWarning, match="float64, but their space is float32") as caught:
        run_faulty(Double)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(5)}),
        spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    ],
)
@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_composed_spaces_work_in_every_autoreset_mode(space, mode):
    make = partial(SamplesSpace, space)
    if mode is not None:
        make = partial(SyncVectorEnv, [make] * NUM_ENVS, autoreset_mode=mode)
    env = host_env(make, horizon=50)
    episodes = env.open(NUM_ENVS)
    assert episodes.reset(0).shape == (NUM_ENVS, *env.spec.observation.shape)
    for _ in range(10):
        step = episodes.step(np.zeros(NUM_ENVS, int))
        assert (
            step.next_observation.shape
            == step.current_observation.shape
            == (NUM_ENVS, *env.spec.observation.shape)
        )
    episodes.close()


def test_horizon_and_solved_return_come_from_the_gymnasium_registry():
    env = host_env(lambda: gymnasium.make("gemax-test/Counting-v0"), horizon=7)
    assert (env.spec.horizon, env.spec.solved_return) == (50, 3.0)
    env = host_env(Counting, horizon=7)
    assert (env.spec.horizon, env.spec.solved_return) == (7, float("inf"))


def test_a_function_must_return_a_gymnasium_environment():
    with pytest.raises(ValueError, match="must make a gymnasium environment; got dict"):
        host_env(dict, horizon=7)  # pyright: ignore[reportArgumentType]


def test_gemax_environments_are_stepped_in_one_call_with_the_same_transitions():
    make = gym_maker("gym:gemax/TwoRoomsCells-v0")
    env = make_host_env(EnvConfig("gym:gemax/TwoRoomsCells-v0"), make)
    # A function that gemax knows nothing about makes single copies.
    single_env = make_host_env(EnvConfig("single"), lambda: make())
    actions = np.random.default_rng(1).integers(5, size=(2 * STEPS, NUM_ENVS))
    limits = np.array([3, 17, 30])
    results = []
    for host in (env, single_env):
        with contextlib.closing(host.open(NUM_ENVS)) as envs:
            results.append([envs.reset(7, limits), *(envs.step(action) for action in actions)])
    assert env.spec.horizon == single_env.spec.horizon
    assert sum(step.truncated.sum() for step in results[0][1:]) >= 2 * NUM_ENVS
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for step, single_step in zip(results[0][1:], results[1][1:], strict=True):
        for field, single_field in zip(step, single_step, strict=True):
            np.testing.assert_array_equal(field, single_field)


def test_other_environments_are_not_made_as_vectors():
    assert make_compiled_vector(gym_maker("gym:CartPole-v1"), 2) is None
    assert make_compiled_vector(gym_maker("gym:gemax/KeyAndDoor-v0"), 2) is None
    assert make_compiled_vector(Counting, 2) is None

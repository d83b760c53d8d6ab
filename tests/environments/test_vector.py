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
from tests.environments.toys import FAULTS, Counting, Endless, Faulty, Knowing, Leaving, Showing

from gemax.environments.faults import EnvironmentFault, time_limit
from gemax.environments.opening import environment_of
from gemax.environments.processes import shares_of

NUMBER, STEPS = 3, 40
ACTIONS = np.random.default_rng(0).integers(2, size=(STEPS * 2, NUMBER))


def plain_loop(index, seed):
    """The transitions of one environment, as anybody would write it: one action each, resets in between."""
    env = Counting()
    observation, _ = env.reset(seed=seed + index)
    is_first, transitions = True, []
    actions = iter(range(len(ACTIONS)))
    for step in actions:
        arrived, reward, terminated, truncated, _ = env.step(ACTIONS[step, index])
        transitions.append((observation, arrived, reward, terminated, truncated and not terminated, is_first))
        observation, is_first = arrived, False
        if terminated or truncated:
            observation, _ = env.reset()
            is_first = True
    return transitions


def outside(make, num_steps=STEPS, **settings):
    """The transitions of every environment through ours; where nothing happened the action waits for the next step."""
    episodes = environment_of("test", make, horizon=50, **settings).open(NUMBER)
    observation, is_first = episodes.reset(7), np.ones(NUMBER, bool)
    taken, transitions = np.zeros(NUMBER, int), [[] for _ in range(NUMBER)]
    for _ in range(num_steps):
        arrival = episodes.step(ACTIONS[taken, np.arange(NUMBER)])
        for i in np.flatnonzero(arrival.happened):
            transitions[i].append(
                (
                    observation[i],
                    arrival.arrived[i],
                    arrival.reward[i],
                    arrival.terminated[i],
                    arrival.truncated[i],
                    is_first[i],
                )
            )
        taken += arrival.happened
        observation, is_first = arrival.current, arrival.is_first
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
def test_every_way_to_reset_gives_the_transitions_of_a_plain_loop(mode):
    assert_same_transitions(outside(partial(SyncVectorEnv, [Counting] * NUMBER, autoreset_mode=mode)))


def test_single_environments_give_the_transitions_of_a_plain_loop():
    assert_same_transitions(outside(Counting))


def test_environments_in_processes_give_the_transitions_of_a_plain_loop():
    assert_same_transitions(outside(Counting, workers="async", num_processes=2))


def test_episodes_without_an_end_are_cut_and_the_next_ones_start():
    episodes = environment_of("test", Endless, horizon=5).open(2, longest=3)
    episodes.reset(0)
    arrivals = [episodes.step(np.zeros(2, int)) for _ in range(7)]
    cut = [False, False, True, False, False, True, False]
    assert [list(arrival.truncated) for arrival in arrivals] == [[is_cut] * 2 for is_cut in cut]
    assert [arrival.arrived[0, 1] for arrival in arrivals] == [1, 2, 3, 1, 2, 3, 1]
    assert [arrival.current[0, 1] for arrival in arrivals] == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_episodes_without_an_end_are_a_fault_of_what_resets_itself(mode):
    make = partial(SyncVectorEnv, [partial(Counting, limit=3), Endless], autoreset_mode=mode)
    episodes = environment_of("test", make, horizon=5).open(2, longest=6)
    episodes.reset(0)
    for _ in range(5):
        episodes.step(np.zeros(2, int))
    with pytest.raises(
        EnvironmentFault, match=r"environment 1, step 6: its episode has no end after 6 steps"
    ):
        episodes.step(np.zeros(2, int))


def test_a_vector_environment_that_does_not_say_when_it_resets_is_refused():
    def make():
        vector = SyncVectorEnv([Counting] * NUMBER)
        del vector.metadata["autoreset_mode"]
        return vector

    with pytest.raises(ValueError, match="must say when it resets"):
        environment_of("test", make, horizon=5).open(NUMBER)


def test_a_vector_environment_of_another_size_is_refused():
    environment = environment_of("test", partial(SyncVectorEnv, [Counting] * 2), horizon=5)
    with pytest.raises(ValueError, match="num_worlds must be the 2 environments"):
        environment.open(NUMBER)


def run_faulty(make, number=NUMBER, **settings):
    episodes = environment_of("test", make, horizon=50, **settings).open(number)
    try:
        episodes.reset(0)
        for _ in range(10):
            episodes.step(np.zeros(number, int))
    finally:
        episodes.close()


class SecondIsFaulty:
    """The environment with index 1 goes wrong; the first one made is the one that is looked at."""

    def __init__(self, fault):
        self._fault, self._made = fault, 0

    def __call__(self):
        self._made += 1
        if self._made == 3 and self._fault == "constructor":
            raise OSError("no robot left")
        return Faulty(self._fault) if self._made == 3 else Counting()


@pytest.mark.parametrize("fault", [*FAULTS, "four", "raises"])
def test_a_fault_names_the_environment_the_step_and_what_was_expected(fault):
    with pytest.raises(EnvironmentFault, match=r"environment 1, step \d of episode \d, step\(0\)") as caught:
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


@pytest.mark.parametrize("fault", ["nan", "range", "reward nan"])
def test_vector_environments_of_others_are_looked_at_too(fault):
    def make():
        return SyncVectorEnv([Counting, partial(Faulty, fault), Counting])

    with pytest.raises(EnvironmentFault, match=r"environment 1, step 3: .*must"):
        run_faulty(make)


class Bad(SyncVectorEnv):
    """Other people's, which nobody looks at but us."""

    def __init__(self, change):
        super().__init__([Counting] * NUMBER)
        self._change = change

    def step(self, actions):
        return self._change(*super().step(actions))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda seen, reward, end, cut, info: (seen, reward, end, info),
            "must return 5 values; got 4 values",
        ),
        (lambda seen, *rest: (None, *rest), r"observation must have the shape \(3, 2\); got \(\)"),
        (lambda seen, *rest: (seen[:2], *rest), r"observation must have the shape \(3, 2\); got \(2, 2\)"),
        (lambda seen, reward, *rest: (seen, None, *rest), r"rewards must have the shape \(3,\); got \(\)"),
        (lambda seen, reward, end, *rest: (seen, reward, end[:2], *rest), r"terminated must .*; got \(2,\)"),
    ],
)
def test_what_a_vector_environment_returns_is_looked_at_as_a_whole(change, words):
    with pytest.raises(EnvironmentFault, match=f"the vector environment, step 1: {words}"):
        run_faulty(partial(Bad, change))


def test_an_environment_that_hangs_is_named_when_its_time_is_over():
    with pytest.raises(EnvironmentFault, match=r"environment 1, step 3 .*did not answer within 0.5 s"):
        run_faulty(SecondIsFaulty("hangs"), timeout_seconds=0.5)


def test_a_time_limit_leaves_the_alarms_of_others_as_they_were():
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(5.0, lambda: EnvironmentFault("late")):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_reset_that_fails_is_named_with_its_episode():
    words = r"environment 1, start of episode 2, reset\(seed=None\): raised RuntimeError: the robot does not get up"
    with pytest.raises(EnvironmentFault, match=words):
        run_faulty(SecondIsFaulty("reset"))


def test_an_environment_that_cannot_be_made_beside_others_is_named():
    words = (
        r"environment 1 of test could not be made: it raised OSError: no robot left \(.*test_vector.py:\d+\)"
    )
    with pytest.raises(EnvironmentFault, match=words):
        run_faulty(SecondIsFaulty("constructor"))


def test_what_is_raised_is_told_on_one_line():
    def make():
        raise OSError("no such robot.\nPlug it in.\n")

    words = (
        r"^test could not be made: it raised OSError: no such robot. Plug it in \(.*test_vector.py:\d+\)\.$"
    )
    with pytest.raises(EnvironmentFault, match=words):
        environment_of("test", make, horizon=7)


# In processes


class InItsProcess:
    """Goes wrong in the process of one environment, and in no other."""

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
        (
            "raises",
            r"environment 1, step 3 of episode \d, step\(0\): raised RuntimeError: the robot fell over",
        ),
        ("constructor", r"environment 1 of test could not be made: it raised OSError: no robot left"),
        ("killed at once", r"environment 1: its process \(\d+\) was killed .* before the first step\."),
        (
            "killed",
            r"environment 1: its process \(\d+\) was killed \(signal 9\), maybe .* memory .* at step 3\.",
        ),
    ],
)
def test_faults_in_processes_are_named_too_and_leave_no_process_behind(fault, words, capfd):
    with pytest.raises(EnvironmentFault, match=words):
        run_faulty(InItsProcess(fault), number=2, workers="async")
    assert not multiprocessing.active_children()
    assert capfd.readouterr().err == ""


def test_a_process_that_is_stuck_for_good_is_named_and_killed_in_any_thread():
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(
            run_faulty, InItsProcess("stuck"), number=2, workers="async", timeout_seconds=2.0
        )
        with pytest.raises(EnvironmentFault, match=r"environment 1, step 3: did not answer within 2 s"):
            work.result()
    assert not multiprocessing.active_children()


def test_a_thread_is_told_that_it_has_no_time_limit():
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.warns(UserWarning, match=r"holds in the main thread only.* env_workers async") as caught,
    ):
        thread.submit(run_faulty, Counting).result()
    assert len(caught) == 1


def test_processes_share_the_environments_among_them_and_know_no_jax():
    number = 5
    make = partial(environment_of, "test", Knowing, horizon=50)
    with contextlib.closing(make(workers="async", num_processes=2).open(number)) as episodes:
        assert len(multiprocessing.active_children()) == 2
        assert episodes.reset(0)[:, 0].tolist() == [0.0] * number
    with contextlib.closing(make().open(number)) as episodes:
        assert episodes.reset(0)[:, 0].tolist() == [1.0] * number
    assert [len(share) for share in shares_of(number, 2)] == [2, 3]
    assert shares_of(3, 8) == [range(0, 1), range(1, 2), range(2, 3)]


def test_those_that_share_a_process_are_named_together_when_it_dies():
    with pytest.raises(EnvironmentFault, match=r"environments 0 to 1: its process \(\d+\) was killed"):
        run_faulty(InItsProcess("killed", index=0), number=4, workers="async", num_processes=2)


def test_those_beside_a_faulty_one_are_closed(tmp_path):
    with pytest.raises(EnvironmentFault, match=r"environment 0, step 3 .*the robot fell over"):
        run_faulty(partial(Leaving, tmp_path), number=3, workers="async", num_processes=1)
    assert len(list(tmp_path.iterdir())) == 1 + 3  # the first was only looked at


def test_what_cannot_be_sent_to_a_process_is_refused(tmp_path):
    with (tmp_path / "log.txt").open("w") as log:

        def make():
            return Counting() if log else None

        with pytest.raises(ValueError, match=r"cannot be sent to another process: .*env_workers to sync"):
            run_faulty(make, number=2, workers="async")


def test_observations_of_another_precision_are_cast_with_one_warning():
    class Double(Counting):
        def _observation(self):
            return super()._observation().astype(np.float64)

    with pytest.warns(UserWarning, match="float64 where their space says float32") as caught:
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
def test_spaces_made_of_others_pass_every_way_to_reset(space, mode):
    make = partial(Showing, space)
    if mode is not None:
        make = partial(SyncVectorEnv, [make] * NUMBER, autoreset_mode=mode)
    environment = environment_of("test", make, horizon=50)
    episodes = environment.open(NUMBER)
    assert episodes.reset(0).shape == (NUMBER, *environment.observation.shape)
    for _ in range(10):
        arrival = episodes.step(np.zeros(NUMBER, int))
        assert arrival.arrived.shape == arrival.current.shape == (NUMBER, *environment.observation.shape)
    episodes.close()


def test_facts_come_from_gymnasiums_registry():
    environment = environment_of("test", lambda: gymnasium.make("gemax-test/Counting-v0"), horizon=7)
    assert (environment.horizon, environment.solved_return) == (50, 3.0)
    environment = environment_of("test", Counting, horizon=7)
    assert (environment.horizon, environment.solved_return) == (7, float("inf"))


def test_what_is_no_environment_is_refused():
    with pytest.raises(ValueError, match="must make a gymnasium environment; got dict"):
        environment_of("test", dict, horizon=7)  # pyright: ignore[reportArgumentType]

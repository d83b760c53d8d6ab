"""The same transitions in every autoreset mode: those of a plain loop over single environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gemax.environments.flattening import flattening_of
from gemax.environments.vector import autoreset_mode_of
from gemax.integrations.learner import Steps
from gemax.integrations.transitions import MOST_AHEAD, Queues, Told, started, stepped

NUM_ENVS, NUM_STEPS = 3, 12


class Counting(gymnasium.Env):
    """Shows how many steps there were in all, and in this episode. Episodes differ in length; one may have one step."""

    observation_space = spaces.Dict({"all": spaces.Box(0, np.inf, ()), "now": spaces.Box(0, np.inf, ())})
    action_space = spaces.Discrete(2)

    def __init__(self, lengths):
        self.lengths, self.episode, self.total = lengths, -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.now = 0
        return self.observation(), {}

    def step(self, action):
        self.now += 1
        self.total += 1
        is_over = self.now == self.lengths[self.episode % len(self.lengths)]
        terminates = self.episode % 2 == 0
        return self.observation(), float(action), is_over and terminates, is_over and not terminates, {}

    def observation(self):
        return {"all": np.float32(self.total), "now": np.float32(self.now)}


LENGTHS = ([3, 2], [1], [4, 1, 2])


def alone(lengths, actions):
    """(seen, action, reward, terminated, truncated, is_first, arrived) of one environment."""
    env, transitions, is_over = Counting(lengths), [], True
    for action in actions:
        is_first = is_over
        if is_over:
            seen, _ = env.reset()
        arrived, reward, terminated, truncated, _ = env.step(action)
        transitions.append(
            (*seen.values(), action, reward, terminated, truncated, is_first, *arrived.values())
        )
        seen, is_over = arrived, terminated or truncated
    return transitions


def together(mode, actions):
    """The same of all environments, read from the vector environment."""
    envs = SyncVectorEnv(
        [lambda lengths=lengths: Counting(lengths) for lengths in LENGTHS], autoreset_mode=mode
    )
    flat, transitions = flattening_of(envs.single_observation_space), [[] for _ in LENGTHS]
    observations, _ = envs.reset()
    position = started(None, flat.flatten(observations), np.ones(NUM_ENVS, bool))
    while min(map(len, transitions)) < NUM_STEPS:
        action = np.asarray(
            [row[len(past) % NUM_STEPS] for row, past in zip(actions, transitions, strict=True)]
        )
        observations, *rest = envs.step(action)
        told = Told(flat.flatten(observations), *rest)
        steps, is_real, position = stepped(mode, flat, position, action, told)
        for i in np.flatnonzero(is_real):
            step = Steps(*(field[0, i] for field in steps))
            facts = (step.action, step.reward, step.terminated, step.truncated, step.is_first)
            transitions[i].append((*step.seen, *facts, *step.arrived))
        ends = told.terminated | told.truncated
        if mode is AutoresetMode.DISABLED and ends.any():
            observations, _ = envs.reset(options={"reset_mask": ends.copy()})
            position = started(position, flat.flatten(observations), ends)
    return [past[:NUM_STEPS] for past in transitions]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_mode_tells_the_transitions_of_a_plain_loop(mode):
    actions = np.random.default_rng(0).integers(2, size=(NUM_ENVS, NUM_STEPS))
    for lengths, row, found in zip(LENGTHS, actions, together(mode, actions), strict=True):
        np.testing.assert_array_equal(np.asarray(found, float), np.asarray(alone(lengths, row), float))


@pytest.mark.parametrize("told", [None, "sometimes"])
def test_an_environment_that_does_not_tell_its_mode_is_refused(told):
    envs = SyncVectorEnv([lambda: Counting([2])])
    envs.metadata = {} if told is None else {"autoreset_mode": told}
    with pytest.raises(ValueError, match=r"autoreset_mode'\] of SyncVectorEnv must be one of .*NEXT_STEP"):
        autoreset_mode_of(envs)


def steps_with(number):
    zero = np.zeros((1, 2), bool)
    return Steps(
        *(np.full((1, 2, 1), number) for _ in range(2)),
        np.zeros((1, 2), int), np.zeros((1, 2)), zero, zero, zero,
    )  # fmt: skip


def test_a_rollout_holds_the_kth_transition_of_every_world_whenever_that_was():
    queues = Queues(num_worlds=2, rollout_length=2)
    for number in range(3):
        queues.push(steps_with(number), np.asarray([True, number != 1]))
        rollout = queues.pop()
        assert (rollout is None) == (number < 2)
    np.testing.assert_array_equal(rollout.seen[..., 0], [[0, 0], [1, 2]])
    ((waiting, is_real),) = queues.waiting()
    np.testing.assert_array_equal(is_real, [True, False])
    assert waiting.seen[0, 0, 0] == 2


def test_a_world_far_ahead_of_another_does_not_fill_the_memory():
    queues = Queues(num_worlds=2, rollout_length=2)
    for number in range(100):
        queues.push(steps_with(number), np.asarray([True, False]))
        assert len(queues.waiting()) <= 2 * MOST_AHEAD
    assert queues.waiting()[0][0].is_first[0, 0]


def random_steps(draw, num_worlds):
    shape = (1, num_worlds)
    flags = (draw.random(shape) < 0.3 for _ in range(3))
    return Steps(
        *(draw.normal(size=(*shape, 2)).astype(np.float32) for _ in range(2)),
        draw.integers(4, size=shape).astype(np.int32), draw.normal(size=shape).astype(np.float32), *flags,
    )  # fmt: skip


def test_rollouts_are_those_of_a_plain_list_of_transitions_for_every_world():
    length, often = 3, np.asarray([1.0, 0.9, 0.3, 0.05])
    draw, queues = np.random.default_rng(0), Queues(len(often), length)
    plain: list[list[Steps]] = [[] for _ in often]
    num_rollouts, num_left_out = 0, 0
    for _ in range(800):
        steps, is_real = random_steps(draw, len(often)), draw.random(len(often)) < often
        queues.push(steps, is_real)
        for i in np.flatnonzero(is_real):
            plain[i].append(Steps(*(field[0, i] for field in steps)))
            if len(plain[i]) > MOST_AHEAD * length:
                plain[i] = plain[i][length:]
                plain[i][0] = plain[i][0]._replace(is_first=np.True_)
                num_left_out += 1
        rollout = queues.pop()
        assert (rollout is None) == (min(map(len, plain)) < length)
        if rollout is not None:
            num_rollouts += 1
            for i, past in enumerate(plain):
                for field, column in zip(rollout, zip(*past[:length], strict=True), strict=True):
                    assert field.shape[:2] == (length, len(often))
                    np.testing.assert_array_equal(field[:, i], column)
            plain = [past[length:] for past in plain]
        waiting = queues.waiting()
        assert len(waiting) == max(map(len, plain))
        for k, (row, is_there) in enumerate(waiting):
            np.testing.assert_array_equal(is_there, [len(past) > k for past in plain])
            for i in np.flatnonzero(is_there):
                for field, value in zip(row, plain[i][k], strict=True):
                    np.testing.assert_array_equal(field[0, i], value)
    assert num_rollouts > 5
    assert num_left_out > 5

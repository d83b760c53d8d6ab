"""Every autoreset mode gives the transitions of a plain loop over single environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gemax.envs.host.autoreset import autoreset_mode, interpret_step, resets_next, where_env
from gemax.envs.host.observations import observation_encoder
from gemax.errors import EnvFault

NUM_ENVS, NUM_STEPS = 3, 12


class Counting(gymnasium.Env):
    """Observes the number of steps in total and in this episode. Episodes have different lengths, from one step on."""

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


def plain_transitions(lengths, actions):
    """Returns (observation, action, reward, terminated, truncated, is_first, next_observation) of one environment."""
    env, transitions, is_over = Counting(lengths), [], True
    for action in actions:
        is_first = is_over
        if is_over:
            observation, _ = env.reset()
        next_observation, reward, terminated, truncated, _ = env.step(action)
        flags = (action, reward, terminated, truncated, is_first)
        transitions.append((*observation.values(), *flags, *next_observation.values()))
        observation, is_over = next_observation, terminated or truncated
    return transitions


def vector_transitions(mode, actions):
    """Returns the same for all environments of a vector environment."""
    envs = SyncVectorEnv(
        [lambda lengths=lengths: Counting(lengths) for lengths in LENGTHS], autoreset_mode=mode
    )
    encoder, transitions = observation_encoder(envs.single_observation_space), [[] for _ in LENGTHS]
    observation = encoder.encode(envs.reset()[0])
    is_first, resets_now = np.ones(NUM_ENVS, bool), np.zeros(NUM_ENVS, bool)
    while min(map(len, transitions)) < NUM_STEPS:
        action = np.asarray(
            [row[len(past) % NUM_STEPS] for row, past in zip(actions, transitions, strict=True)]
        )
        step = interpret_step(mode, encoder, resets_now, envs.step(action))
        for i in np.flatnonzero(step.is_valid):
            flags = (action[i], step.reward[i], step.terminated[i], step.truncated[i], is_first[i])
            transitions[i].append((*observation[i], *flags, *step.next_observation[i]))
        observation, is_first, resets_now = step.current_observation, step.is_first, resets_next(mode, step)
        ends = step.terminated | step.truncated
        if mode is AutoresetMode.DISABLED and ends.any():
            observations, _ = envs.reset(options={"reset_mask": ends.copy()})
            observation, is_first = where_env(ends, encoder.encode(observations), observation), ends
    return [past[:NUM_STEPS] for past in transitions]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.fault(29)
def test_every_mode_gives_the_transitions_of_a_plain_loop(mode):
    actions = np.random.default_rng(0).integers(2, size=(NUM_ENVS, NUM_STEPS))
    for lengths, row, found in zip(LENGTHS, actions, vector_transitions(mode, actions), strict=True):
        np.testing.assert_array_equal(
            np.asarray(found, float), np.asarray(plain_transitions(lengths, row), float)
        )


def test_the_mode_same_step_needs_the_terminal_observation():
    envs = SyncVectorEnv([lambda: Counting([1])], autoreset_mode=AutoresetMode.SAME_STEP)
    encoder = observation_encoder(envs.single_observation_space)
    envs.reset()
    *result, _ = envs.step(np.zeros(1, int))
    with pytest.raises(EnvFault, match=r"infos\['final_obs'\]; its infos are empty"):
        interpret_step(AutoresetMode.SAME_STEP, encoder, np.zeros(1, bool), (*result, {}))


@pytest.mark.parametrize("mode", [None, "sometimes"])
def test_a_vector_environment_must_declare_its_mode(mode):
    envs = SyncVectorEnv([lambda: Counting([2])])
    envs.metadata = {} if mode is None else {"autoreset_mode": mode}
    with pytest.raises(ValueError, match=r"autoreset_mode'\] of SyncVectorEnv must be one of .*NEXT_STEP"):
        autoreset_mode(envs)

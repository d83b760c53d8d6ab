"""Vector environments return the transitions of single ones in every autoreset mode, each end exactly once."""

import copy
import pickle
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded, UnsupportedMode
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, FlattenObservation, RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

from gemax.integrations.gymnasium import GemaxVectorEnv

MODES = list(AutoresetMode)
NEXT_STEP, SAME_STEP, DISABLED = MODES
NUM_ENVS = 3
NO_OP, LEFT, RIGHT = 0, 3, 4
CORRIDOR = {"map": "S..G\n", "horizon": 5, "observation": "cells"}
ONE_STEP = {"map": "GSG\n", "horizon": 1, "observation": "cells"}


class Case(NamedTuple):
    environment: str
    settings: dict
    num_steps: int
    """Enough steps for every environment to finish an episode and start the next one."""


CASES = {
    "corridor": Case("gemax/Map-v0", CORRIDOR, 30),
    "one-step": Case("gemax/Map-v0", ONE_STEP, 10),
    "two-rooms-noisy": Case("gemax/TwoRoomsNoisy-v0", {"observation": "cells"}, 70),
    "sixteen-leaves": Case("gemax/SixteenLeaves-v0", {"observation": "cells"}, 40),
    "cartpole-swingup": Case("gemax/CartpoleSwingup-v0", {"x_threshold": 0.08}, 150),
    "mountain-car": Case("gemax/MountainCar-v0", {}, 1010),
}


class Transition(NamedTuple):
    """One transition of one environment."""

    before: np.ndarray
    action: int
    reward: float
    terminated: bool
    truncated: bool
    after: np.ndarray


def make(case, mode, num_envs=NUM_ENVS):
    return gymnasium.make_vec(case.environment, num_envs, autoreset_mode=mode, **case.settings)


def actions_of(envs, num_steps):
    """Returns the k-th action of each environment. Resets take no action."""
    num_actions = envs.single_action_space.n
    # The last action is three times as likely as the others, so that episodes end at different times.
    drawn = np.random.default_rng(0).integers(num_actions + 2, size=(envs.num_envs, num_steps))
    return np.minimum(drawn, num_actions - 1)


def single_transitions(env, seed, actions):
    """Returns the transitions of one environment: a plain loop over its pure functions."""
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    generator, _ = np_random(seed)
    transitions, is_over = [], True
    for action in actions:
        if is_over:
            words, draw = generator.integers(2**32, size=2, dtype=np.uint32), 0
            state, timestep = reset(jax.random.wrap_key_data(words))
        draw += 1
        before = np.asarray(timestep.observation)
        key = jax.random.wrap_key_data(words + np.array([0, draw], np.uint32))
        state, timestep = step(key, state, action)
        facts = (float(timestep.reward), bool(timestep.terminated), bool(timestep.truncated))
        transitions.append(Transition(before, int(action), *facts, np.asarray(timestep.observation)))
        is_over = facts[1] or facts[2]
    return transitions


def vector_transitions(envs, seed, actions):
    """Returns the transitions of each environment, reading the autoreset mode as Gymnasium documents it."""
    mode = envs.metadata["autoreset_mode"]
    transitions = [[] for _ in range(envs.num_envs)]
    observations, _ = envs.reset(seed=seed)
    starts_now = np.zeros(envs.num_envs, bool)
    while min(map(len, transitions)) < actions.shape[1]:
        taken = np.array([row[len(past) % len(row)] for row, past in zip(actions, transitions, strict=True)])
        following, rewards, terminated, truncated, infos = envs.step(taken)
        over = terminated | truncated
        after = following.copy()
        if mode is SAME_STEP:
            assert ("final_obs" in infos) == over.any()
            np.testing.assert_array_equal(infos.get("_final_obs", np.zeros_like(over)), over)
            for i in np.flatnonzero(over):
                after[i] = infos["final_obs"][i]
        for i in range(envs.num_envs):
            if starts_now[i]:
                assert (rewards[i], over[i]) == (0, False)
            else:
                facts = (float(rewards[i]), bool(terminated[i]), bool(truncated[i]))
                transitions[i].append(Transition(observations[i], int(taken[i]), *facts, after[i]))
        if mode is NEXT_STEP:
            starts_now = over
        if mode is DISABLED and over.any():
            following, _ = envs.reset(options={"reset_mask": over})
        observations = following
    return [past[: actions.shape[1]] for past in transitions]


def assert_same_transitions(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one[1:5] == pytest.approx(other[1:5])
        np.testing.assert_allclose(one.before, other.before, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one.after, other.after, rtol=1e-5, atol=1e-6)


def assert_same_infos(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, dict):
            assert_same_infos(value, second[name])
        elif name == "final_obs":
            assert [entry is None for entry in value] == [entry is None for entry in second[name]]
            for one, other in zip(value, second[name], strict=True):
                np.testing.assert_equal(one, other)
        else:
            assert value.dtype == second[name].dtype, name
            np.testing.assert_array_equal(value, second[name])


@pytest.fixture(scope="module")
def references():
    """Computes the transitions of single environments on first use."""
    known = {}

    def reference(name, envs, actions):
        if name not in known:
            env = envs.unwrapped.jax_env
            known[name] = [single_transitions(env, 7 + i, row) for i, row in enumerate(actions)]
        return known[name]

    return reference


@pytest.fixture(scope="module")
def corridors():
    """One vector environment per autoreset mode for many tests. Each test starts with a reset."""
    return {mode: make(CASES["corridor"], mode) for mode in MODES}


@pytest.fixture(scope="module")
def cell_of_image(corridors):
    """Maps the bytes of an observation to the cell of the agent."""
    env = corridors[NEXT_STEP].unwrapped.jax_env
    state, timestep = env.reset(jax.random.key(0))
    images = [timestep.observation]
    for _ in range(3):
        state, timestep = env.step(jax.random.key(0), state, jnp.array(RIGHT))
        images.append(timestep.observation)
    cells = {np.asarray(image).tobytes(): cell for cell, image in enumerate(images)}
    assert len(cells) == 4
    return cells


# Transitions


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_transitions_equal_those_of_a_plain_loop(name, mode, references):
    envs = make(CASES[name], mode)
    actions = actions_of(envs, CASES[name].num_steps)
    expected = references(name, envs, actions)
    assert all(any(t.terminated or t.truncated for t in past[:-2]) for past in expected)
    for past, single_past in zip(vector_transitions(envs, 7, actions), expected, strict=True):
        assert_same_transitions(past, single_past)


@given(
    rows=st.lists(
        st.lists(st.sampled_from([NO_OP, LEFT, RIGHT, RIGHT]), min_size=12, max_size=12),
        min_size=NUM_ENVS,
        max_size=NUM_ENVS,
    ),
    seed=st.integers(0, 2**31),
)
def test_every_end_is_returned_exactly_once_in_every_mode(corridors, cell_of_image, rows, seed):
    """Compares with a corridor written by hand: cells 0 to 3, the reward on 3, a horizon of five steps."""
    for mode in MODES:
        for row, past in zip(rows, vector_transitions(corridors[mode], seed, np.array(rows)), strict=True):
            cell = time = 0
            for action, transition in zip(row, past, strict=True):
                assert cell_of_image[transition.before.tobytes()] == cell
                cell, time = min(max(cell + (action == RIGHT) - (action == LEFT), 0), 3), time + 1
                terminated = cell == 3
                truncated = time == 5 and not terminated
                assert transition[2:5] == (float(terminated), terminated, truncated)
                assert cell_of_image[transition.after.tobytes()] == cell
                if terminated or truncated:
                    cell = time = 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["corridor", "one-step", "two-rooms-noisy", "sixteen-leaves"])
def test_the_layout_is_that_of_gymnasium_sync_vector_env(name, mode):
    case = CASES[name]
    envs = make(case, mode)
    reference = gymnasium.make_vec(
        case.environment,
        NUM_ENVS,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **case.settings,
    )
    assert isinstance(reference, SyncVectorEnv)
    assert envs.observation_space == reference.observation_space
    assert envs.action_space == reference.action_space
    answers = [e.reset(seed=[4, 2, 9]) for e in (envs, reference)]
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    assert_same_infos(answers[0][1], answers[1][1])
    for actions in actions_of(envs, case.num_steps).T:
        answers = [e.step(actions) for e in (envs, reference)]
        for ours, theirs in zip(answers[0][:4], answers[1][:4], strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        assert_same_infos(answers[0][4], answers[1][4])
        over = answers[0][2] | answers[0][3]
        if mode is DISABLED and over.any():
            answers = [e.reset(options={"reset_mask": over.copy()}) for e in (envs, reference)]
            np.testing.assert_array_equal(answers[0][0], answers[1][0])
            assert_same_infos(answers[0][1], answers[1][1])


def test_same_step_keeps_the_info_of_the_last_step(corridors):
    envs = corridors[SAME_STEP]
    envs.reset(seed=0)
    for action in (RIGHT, RIGHT, RIGHT):
        _, rewards, _, _, infos = envs.step(np.array([action, NO_OP, action]))
    np.testing.assert_array_equal(rewards, [1, 0, 1])
    np.testing.assert_array_equal(infos["final_info"]["cell"], [3, 0, 3])
    np.testing.assert_array_equal(infos["_final_info"], [True, False, True])
    np.testing.assert_array_equal(infos["cell"], [0, 0, 0])


# Seeds


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_run(mode):
    envs = make(CASES["two-rooms-noisy"], mode)
    actions = actions_of(envs, 40)
    for first, second in zip(
        vector_transitions(envs, 5, actions), vector_transitions(envs, 5, actions), strict=True
    ):
        assert_same_transitions(first, second)


def test_one_seed_stands_for_consecutive_seeds():
    envs = make(CASES["cartpole-swingup"], NEXT_STEP)
    consecutive, listed = envs.reset(seed=5)[0], envs.reset(seed=[5, 6, 7])[0]
    np.testing.assert_array_equal(consecutive, listed)
    assert envs.np_random_seed == (5, 6, 7)
    assert len({start.tobytes() for start in listed}) == NUM_ENVS


def test_without_seeds_the_generators_continue():
    envs = make(CASES["cartpole-swingup"], NEXT_STEP)
    first, second = envs.reset(seed=5)[0], envs.reset()[0]
    assert not np.any(np.all(first == second, axis=1))
    third, _ = envs.reset(seed=[None, 6, None])
    np.testing.assert_array_equal(third[1], first[1])
    assert not np.array_equal(third[0], first[0])
    envs.reset(seed=5)
    np.testing.assert_array_equal(envs.reset()[0], second)


def test_environments_without_a_seed_differ():
    starts = make(CASES["cartpole-swingup"], NEXT_STEP).reset()[0]
    assert len({start.tobytes() for start in starts}) == NUM_ENVS


# Partial resets


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_resets_some_environments_and_leaves_the_others(mode, corridors):
    envs = corridors[mode]
    envs.reset(seed=0)
    observations, *_ = envs.step(np.array([RIGHT, RIGHT, RIGHT]))
    options = {"reset_mask": np.array([False, True, False])}
    after, infos = envs.reset(options=options)
    np.testing.assert_array_equal(after[[0, 2]], observations[[0, 2]])
    np.testing.assert_array_equal(infos["_cell"], options["reset_mask"])
    *_, infos = envs.step(np.array([RIGHT, RIGHT, RIGHT]))
    np.testing.assert_array_equal(infos["cell"], [2, 1, 2])


def test_an_episode_reset_by_hand_is_not_reset_again(corridors):
    envs = corridors[NEXT_STEP]
    envs.reset(seed=0)
    for _ in range(3):
        _, _, terminated, _, _ = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    envs.reset(options={"reset_mask": terminated})
    *_, infos = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    assert infos["cell"][0] == 1


# Gymnasium's wrappers


@pytest.mark.parametrize("mode", MODES)
def test_record_episode_statistics_counts_episodes_correctly(mode):
    envs = RecordEpisodeStatistics(make(CASES["corridor"], mode))
    actions = actions_of(envs, CASES["corridor"].num_steps)
    lengths, returns = [], []
    for past in vector_transitions(envs, 7, actions):
        ends = [k for k, transition in enumerate(past) if transition.terminated or transition.truncated]
        lengths += np.diff([-1, *ends]).tolist()
        returns += [past[k].reward for k in ends]
    recorded = sorted(zip(map(int, envs.length_queue), map(float, envs.return_queue), strict=True))
    # An environment may have taken more steps than are compared.
    assert all(recorded.count(pair) >= count for pair, count in counted(lengths, returns).items())
    assert len(recorded) - len(lengths) <= NUM_ENVS


def counted(lengths, returns):
    pairs = list(zip(lengths, returns, strict=True))
    return {pair: pairs.count(pair) for pair in pairs}


def test_flatten_observation_works():
    envs = FlattenObservation(make(CASES["corridor"], NEXT_STEP))
    assert envs.reset(seed=0)[0].shape == (NUM_ENVS, np.prod(envs.unwrapped.single_observation_space.shape))


def test_dict_info_to_list_works():
    envs = DictInfoToList(make(CASES["corridor"], SAME_STEP))
    envs.reset(seed=0)
    for _ in range(3):
        *_, infos = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    assert [info["cell"] for info in infos] == [0, 0, 0]
    assert infos[0]["final_info"]["cell"] == 3
    assert infos[0]["final_obs"] in envs.single_observation_space
    assert "final_obs" not in infos[1]


# gymnasium.make_vec


def test_make_vec_returns_the_compiled_environment_with_its_mode():
    for mode in (*MODES, "SameStep"):
        envs = make(CASES["corridor"], mode)
        assert isinstance(envs, GemaxVectorEnv)
        assert envs.metadata["autoreset_mode"] is AutoresetMode(mode)
    envs = gymnasium.make_vec("gemax/TwoRooms-v0", num_envs=8, vectorization_mode="vector_entry_point")
    assert envs.metadata["autoreset_mode"] is NEXT_STEP
    assert envs.observation_space.shape == (8, 72, 56, 3)


def test_a_vector_environment_is_made_again_from_its_spec():
    envs = make(CASES["corridor"], "SameStep")
    again = gymnasium.make_vec(pickle.loads(pickle.dumps(envs.spec)))
    assert (again.num_envs, again.metadata) == (envs.num_envs, envs.metadata)
    assert again.unwrapped._compiled is envs.unwrapped._compiled


def test_a_copy_continues_from_the_middle_of_its_episodes():
    envs = make(CASES["two-rooms-noisy"], SAME_STEP)
    envs.reset(seed=0)
    actions = actions_of(envs, 40).T
    for action in actions[:10]:
        envs.step(action)
    other = copy.deepcopy(envs)
    for action in actions[10:]:
        np.testing.assert_array_equal(envs.step(action)[0], other.step(action)[0])


def test_step_is_compiled_once_per_number_of_environments():
    case = Case("gemax/Map-v0", {"map": "SG\n", "horizon": 2}, 0)
    for mode in MODES:
        envs = make(case, mode)
        envs.reset(seed=0)
        envs.step(np.zeros(NUM_ENVS, int))
    assert envs.unwrapped._compiled.step_all._cache_size() == 1


def test_an_image_is_rendered_for_every_environment():
    envs = gymnasium.make_vec("gemax/Map-v0", NUM_ENVS, render_mode="rgb_array", **CORRIDOR)
    envs.reset(seed=0)
    envs.step(np.array([RIGHT, NO_OP, RIGHT]))
    images = envs.render()
    assert len(images) == NUM_ENVS
    np.testing.assert_array_equal(images[0], images[2])
    assert not np.array_equal(images[0], images[1])


# Errors


def test_an_ended_episode_must_be_reset_if_autoreset_is_disabled(corridors):
    envs = corridors[DISABLED]
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(np.array([NO_OP, RIGHT, RIGHT]))
    with pytest.raises(ResetNeeded, match=r"environments \[1, 2\] are over.*reset_mask"):
        envs.step(np.zeros(NUM_ENVS, int))


def test_step_render_and_partial_reset_before_the_first_reset_are_errors():
    envs = gymnasium.make_vec("gemax/Map-v0", NUM_ENVS, render_mode="rgb_array", **CORRIDOR)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        envs.step(np.zeros(NUM_ENVS, int))
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        envs.render()
    with pytest.raises(ResetNeeded, match="the first reset"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 7, 0], r"action must be 0\.\.4; got 7 for environment 1\."),
        ([0, 0, -1], r"action must be 0\.\.4; got -1 for environment 2\."),
        ([0, 0], r"actions must be 3 integers.*got shape \(2,\)"),
        ([0.5, 0.0, 0.0], r"actions must be 3 integers.*of float64"),
    ],
)
def test_wrong_actions_are_refused(actions, message, corridors):
    corridors[NEXT_STEP].reset(seed=0)
    with pytest.raises(InvalidAction, match=message):
        corridors[NEXT_STEP].step(np.array(actions))


@pytest.mark.parametrize(
    "mask", [np.zeros(NUM_ENVS, bool), np.ones(NUM_ENVS - 1, bool), np.ones(NUM_ENVS, int)]
)
def test_a_wrong_mask_is_refused(mask, corridors):
    corridors[DISABLED].reset(seed=0)
    with pytest.raises(ValueError, match="reset_mask'] must be 3 booleans, at least one of them true"):
        corridors[DISABLED].reset(options={"reset_mask": mask})


def test_the_number_of_seeds_must_be_the_number_of_environments(corridors):
    with pytest.raises(ValueError, match="seed must hold 3 seeds, one for each environment; got 2"):
        corridors[NEXT_STEP].reset(seed=[1, 2])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs must be at least 1; got 0"),
        ({"autoreset_mode": "NextSteps"}, ValueError, "NextStep, SameStep, Disabled.*Did you mean NextStep?"),
        ({"render_mode": "human"}, UnsupportedMode, "A window shows one environment"),
        (
            {"max_episode_steps": 5},
            ValueError,
            "no setting 'max_episode_steps'; it has observation, reward_free",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_ones(settings, error, message):
    with pytest.raises(error, match=message):
        gymnasium.make_vec("gemax/TwoRooms-v0", **settings)

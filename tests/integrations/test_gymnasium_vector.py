"""Many worlds at once tell what each would tell alone, whatever the autoreset mode: each end exactly once."""

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

from gemax.integrations.gymnasium import WorldVectorEnv

MODES = list(AutoresetMode)
NEXT_STEP, SAME_STEP, DISABLED = MODES
NUM_ENVS = 3
NO_OP, LEFT, RIGHT = 0, 3, 4
CORRIDOR = {"map": "S..G\n", "horizon": 5, "observation": "squares"}
ONE_STEP = {"map": "GSG\n", "horizon": 1, "observation": "squares"}


class Case(NamedTuple):
    environment: str
    settings: dict
    num_steps: int
    """Enough for an end in every environment, and for the start of the episode after it."""


CASES = {
    "corridor": Case("gemax/Map-v0", CORRIDOR, 30),
    "one-step": Case("gemax/Map-v0", ONE_STEP, 10),
    "two-rooms-noisy": Case("gemax/TwoRoomsNoisy-v0", {"observation": "squares"}, 70),
    "sixteen-leaves": Case("gemax/SixteenLeaves-v0", {"observation": "squares"}, 40),
    "cartpole-swingup": Case("gemax/CartpoleSwingup-v0", {"x_threshold": 0.08}, 150),
    "mountain-car": Case("gemax/MountainCar-v0", {}, 1010),
}


class Transition(NamedTuple):
    """What an agent learns from."""

    before: np.ndarray
    action: int
    reward: float
    terminated: bool
    truncated: bool
    after: np.ndarray


def make(case, mode, num_envs=NUM_ENVS):
    return gymnasium.make_vec(case.environment, num_envs, autoreset_mode=mode, **case.settings)


def actions_of(envs, num_steps):
    """The k-th action that each environment takes. Resets take none."""
    num_actions = envs.single_action_space.n
    # The last action is three times as likely as the others. It leads somewhere, so episodes end at different times.
    drawn = np.random.default_rng(0).integers(num_actions + 2, size=(envs.num_envs, num_steps))
    return np.minimum(drawn, num_actions - 1)


def alone(world, seed, actions):
    """The transitions of one environment: a plain loop over the pure functions of its world."""
    reset, step = jax.jit(world.reset), jax.jit(world.step)
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


def together(envs, seed, actions):
    """The transitions of each environment under its autoreset mode, read as Gymnasium documents that mode."""
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
    """The transitions of every world and every environment alone, computed when they are asked for."""
    known = {}

    def reference(name, envs, actions):
        if name not in known:
            world = envs.unwrapped.world
            known[name] = [alone(world, 7 + i, row) for i, row in enumerate(actions)]
        return known[name]

    return reference


@pytest.fixture(scope="module")
def corridors():
    """One of each autoreset mode for many tests: each starts with a reset."""
    return {mode: make(CASES["corridor"], mode) for mode in MODES}


@pytest.fixture(scope="module")
def square_of_image(corridors):
    """Which square of the corridor an observation shows the agent on."""
    world = corridors[NEXT_STEP].unwrapped.world
    state, timestep = world.reset(jax.random.key(0))
    images = [timestep.observation]
    for _ in range(3):
        state, timestep = world.step(jax.random.key(0), state, jnp.array(RIGHT))
        images.append(timestep.observation)
    squares = {np.asarray(image).tobytes(): square for square, image in enumerate(images)}
    assert len(squares) == 4
    return squares


# Transitions


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_transitions_are_those_of_a_plain_loop(name, mode, references):
    envs = make(CASES[name], mode)
    actions = actions_of(envs, CASES[name].num_steps)
    expected = references(name, envs, actions)
    assert all(any(t.terminated or t.truncated for t in past[:-2]) for past in expected)
    for past, alone_past in zip(together(envs, 7, actions), expected, strict=True):
        assert_same_transitions(past, alone_past)


@given(
    rows=st.lists(
        st.lists(st.sampled_from([NO_OP, LEFT, RIGHT, RIGHT]), min_size=12, max_size=12),
        min_size=NUM_ENVS,
        max_size=NUM_ENVS,
    ),
    seed=st.integers(0, 2**31),
)
def test_ends_arrive_exactly_once_in_every_mode(corridors, square_of_image, rows, seed):
    """Against the corridor written out by hand: squares 0 to 3, the reward on 3, five steps of time."""
    for mode in MODES:
        for row, past in zip(rows, together(corridors[mode], seed, np.array(rows)), strict=True):
            square = time = 0
            for action, transition in zip(row, past, strict=True):
                assert square_of_image[transition.before.tobytes()] == square
                square, time = min(max(square + (action == RIGHT) - (action == LEFT), 0), 3), time + 1
                terminated = square == 3
                truncated = time == 5 and not terminated
                assert transition[2:5] == (float(terminated), terminated, truncated)
                assert square_of_image[transition.after.tobytes()] == square
                if terminated or truncated:
                    square = time = 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["corridor", "one-step", "two-rooms-noisy", "sixteen-leaves"])
def test_everything_is_laid_out_as_by_gymnasiums_own_vector_environment(name, mode):
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


def test_info_of_the_last_step_is_kept_where_the_episode_restarts_at_once(corridors):
    envs = corridors[SAME_STEP]
    envs.reset(seed=0)
    for action in (RIGHT, RIGHT, RIGHT):
        _, rewards, _, _, infos = envs.step(np.array([action, NO_OP, action]))
    np.testing.assert_array_equal(rewards, [1, 0, 1])
    np.testing.assert_array_equal(infos["final_info"]["square"], [3, 0, 3])
    np.testing.assert_array_equal(infos["_final_info"], [True, False, True])
    np.testing.assert_array_equal(infos["square"], [0, 0, 0])


# Seeds


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_run(mode):
    envs = make(CASES["two-rooms-noisy"], mode)
    actions = actions_of(envs, 40)
    for first, second in zip(together(envs, 5, actions), together(envs, 5, actions), strict=True):
        assert_same_transitions(first, second)


def test_a_number_seeds_the_environments_one_after_another():
    envs = make(CASES["cartpole-swingup"], NEXT_STEP)
    consecutive, listed = envs.reset(seed=5)[0], envs.reset(seed=[5, 6, 7])[0]
    np.testing.assert_array_equal(consecutive, listed)
    assert envs.np_random_seed == (5, 6, 7)
    assert len({start.tobytes() for start in listed}) == NUM_ENVS


def test_without_seeds_the_generators_go_on():
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
def test_a_mask_resets_some_and_leaves_the_others_where_they_are(mode, corridors):
    envs = corridors[mode]
    envs.reset(seed=0)
    observations, *_ = envs.step(np.array([RIGHT, RIGHT, RIGHT]))
    options = {"reset_mask": np.array([False, True, False])}
    after, infos = envs.reset(options=options)
    np.testing.assert_array_equal(after[[0, 2]], observations[[0, 2]])
    np.testing.assert_array_equal(infos["_square"], options["reset_mask"])
    *_, infos = envs.step(np.array([RIGHT, RIGHT, RIGHT]))
    np.testing.assert_array_equal(infos["square"], [2, 1, 2])


def test_an_end_that_was_reset_by_hand_is_not_reset_again(corridors):
    envs = corridors[NEXT_STEP]
    envs.reset(seed=0)
    for _ in range(3):
        _, _, terminated, _, _ = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    envs.reset(options={"reset_mask": terminated})
    *_, infos = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    assert infos["square"][0] == 1


# Gymnasium's wrappers


@pytest.mark.parametrize("mode", MODES)
def test_gymnasium_counts_episodes_right(mode):
    envs = RecordEpisodeStatistics(make(CASES["corridor"], mode))
    actions = actions_of(envs, CASES["corridor"].num_steps)
    lengths, returns = [], []
    for past in together(envs, 7, actions):
        ends = [k for k, transition in enumerate(past) if transition.terminated or transition.truncated]
        lengths += np.diff([-1, *ends]).tolist()
        returns += [past[k].reward for k in ends]
    recorded = sorted(zip(map(int, envs.length_queue), map(float, envs.return_queue), strict=True))
    # One environment may have gone on beyond the steps that are compared.
    assert all(recorded.count(pair) >= count for pair, count in counted(lengths, returns).items())
    assert len(recorded) - len(lengths) <= NUM_ENVS


def counted(lengths, returns):
    pairs = list(zip(lengths, returns, strict=True))
    return {pair: pairs.count(pair) for pair in pairs}


def test_gymnasium_flattens_observations():
    envs = FlattenObservation(make(CASES["corridor"], NEXT_STEP))
    assert envs.reset(seed=0)[0].shape == (NUM_ENVS, np.prod(envs.unwrapped.single_observation_space.shape))


def test_gymnasium_takes_infos_apart():
    envs = DictInfoToList(make(CASES["corridor"], SAME_STEP))
    envs.reset(seed=0)
    for _ in range(3):
        *_, infos = envs.step(np.array([RIGHT, NO_OP, NO_OP]))
    assert [info["square"] for info in infos] == [0, 0, 0]
    assert infos[0]["final_info"]["square"] == 3
    assert infos[0]["final_obs"] in envs.single_observation_space
    assert "final_obs" not in infos[1]


# Making


def test_make_vec_gives_the_compiled_environment_and_tells_its_mode():
    for mode in (*MODES, "SameStep"):
        envs = make(CASES["corridor"], mode)
        assert isinstance(envs, WorldVectorEnv)
        assert envs.metadata["autoreset_mode"] is AutoresetMode(mode)
    envs = gymnasium.make_vec("gemax/TwoRooms-v0", num_envs=8, vectorization_mode="vector_entry_point")
    assert envs.metadata["autoreset_mode"] is NEXT_STEP
    assert envs.observation_space.shape == (8, 72, 56, 3)


def test_a_vector_environment_is_made_again_from_its_spec():
    envs = make(CASES["corridor"], "SameStep")
    again = gymnasium.make_vec(pickle.loads(pickle.dumps(envs.spec)))
    assert (again.num_envs, again.metadata) == (envs.num_envs, envs.metadata)
    assert again.unwrapped._compiled is envs.unwrapped._compiled


def test_a_copy_goes_on_from_the_middle_of_its_episodes():
    envs = make(CASES["two-rooms-noisy"], SAME_STEP)
    envs.reset(seed=0)
    actions = actions_of(envs, 40).T
    for action in actions[:10]:
        envs.step(action)
    other = copy.deepcopy(envs)
    for action in actions[10:]:
        np.testing.assert_array_equal(envs.step(action)[0], other.step(action)[0])


def test_steps_of_environments_of_one_size_are_compiled_once():
    case = Case("gemax/Map-v0", {"map": "SG\n", "horizon": 2}, 0)
    for mode in MODES:
        envs = make(case, mode)
        envs.reset(seed=0)
        envs.step(np.zeros(NUM_ENVS, int))
    assert envs.unwrapped._compiled.proceed_all._cache_size() == 1


def test_a_picture_is_rendered_for_every_environment():
    envs = gymnasium.make_vec("gemax/Map-v0", NUM_ENVS, render_mode="rgb_array", **CORRIDOR)
    envs.reset(seed=0)
    envs.step(np.array([RIGHT, NO_OP, RIGHT]))
    pictures = envs.render()
    assert len(pictures) == NUM_ENVS
    np.testing.assert_array_equal(pictures[0], pictures[2])
    assert not np.array_equal(pictures[0], pictures[1])


# Errors


def test_an_environment_that_is_over_must_be_reset_where_nothing_resets_it(corridors):
    envs = corridors[DISABLED]
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(np.array([NO_OP, RIGHT, RIGHT]))
    with pytest.raises(ResetNeeded, match=r"environments \[1, 2\] are over.*reset_mask"):
        envs.step(np.zeros(NUM_ENVS, int))


def test_there_is_nothing_to_step_to_see_or_to_reset_in_part_before_the_first_reset():
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
        ([0, 0], r"actions must be 3 whole numbers.*got shape \(2,\)"),
        ([0.5, 0.0, 0.0], r"actions must be 3 whole numbers.*of float64"),
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
    with pytest.raises(ValueError, match="reset_mask'] must be 3 truth values, at least one of them true"):
        corridors[DISABLED].reset(options={"reset_mask": mask})


def test_seeds_must_be_as_many_as_environments(corridors):
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
def test_a_wrong_setting_is_refused_with_what_is_right(settings, error, message):
    with pytest.raises(error, match=message):
        gymnasium.make_vec("gemax/TwoRooms-v0", **settings)

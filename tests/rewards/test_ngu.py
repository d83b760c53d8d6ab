import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.rewards.references import Ngu, Rnd, at_steps, dense_layers

from gemax.core.moments import Moments
from gemax.networks import mlp
from gemax.rewards.combine import modulator, ngu_rnd
from gemax.rewards.ngu import NguSettings, empty_memory, episodic_novelty, ngu
from gemax.rewards.rnd import RndSettings, distillation
from gemax.testing import example_transitions, slice_steps, without_table

ENVS, ROWS, STEPS, ROLLOUTS, ACTIONS, RATE, SCALE = 3, 9, 7, 4, 4, 0.1, 0.5
NETWORK = mlp((6, 4))
SETTINGS = NguSettings(hidden_size=8, distance_decay=0.9)
EPSILON, CLUSTER, C = SETTINGS.kernel_epsilon, SETTINGS.cluster_distance, SETTINGS.pseudo_count


def rows_of():
    return jax.random.normal(jax.random.key(7), (ROWS, 3))


def rollouts(table=True):
    """Returns rollouts with episodes of 1 to 12 steps, which start and end anywhere."""
    whole = example_transitions(1, rows_of(), ENVS, STEPS * ROLLOUTS, num_actions=ACTIONS)
    parts = [slice_steps(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]
    return parts if table else [without_table(part) for part in parts]


def to_numpy(transitions):
    observations = [
        at_steps(observation, ENVS) for observation in (transitions.observation, transitions.next_observation)
    ]
    return *observations, np.asarray(transitions.action), np.asarray(transitions.is_first)


METHOD = ngu(NETWORK, ACTIONS, 12, optax.sgd(RATE), SCALE, SETTINGS)
METHOD = METHOD._replace(step=jax.jit(METHOD.step))


def assert_equals_reference(method, reference, table, key):
    """Compares the rewards of all rollouts and the parameters after them. Returns the rewards."""
    state, rewards = method.init(key, rows_of(), ENVS), []
    reference = reference(state.parameters)
    for transitions in rollouts(table):
        reward, state, _ = method.step(state, transitions, key)
        np.testing.assert_allclose(
            reward, SCALE * reference.step(*to_numpy(transitions)), rtol=1e-5, atol=1e-6
        )
        rewards.append(np.asarray(reward))
    for name, layers in (("embedding", reference.f), ("action", reference.h)):
        for found, expected in zip(dense_layers(state.parameters[name]), layers, strict=True):
            for weight, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)
    return np.stack(rewards)


@pytest.mark.parametrize("table", [True, False])
def test_rewards_and_learning_equal_algorithm_1(table, key):
    rewards = assert_equals_reference(
        METHOD,
        lambda parameters: Ngu(parameters, ENVS, RATE, k=10, s_max=8, capacity=12, decay=0.9),
        table,
        key,
    )
    assert (rewards > 0).all()


def test_few_neighbours_a_small_memory_and_a_low_limit_equal_algorithm_1(key):
    settings = dataclasses.replace(SETTINGS, num_neighbours=3, max_similarity=1.2)
    method = ngu(NETWORK, ACTIONS, 4, optax.sgd(RATE), SCALE, settings)
    rewards = assert_equals_reference(
        method._replace(step=jax.jit(method.step)),
        lambda parameters: Ngu(parameters, ENVS, RATE, k=3, s_max=1.2, capacity=4, decay=0.9),
        True,
        key,
    )
    assert (rewards == 0).any()


def test_ngu_with_rnd_multiplies_by_the_modulator_of_the_paper(key):
    lifelong = distillation(mlp((5,)), optax.sgd(RATE), RndSettings())
    method = ngu_rnd(ngu(NETWORK, ACTIONS, 12, optax.sgd(RATE), SCALE, SETTINGS), lifelong)
    step, state = jax.jit(method.step), method.init(key, rows_of(), ENVS)
    episodic = Ngu(state.episodic.parameters, ENVS, RATE, k=10, s_max=8, capacity=12, decay=0.9)
    rnd = Rnd(state.lifelong.target, state.lifelong.predictor, RATE)
    for transitions in rollouts():
        reward, state, metrics = step(state, transitions, key)
        error = rnd.step(at_steps(transitions.next_observation, ENVS))
        factor = rnd.modulator(error)
        expected = SCALE * episodic.step(*to_numpy(transitions)) * factor
        np.testing.assert_allclose(reward, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(metrics["modulator"], factor.mean(), rtol=1e-5)


def test_the_modulator_is_clipped_between_one_and_its_maximum():
    moments = Moments(mean=jnp.asarray(2.0), variance=jnp.asarray(4.0), weight=jnp.asarray(1.0))
    factor = modulator(jnp.asarray([[0.0, 2.0, 3.0, 4.0, 100.0]]), moments, 5.0)
    np.testing.assert_allclose(factor, [[1.0, 1.0, 1.5, 2.0, 5.0]])


compiled_novelty = jax.jit(episodic_novelty, static_argnames="settings")


def walk(positions, is_first=(), settings=SETTINGS):
    """Returns the novelty of two walks on a line, which stay at their last position. The first resets at `is_first`."""
    positions = jnp.asarray([[*env, *[env[-1]] * (13 - len(env))] for env in positions], jnp.float32)
    embedding = positions.T[..., None]
    first = jnp.zeros((12, 2), bool).at[0].set(True).at[jnp.asarray(is_first, int), 0].set(True)
    return compiled_novelty(empty_memory(20, 2, 1), embedding[:-1], embedding[1:], first, settings)


@pytest.mark.fault(21)
def test_the_first_step_is_compared_with_the_start_of_the_episode():
    """The only distance equals its average, so the kernel is known."""
    found, _ = walk([[0.0, 3.0], [-1.0, 50.0]])
    similarity = np.sqrt(EPSILON / (1.0 - CLUSTER + EPSILON)) + C
    np.testing.assert_allclose(found.reward[0], 1.0 / similarity, rtol=1e-5)


@pytest.mark.fault(21)
def test_staying_in_one_place_gives_a_count_up_to_the_number_of_neighbours():
    found, _ = walk([[2.0], [0.0]])
    counts = np.minimum(np.arange(1, 13), SETTINGS.num_neighbours)
    np.testing.assert_allclose(
        found.reward, 1.0 / (np.sqrt(counts)[:, None] + C) * np.ones((1, 2)), rtol=1e-5
    )


def test_the_memory_is_emptied_only_at_the_start_of_an_episode():
    """The first environment resets at times 2 and 9, the second never. Both stay in one place."""
    found, memory = walk([[2.0], [2.0]], is_first=(2, 9))
    counts = np.asarray([[1, 2, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3], [*range(1, 11), 10, 10]]).T
    np.testing.assert_allclose(found.reward, 1.0 / (np.sqrt(counts) + C), rtol=1e-5)
    np.testing.assert_array_equal(memory.length, [3, 12])


def test_states_above_the_maximum_similarity_have_no_reward():
    found, _ = walk([[2.0], [2.0]], settings=dataclasses.replace(SETTINGS, max_similarity=1.5))
    np.testing.assert_array_equal((found.reward > 0).sum(axis=0), [2, 2])


def test_rewards_do_not_depend_on_how_rollouts_are_cut(key):
    """The memory carries embeddings and distances from one rollout to the next."""
    positions = jax.random.normal(key, (9, 2, 1))
    is_first = jnp.zeros((8, 2), bool).at[jnp.asarray([0, 5]), jnp.asarray([0, 1])].set(True)
    empty, before, after = empty_memory(6, 2, 1), positions[:-1], positions[1:]
    whole, end = compiled_novelty(empty, before, after, is_first, SETTINGS)
    first, memory = compiled_novelty(empty, before[:4], after[:4], is_first[:4], SETTINGS)
    second, memory = compiled_novelty(memory, before[4:], after[4:], is_first[4:], SETTINGS)
    np.testing.assert_allclose(np.concatenate([first.reward, second.reward]), whole.reward, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), memory, end)


def test_the_embedding_learns_to_predict_the_action(key):
    """On a line, the action is the direction of the step."""
    random = np.random.default_rng(0)
    action, observation = (
        random.integers(2, size=(STEPS, ENVS)),
        random.integers(1, ROWS - 1, size=(STEPS, ENVS)),
    )
    rows = jnp.asarray(np.outer(np.linspace(-1.5, 1.5, ROWS), [1.0, -1.0, 0.5]), float)
    transitions = example_transitions(0, rows, ENVS, STEPS)._replace(action=jnp.asarray(action, int))
    transitions = transitions._replace(
        observation=transitions.observation._replace(row_index=jnp.asarray(observation, int)),
        next_observation=transitions.next_observation._replace(
            row_index=jnp.asarray(observation + 2 * action - 1, int)
        ),
    )
    state, accuracy = METHOD.init(key, rows, ENVS), []
    for _ in range(100):
        _, state, metrics = METHOD.step(state, transitions, key)
        accuracy.append(float(metrics["action_accuracy"]))
    assert accuracy[0] < 0.8
    assert accuracy[-1] > 0.95


def test_bad_settings_are_refused_by_name():
    for name, settings in {
        "num_neighbours": NguSettings(num_neighbours=0),
        "kernel_epsilon": NguSettings(kernel_epsilon=0.0),
        "pseudo_count": NguSettings(pseudo_count=0.0),
        "distance_decay": NguSettings(distance_decay=2.0),
    }.items():
        with pytest.raises(ValueError, match=name):
            ngu(NETWORK, ACTIONS, 10, optax.sgd(RATE), SCALE, settings)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        ngu(NETWORK, ACTIONS, 0, optax.sgd(RATE), SCALE, SETTINGS)
    method = ngu(NETWORK, ACTIONS, 10, optax.sgd(RATE), SCALE, SETTINGS)
    with pytest.raises(ValueError, match="max_modulator"):
        ngu_rnd(method, distillation(mlp((5,)), optax.sgd(RATE), RndSettings()), max_modulator=0.5)

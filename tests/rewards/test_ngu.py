import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.rewards.references import Ngu, Rnd, at_steps, dense_layers

from gemax.core.normaliser import Normaliser
from gemax.networks import mlp
from gemax.rewards.combine import modulator, ngu_rnd
from gemax.rewards.ngu import NguSettings, empty_memory, ngu, recall
from gemax.rewards.rnd import RndSettings, distillation
from gemax.testing import example_rollout, part_of, without_table

WORLDS, ROWS, STEPS, ROLLOUTS, ACTIONS, RATE = 3, 9, 7, 4, 4, 0.1
NETWORK = mlp((6, 4))
SETTINGS = NguSettings(scale=0.5, hidden_size=8, distance_decay=0.9)
EPSILON, CLUSTER, C = SETTINGS.kernel_epsilon, SETTINGS.cluster_distance, SETTINGS.pseudo_count


def rows_of():
    return jax.random.normal(jax.random.key(7), (ROWS, 3))


def rollouts(table=True):
    """Episodes of 1 to a dozen steps, which begin and end anywhere in the rollouts."""
    whole = example_rollout(1, rows_of(), WORLDS, STEPS * ROLLOUTS, num_actions=ACTIONS)
    parts = [part_of(whole, STEPS * i, STEPS * (i + 1)) for i in range(ROLLOUTS)]
    return parts if table else [without_table(part) for part in parts]


def numbers_of(rollout):
    observations = [at_steps(seen, WORLDS) for seen in (rollout.seen, rollout.arrived)]
    return *observations, np.asarray(rollout.action), np.asarray(rollout.is_first)


METHOD = ngu(NETWORK, ACTIONS, 12, optax.sgd(RATE), SETTINGS)
METHOD = METHOD._replace(step=jax.jit(METHOD.step))


def assert_follows(method, reference, table, key):
    """Rewards of all rollouts, and the parameters after them. What was paid."""
    state, paid = method.init(key, rows_of(), WORLDS), []
    reference = reference(state.parameters)
    for rollout in rollouts(table):
        reward, state, _ = method.step(state, rollout, key)
        np.testing.assert_allclose(reward, 0.5 * reference.step(*numbers_of(rollout)), rtol=1e-5, atol=1e-6)
        paid.append(np.asarray(reward))
    for name, layers in (("embedding", reference.f), ("action", reference.h)):
        for found, expected in zip(dense_layers(state.parameters[name]), layers, strict=True):
            for weight, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)
    return np.stack(paid)


@pytest.mark.parametrize("table", [True, False])
def test_rewards_and_learning_are_those_of_algorithm_1(table, key):
    paid = assert_follows(
        METHOD,
        lambda parameters: Ngu(parameters, WORLDS, RATE, k=10, s_max=8, capacity=12, decay=0.9),
        table,
        key,
    )
    assert (paid > 0).all()


def test_few_neighbours_a_small_memory_and_a_low_limit_are_those_of_algorithm_1(key):
    settings = dataclasses.replace(SETTINGS, num_neighbours=3, largest_similarity=1.2)
    method = ngu(NETWORK, ACTIONS, 4, optax.sgd(RATE), settings)
    paid = assert_follows(
        method._replace(step=jax.jit(method.step)),
        lambda parameters: Ngu(parameters, WORLDS, RATE, k=3, s_max=1.2, capacity=4, decay=0.9),
        True,
        key,
    )
    assert (paid == 0).any()


def test_ngu_with_rnd_multiplies_by_the_modulator_of_the_paper(key):
    lifelong = distillation(mlp((5,)), optax.sgd(RATE), RndSettings())
    method = ngu_rnd(ngu(NETWORK, ACTIONS, 12, optax.sgd(RATE), SETTINGS), lifelong)
    step, state = jax.jit(method.step), method.init(key, rows_of(), WORLDS)
    episodic = Ngu(state.episodic.parameters, WORLDS, RATE, k=10, s_max=8, capacity=12, decay=0.9)
    rnd = Rnd(state.lifelong.target, state.lifelong.predictor, RATE)
    for rollout in rollouts():
        paid, state, metrics = step(state, rollout, key)
        error = rnd.step(at_steps(rollout.arrived, WORLDS))
        factor = rnd.modulator(error)
        expected = 0.5 * episodic.step(*numbers_of(rollout)) * factor
        np.testing.assert_allclose(paid, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(metrics["modulator"], factor.mean(), rtol=1e-5)


def test_the_modulator_lies_between_one_and_the_largest():
    moments = Normaliser(mean=jnp.asarray(2.0), variance=jnp.asarray(4.0), weight=jnp.asarray(1.0))
    factor = modulator(jnp.asarray([[0.0, 2.0, 3.0, 4.0, 100.0]]), moments, largest=5.0)
    np.testing.assert_allclose(factor, [[1.0, 1.0, 1.5, 2.0, 5.0]])


recall_compiled = jax.jit(recall, static_argnames="settings")


def walk(positions, is_first=(), settings=SETTINGS):
    """What two worlds are paid for going through positions on a line; they stay at the last one. Starts in world 0."""
    positions = jnp.asarray([[*world, *[world[-1]] * (13 - len(world))] for world in positions], jnp.float32)
    embedding = positions.T[..., None]
    first = jnp.zeros((12, 2), bool).at[0].set(True).at[jnp.asarray(is_first, int), 0].set(True)
    return recall_compiled(empty_memory(20, 2, 1), embedding[:-1], embedding[1:], first, settings)


def test_the_first_step_is_compared_with_the_start_of_the_episode():
    """The only distance is its own average, whatever it is: the kernel is known."""
    found, _ = walk([[0.0, 3.0], [-1.0, 50.0]])
    similarity = np.sqrt(EPSILON / (1.0 - CLUSTER + EPSILON)) + C
    np.testing.assert_allclose(found.reward[0], 1.0 / similarity, rtol=1e-5)


def test_standing_still_is_paid_as_a_count_up_to_the_number_of_neighbours():
    found, _ = walk([[2.0], [0.0]])
    counts = np.minimum(np.arange(1, 13), SETTINGS.num_neighbours)
    np.testing.assert_allclose(
        found.reward, 1.0 / (np.sqrt(counts)[:, None] + C) * np.ones((1, 2)), rtol=1e-5
    )


def test_the_memory_is_emptied_where_an_episode_starts_and_only_there():
    """The first world starts anew at times 2 and 9, the second goes on; both stand still."""
    found, memory = walk([[2.0], [2.0]], is_first=(2, 9))
    counts = np.asarray([[1, 2, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3], [*range(1, 11), 10, 10]]).T
    np.testing.assert_allclose(found.reward, 1.0 / (np.sqrt(counts) + C), rtol=1e-5)
    np.testing.assert_array_equal(memory.length, [3, 12])


def test_too_similar_states_are_paid_nothing():
    found, _ = walk([[2.0], [2.0]], settings=dataclasses.replace(SETTINGS, largest_similarity=1.5))
    np.testing.assert_array_equal((found.reward > 0).sum(axis=0), [2, 2])


def test_rollouts_cut_in_two_pay_the_same(key):
    """States and distances are remembered from one rollout to the next, within what the memory holds."""
    positions = jax.random.normal(key, (9, 2, 1))
    is_first = jnp.zeros((8, 2), bool).at[jnp.asarray([0, 5]), jnp.asarray([0, 1])].set(True)
    empty, here, there = empty_memory(6, 2, 1), positions[:-1], positions[1:]
    whole, end = recall_compiled(empty, here, there, is_first, SETTINGS)
    first, memory = recall_compiled(empty, here[:4], there[:4], is_first[:4], SETTINGS)
    second, memory = recall_compiled(memory, here[4:], there[4:], is_first[4:], SETTINGS)
    np.testing.assert_allclose(np.concatenate([first.reward, second.reward]), whole.reward, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), memory, end)


def test_the_embedding_learns_what_the_action_did(key):
    """On a line, where the action is the direction of the step."""
    draw = np.random.default_rng(0)
    action, seen = draw.integers(2, size=(STEPS, WORLDS)), draw.integers(1, ROWS - 1, size=(STEPS, WORLDS))
    rows = jnp.asarray(np.outer(np.linspace(-1.5, 1.5, ROWS), [1.0, -1.0, 0.5]), float)
    rollout = example_rollout(0, rows, WORLDS, STEPS)._replace(action=jnp.asarray(action, int))
    rollout = rollout._replace(
        seen=rollout.seen._replace(row=jnp.asarray(seen, int)),
        arrived=rollout.arrived._replace(row=jnp.asarray(seen + 2 * action - 1, int)),
    )
    state, accuracy = METHOD.init(key, rows, WORLDS), []
    for _ in range(100):
        _, state, metrics = METHOD.step(state, rollout, key)
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
            ngu(NETWORK, ACTIONS, 10, optax.sgd(RATE), settings)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        ngu(NETWORK, ACTIONS, 0, optax.sgd(RATE), SETTINGS)
    method = ngu(NETWORK, ACTIONS, 10, optax.sgd(RATE), SETTINGS)
    with pytest.raises(ValueError, match="largest_modulator"):
        ngu_rnd(method, distillation(mlp((5,)), optax.sgd(RATE), RndSettings()), largest_modulator=0.5)

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import GemState, Term, gem
from gemax.rewards.negatives_other_envs import other_envs
from gemax.rewards.negatives_past import past_visits
from gemax.types import Observations, Transition

TIME, ENVS, ROWS, SIZE = 6, 8, 10, 4
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
HALVES = (slice(0, ENVS // 2), slice(ENVS // 2, ENVS))
CONFIG = IntrinsicConfig(intrinsic_scale=0.5, intrinsic_shift=0.1, embedding_size=SIZE)


def make_transitions(seed=0, table=True, num_rows=ROWS):
    keys = jax.random.split(jax.random.key(seed), 4)
    rows = jax.random.normal(keys[0], (num_rows, 3))
    observation, next_observation = (jax.random.randint(key, (TIME, ENVS), 0, num_rows) for key in keys[1:3])
    nothing = jnp.zeros((TIME, ENVS))

    def observations(row):
        return Observations(rows, row) if table else Observations(rows[row].reshape(-1, 3), None)

    never = jnp.zeros((TIME, ENVS), bool)
    return Transition(
        observations(observation),
        observations(next_observation),
        observation,
        nothing,
        nothing,
        never,
        never,
        ~never,  # the steps do not follow each other
        next_observation,
        next_observation,
    )


def build(config=CONFIG, optimiser=None, similarity=None):
    method = gem(NETWORK, optimiser or optax.sgd(1.0), config, (Term(other_envs(config, similarity)),))
    return method._replace(reward=jax.jit(method.reward), step=jax.jit(method.step))


def reference(parameters, transitions, config):
    """Returns the raw rewards and the loss of `alg:taco` and `alg:moretacomax`, pair by pair in NumPy."""

    def outputs(observations):
        out = np.asarray(NETWORK.apply(parameters, observations.rows))
        out = (
            out.reshape(TIME, ENVS, -1)
            if observations.row_index is None
            else out[np.asarray(observations.row_index)]
        )
        return out[..., :SIZE], np.exp(np.asarray(log_g_of(jnp.asarray(out[..., SIZE].reshape(-1))))).reshape(
            TIME, ENVS
        )

    embedding, g = outputs(transitions.next_observation)
    before, _ = outputs(transitions.observation)
    reward, objective = np.zeros((TIME, ENVS)), []
    halves = (range(ENVS // 2), range(ENVS // 2, ENVS))
    for half, others in (halves, halves[::-1]):
        terms = []
        for t in range(TIME):
            for w in half:
                k = np.asarray(
                    [
                        [np.exp(-np.linalg.norm(embedding[t, w] - embedding[i, j])) for j in others]
                        for i in range(TIME)
                    ]
                )
                g_others = np.asarray([[g[i, j] for j in others] for i in range(TIME)])
                reward[t, w] = 1 + np.log(g[t, w]) - (k * (g[t, w] + g_others)).mean()
                terms.append(1 + np.log(g[t, w]) - g[t, w] * k.mean())
        objective.append(np.mean(terms))
    step = np.linalg.norm(before - embedding, axis=-1)
    adjacency = ((config.huber_offset**4 + step**4) ** 0.25).mean()
    penalty = (embedding**2).sum(axis=-1).mean()
    loss = -np.mean(objective) + config.embedding_penalty * penalty + config.adjacency_scale * adjacency
    return reward, loss


@pytest.mark.parametrize(("table", "num_rows"), [(True, ROWS), (True, 10 * ROWS), (False, ROWS)])
def test_reward_and_loss_equal_the_algorithm(table, num_rows, key):
    """The rows of a table have fewer pairs than the steps, or more."""
    transitions = make_transitions(table=table, num_rows=num_rows)
    method = build(dataclasses.replace(CONFIG, normalise_reward=False))
    state = method.init(key, transitions.next_observation.rows, ENVS)
    reward, _, metrics = method.step(state, transitions, key)
    expected_reward, expected_loss = reference(state.parameters, transitions, CONFIG)
    np.testing.assert_allclose(reward, CONFIG.intrinsic_scale * expected_reward, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(metrics["gem_loss"], expected_loss, rtol=1e-5)


def test_past_visits_give_the_rewards_of_all_visits_weighted_by_decay(key):
    """By hand in NumPy: every past visit of the other half is a negative with the weight decay^age."""
    decay, rollouts = 0.8, [make_transitions(seed) for seed in range(3)]
    rollouts = [rollouts[0], *(with_rows_of(rollouts[0], other) for other in rollouts[1:])]
    config = dataclasses.replace(CONFIG, normalise_reward=False, past_visits_decay=decay)
    # With a learning rate of zero, f and g stay the same.
    method = gem(NETWORK, optax.sgd(0.0), config, (Term(past_visits(config)),))
    step, state = jax.jit(method.step), method.init(key, rollouts[0].next_observation.rows, ENVS)
    out = np.asarray(NETWORK.apply(state.parameters, rollouts[0].next_observation.rows), np.float64)
    g = np.exp(np.asarray(log_g_of(jnp.asarray(out[:, SIZE], jnp.float32)), np.float64))
    similarity = np.exp(-np.linalg.norm(out[:, None, :SIZE] - out[None, :, :SIZE], axis=-1))
    for number, transitions in enumerate(rollouts, 1):
        reward, state, _ = step(state, transitions, key)
        for half, others in (HALVES, HALVES[::-1]):
            weight = np.zeros(ROWS)
            for age, past in enumerate(reversed(rollouts[:number])):
                for row in np.asarray(past.next_observation.row_index)[:, others].ravel():
                    weight[row] += decay**age
            share = weight / weight.sum()
            rows = np.asarray(transitions.next_observation.row_index)[:, half]
            expected = 1 + np.log(g) - g * (similarity @ share) - similarity @ (share * g)
            np.testing.assert_allclose(
                reward[:, half], CONFIG.intrinsic_scale * expected[rows], rtol=1e-4, atol=1e-5
            )


def with_rows_of(first, other):
    """Returns the steps of another rollout with the observation table of the first."""
    return other._replace(
        observation=first.observation._replace(row_index=other.observation.row_index),
        next_observation=first.next_observation._replace(row_index=other.next_observation.row_index),
    )


def test_without_decay_past_visits_are_the_negatives_of_the_paper(key):
    transitions = make_transitions()
    paper, state = build(), build().init(key, transitions.next_observation.rows, ENVS)
    method = gem(NETWORK, optax.sgd(1.0), CONFIG, (Term(past_visits(CONFIG)),))
    ours = method.step(method.init(key, transitions.next_observation.rows, ENVS), transitions, key)
    np.testing.assert_allclose(ours[0], paper.step(state, transitions, key)[0], rtol=1e-5, atol=1e-6)


def test_past_visits_need_a_table_of_observations(key):
    transitions = make_transitions(table=False)
    method = gem(NETWORK, optax.sgd(1.0), CONFIG, (Term(past_visits(CONFIG)),))
    state = method.init(key, transitions.next_observation.rows, ENVS)
    with pytest.raises(ValueError, match="table of all observations, which this environment does not have"):
        method.step(state, transitions, key)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_table_and_single_observations_give_the_same_rewards_losses_and_gradients(alpha, key):
    """With SGD of learning rate 1, the change of the parameters is the gradient."""
    method = build(dataclasses.replace(CONFIG, alpha=alpha))
    table, plain = make_transitions(table=True), make_transitions(table=False)
    state = method.init(key, table.next_observation.rows, ENVS)
    table_reward, table_state, table_metrics = method.step(state, table, key)
    plain_reward, plain_state, plain_metrics = method.step(state, plain, key)
    np.testing.assert_allclose(table_reward, plain_reward, rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        table_state.parameters,
        plain_state.parameters,
    )
    for name, value in table_metrics.items():
        np.testing.assert_allclose(value, plain_metrics[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("negatives", [0, 3])
def test_step_returns_the_reward_of_reward_and_only_step_learns(table, negatives, key):
    transitions = make_transitions(table=table)
    method = build(dataclasses.replace(CONFIG, num_negatives=negatives))
    state = method.init(key, transitions.next_observation.rows, ENVS)
    reward = method.reward(state, transitions, key)
    from_step, following, _ = method.step(state, transitions, key)
    np.testing.assert_allclose(reward, from_step, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(method.reward(state, transitions, key), reward)
    assert any(
        (a != b).any()
        for a, b in zip(jax.tree.leaves(state.parameters), jax.tree.leaves(following.parameters), strict=True)
    )
    np.testing.assert_allclose(from_step.mean(), 0.1, atol=1e-4)
    np.testing.assert_allclose(from_step.std(), 0.5, rtol=1e-3)


def test_sampled_negatives_give_the_exact_reward_on_average(key):
    transitions = make_transitions()
    exact = build(dataclasses.replace(CONFIG, normalise_reward=False))
    sampled = build(dataclasses.replace(CONFIG, normalise_reward=False, num_negatives=4))
    state = exact.init(key, transitions.next_observation.rows, ENVS)
    keys = jax.random.split(key, 2000)
    average = jax.jit(jax.vmap(lambda key: sampled.reward(state, transitions, key)))(keys).mean(axis=0)
    np.testing.assert_allclose(average, exact.reward(state, transitions, key), atol=0.03)


@pytest.mark.parametrize("rows", [jnp.zeros((ROWS, 3)), jnp.full((ROWS, 3), 1e4), jnp.full((ROWS, 3), -1e4)])
@pytest.mark.parametrize("table", [True, False])
@pytest.mark.fault(19, 20)
def test_constant_and_huge_observations_give_finite_rewards_and_parameters(rows, table, key):
    transitions = make_transitions(table=table)
    observations = transitions.next_observation._replace(
        rows=rows if table else jnp.broadcast_to(rows[:1], transitions.next_observation.rows.shape)
    )
    transitions = transitions._replace(next_observation=observations, observation=observations)
    method = build(optimiser=optax.adam(1e-3))
    state = method.init(key, rows, ENVS)
    for _ in range(3):
        reward, state, metrics = method.step(state, transitions, key)
        assert jnp.isfinite(reward).all()
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.parameters))
        assert all(jnp.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("similarity", ["indicator", "exponential"])
def test_a_given_similarity_needs_no_embedding(similarity, key):
    transitions = make_transitions()
    method = build(dataclasses.replace(CONFIG, similarity=similarity))
    state = method.init(key, transitions.next_observation.rows, ENVS)
    _, following, metrics = method.step(state, transitions, key)
    assert "adjacency" not in metrics
    assert isinstance(following, GemState)
    if similarity == "indicator":
        # The probability that samples of the two halves are equal.
        row = np.asarray(transitions.next_observation.row_index)
        first, second = (
            np.bincount(row[:, envs].ravel(), minlength=ROWS) for envs in (slice(4), slice(4, 8))
        )
        overlap = (first * second).sum() / (first.sum() * second.sum())
        np.testing.assert_allclose(metrics["similarity_mean"], overlap, rtol=1e-5)


def test_f_and_g_do_not_see_an_ignored_feature(key):
    method = gem(NETWORK, optax.sgd(1.0), CONFIG, (Term(other_envs(CONFIG)),), ignored_feature=1)
    transitions = make_transitions()
    later = transitions.next_observation.rows.at[:, 1].add(5.0)
    state = method.init(key, transitions.next_observation.rows, ENVS)
    np.testing.assert_array_equal(
        method.embed(state, transitions.next_observation.rows), method.embed(state, later)
    )


def test_rewards_do_not_depend_on_environments_of_the_same_half(key):
    """Other visits in one environment of the first half change no raw reward in the rest of that half."""
    method = build(dataclasses.replace(CONFIG, normalise_reward=False))
    transitions = make_transitions()
    state = method.init(key, transitions.next_observation.rows, ENVS)
    changed = transitions.next_observation.row_index.at[:, 0].set(0)
    other = transitions._replace(next_observation=transitions.next_observation._replace(row_index=changed))
    before, after = method.reward(state, transitions, key), method.reward(state, other, key)
    np.testing.assert_allclose(before[:, 1:4], after[:, 1:4], rtol=1e-6)
    assert (jnp.abs(before[:, 4:] - after[:, 4:]) > 1e-6).any()


def test_seeds_can_be_trained_under_vmap(key):
    method, transitions = build(), make_transitions()
    keys = jax.random.split(key, 3)
    states = jax.vmap(lambda key: method.init(key, transitions.next_observation.rows, ENVS))(keys)
    together = jax.vmap(lambda state, key: method.step(state, transitions, key)[0])(states, keys)
    alone = method.step(jax.tree.map(lambda leaf: leaf[1], states), transitions, keys[1])[0]
    np.testing.assert_allclose(together[1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("negatives", [0, 3])
def test_a_custom_similarity_is_used(table, negatives, key):
    """An exponential similarity from Python gives the rewards of the built-in one."""

    def similarity(observations, others):
        return jnp.exp(-0.5 * jnp.linalg.norm(observations[:, None] - others[None], axis=-1))

    transitions = make_transitions(table=table)
    config = dataclasses.replace(CONFIG, num_negatives=negatives)
    given = build(dataclasses.replace(config, similarity="exponential", similarity_scale=0.5))
    custom = build(dataclasses.replace(config, similarity="custom"), similarity=similarity)
    state = given.init(key, transitions.next_observation.rows, ENVS)
    np.testing.assert_allclose(
        custom.reward(state, transitions, key), given.reward(state, transitions, key), rtol=1e-4, atol=1e-5
    )

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.core.objective import log_g_of
from gemax.networks import torso_and_heads
from gemax.rewards.gem import GemSettings, GemState, gem
from gemax.types import Observations, Rollout

TIME, WORLDS, ROWS, SIZE = 6, 8, 10, 4
NETWORK = torso_and_heads(16, 8, (SIZE, 1))
SETTINGS = GemSettings(scale=0.5, shift=0.1)


def rollout_of(seed=0, table=True, num_rows=ROWS):
    keys = jax.random.split(jax.random.key(seed), 4)
    rows = jax.random.normal(keys[0], (num_rows, 3))
    seen, arrived = (jax.random.randint(key, (TIME, WORLDS), 0, num_rows) for key in keys[1:3])
    nothing = jnp.zeros((TIME, WORLDS))

    def observations(row):
        return Observations(rows, row) if table else Observations(rows[row].reshape(-1, 3), None)

    never = jnp.zeros((TIME, WORLDS), bool)
    return Rollout(
        observations(seen), observations(arrived), seen, nothing, nothing, never, never, never, arrived
    )


def build(settings=SETTINGS, optimiser=None):
    method = gem(NETWORK, SIZE, optimiser or optax.sgd(1.0), settings)
    return method._replace(reward=jax.jit(method.reward), step=jax.jit(method.step))


def reference(parameters, rollout, settings):
    """`alg:taco` and `alg:moretacomax`, step by step in NumPy: rewards before normalisation, and the loss."""

    def outputs(observations):
        out = np.asarray(NETWORK.apply(parameters, observations.rows))
        out = out.reshape(TIME, WORLDS, -1) if observations.row is None else out[np.asarray(observations.row)]
        return out[..., :SIZE], np.exp(np.asarray(log_g_of(jnp.asarray(out[..., SIZE].reshape(-1))))).reshape(
            TIME, WORLDS
        )

    embedding, g = outputs(rollout.arrived)
    before, _ = outputs(rollout.seen)
    reward, objective = np.zeros((TIME, WORLDS)), []
    halves = (range(WORLDS // 2), range(WORLDS // 2, WORLDS))
    for mine, others in (halves, halves[::-1]):
        terms = []
        for t in range(TIME):
            for w in mine:
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
    adjacency = ((settings.huber_offset**4 + step**4) ** 0.25).mean()
    penalty = (embedding**2).sum(axis=-1).mean()
    loss = -np.mean(objective) + settings.regularisation * penalty + settings.adjacency_scale * adjacency
    return reward, loss


@pytest.mark.parametrize(("table", "num_rows"), [(True, ROWS), (True, 10 * ROWS), (False, ROWS)])
def test_reward_and_loss_are_those_of_the_algorithm(table, num_rows, key):
    """A table may have fewer pairs of rows than there are pairs of steps, or more."""
    rollout = rollout_of(table=table, num_rows=num_rows)
    method = build(dataclasses.replace(SETTINGS, normalise=False))
    state = method.init(key, rollout.arrived.rows, WORLDS)
    reward, _, metrics = method.step(state, rollout, key)
    expected_reward, expected_loss = reference(state.parameters, rollout, SETTINGS)
    np.testing.assert_allclose(reward, SETTINGS.scale * expected_reward, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(metrics["gem_loss"], expected_loss, rtol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_fast_path_and_plain_path_give_the_same_rewards_losses_and_gradients(alpha, key):
    """With gradient descent of rate one, the step of the parameters is the gradient."""
    method = build(dataclasses.replace(SETTINGS, alpha=alpha))
    fast, plain = rollout_of(table=True), rollout_of(table=False)
    state = method.init(key, fast.arrived.rows, WORLDS)
    fast_reward, fast_state, fast_metrics = method.step(state, fast, key)
    plain_reward, plain_state, plain_metrics = method.step(state, plain, key)
    np.testing.assert_allclose(fast_reward, plain_reward, rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        fast_state.parameters,
        plain_state.parameters,
    )
    for name, value in fast_metrics.items():
        np.testing.assert_allclose(value, plain_metrics[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("negatives", [0, 3])
def test_reward_does_not_learn_and_step_pays_what_reward_says(table, negatives, key):
    rollout = rollout_of(table=table)
    method = build(dataclasses.replace(SETTINGS, num_negatives=negatives))
    state = method.init(key, rollout.arrived.rows, WORLDS)
    said = method.reward(state, rollout, key)
    paid, following, _ = method.step(state, rollout, key)
    np.testing.assert_allclose(said, paid, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(method.reward(state, rollout, key), said)
    assert any(
        (a != b).any()
        for a, b in zip(jax.tree.leaves(state.parameters), jax.tree.leaves(following.parameters), strict=True)
    )
    np.testing.assert_allclose(paid.mean(), 0.1, atol=1e-4)
    np.testing.assert_allclose(paid.std(), 0.5, rtol=1e-3)


def test_drawn_negatives_give_the_exact_reward_on_average(key):
    rollout = rollout_of()
    exact = build(dataclasses.replace(SETTINGS, normalise=False))
    drawn = build(dataclasses.replace(SETTINGS, normalise=False, num_negatives=4))
    state = exact.init(key, rollout.arrived.rows, WORLDS)
    keys = jax.random.split(key, 2000)
    average = jax.jit(jax.vmap(lambda key: drawn.reward(state, rollout, key)))(keys).mean(axis=0)
    np.testing.assert_allclose(average, exact.reward(state, rollout, key), atol=0.03)


@pytest.mark.parametrize("rows", [jnp.zeros((ROWS, 3)), jnp.full((ROWS, 3), 1e4), jnp.full((ROWS, 3), -1e4)])
@pytest.mark.parametrize("table", [True, False])
def test_constant_and_huge_observations_give_finite_rewards_and_parameters(rows, table, key):
    rollout = rollout_of(table=table)
    observations = rollout.arrived._replace(
        rows=rows if table else jnp.broadcast_to(rows[:1], rollout.arrived.rows.shape)
    )
    rollout = rollout._replace(arrived=observations, seen=observations)
    method = build(optimiser=optax.adam(1e-3))
    state = method.init(key, rows, WORLDS)
    for _ in range(3):
        reward, state, metrics = method.step(state, rollout, key)
        assert jnp.isfinite(reward).all()
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.parameters))
        assert all(jnp.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("similarity", ["indicator", "exponential"])
def test_a_given_similarity_needs_no_embedding(similarity, key):
    rollout = rollout_of()
    method = build(dataclasses.replace(SETTINGS, similarity=similarity))
    state = method.init(key, rollout.arrived.rows, WORLDS)
    _, following, metrics = method.step(state, rollout, key)
    assert "adjacency" not in metrics
    assert isinstance(following, GemState)
    if similarity == "indicator":
        # Two draws meet as often as the two halves' histograms overlap.
        row = np.asarray(rollout.arrived.row)
        first, second = (
            np.bincount(row[:, worlds].ravel(), minlength=ROWS) for worlds in (slice(4), slice(4, 8))
        )
        overlap = (first * second).sum() / (first.sum() * second.sum())
        np.testing.assert_allclose(metrics["similarity_mean"], overlap, rtol=1e-5)


def test_time_can_be_kept_from_f_and_g(key):
    method = gem(NETWORK, SIZE, optax.sgd(1.0), SETTINGS, hidden_feature=1)
    rollout = rollout_of()
    later = rollout.arrived.rows.at[:, 1].add(5.0)
    state = method.init(key, rollout.arrived.rows, WORLDS)
    np.testing.assert_array_equal(method.embed(state, rollout.arrived.rows), method.embed(state, later))


def test_each_half_is_paid_by_the_other_so_worlds_of_a_half_do_not_touch(key):
    """Changing what one world of the first half visits changes no raw reward of the others in that half."""
    method = build(dataclasses.replace(SETTINGS, normalise=False))
    rollout = rollout_of()
    state = method.init(key, rollout.arrived.rows, WORLDS)
    changed = rollout.arrived.row.at[:, 0].set(0)
    other = rollout._replace(arrived=rollout.arrived._replace(row=changed))
    before, after = method.reward(state, rollout, key), method.reward(state, other, key)
    np.testing.assert_allclose(before[:, 1:4], after[:, 1:4], rtol=1e-6)
    assert (jnp.abs(before[:, 4:] - after[:, 4:]) > 1e-6).any()


def test_seeds_can_be_trained_side_by_side(key):
    method, rollout = build(), rollout_of()
    keys = jax.random.split(key, 3)
    states = jax.vmap(lambda key: method.init(key, rollout.arrived.rows, WORLDS))(keys)
    together = jax.vmap(lambda state, key: method.step(state, rollout, key)[0])(states, keys)
    alone = method.step(jax.tree.map(lambda leaf: leaf[1], states), rollout, keys[1])[0]
    np.testing.assert_allclose(together[1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("negatives", [0, 3])
def test_a_similarity_of_ones_own_is_used_as_it_is(table, negatives, key):
    """The exponential one, written by a user, pays what the built-in one pays."""

    def similarity(observations, others):
        return jnp.exp(-0.5 * jnp.linalg.norm(observations[:, None] - others[None], axis=-1))

    rollout, settings = rollout_of(table=table), dataclasses.replace(SETTINGS, num_negatives=negatives)
    given = build(dataclasses.replace(settings, similarity="exponential", similarity_scale=0.5))
    own = build(dataclasses.replace(settings, similarity=similarity))
    state = given.init(key, rollout.arrived.rows, WORLDS)
    np.testing.assert_allclose(
        own.reward(state, rollout, key), given.reward(state, rollout, key), rtol=1e-4, atol=1e-5
    )

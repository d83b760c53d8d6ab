"""The paper's theorems, checked on random finite MDPs by enumeration."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.core.entropy import geometric_entropy, shannon_entropy, tsallis_entropy
from gemax.core.expectation import exact_contrast
from gemax.core.objective import contrastive_objective, g_power, gem_objective, gem_reward
from gemax.core.similarity import indicator_similarity, similarity_profile
from tests.core.finite_mdp import mdps, policy_of, random_logits, similarities, trajectories, visits

ALPHAS = [-1.0, 0.0, 0.5, 1.0, 1.5]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@st.composite
def mdps_with_similarity(draw, **sizes):
    mdp = draw(mdps(**sizes))
    return mdp, draw(similarities(len(mdp.start)))


def visits_of_random_policy(mdp):
    return visits(mdp, policy_of(random_logits(mdp)))


def random_log_g(num_states, seed):
    return jnp.asarray(np.random.default_rng(seed).normal(scale=2.0, size=num_states))


@given(mdps(), st.integers(0, 1000))
def test_contrastive_objective_equals_shannon_entropy_at_its_maximiser(mdp, seed):
    """`thm:taco.disc.gen`."""
    p = visits_of_random_policy(mdp)
    best_h = jnp.diag(1.0 / p)
    at_best = contrastive_objective(jnp.log(jnp.diag(best_h)), best_h @ p, p)
    np.testing.assert_allclose(at_best, shannon_entropy(p), rtol=1e-9)

    other_h = jnp.asarray(np.random.default_rng(seed).lognormal(sigma=2.0, size=best_h.shape))
    elsewhere = contrastive_objective(jnp.log(jnp.diag(other_h)), other_h @ p, p)
    assert elsewhere < at_best


@given(mdps(), st.integers(0, 1000))
def test_gem_with_the_indicator_equals_shannon_entropy_at_its_maximiser(mdp, seed):
    """`thm:taco.disc`, the corollary."""
    p = visits_of_random_policy(mdp)
    states = jnp.arange(len(p))
    profile = similarity_profile(indicator_similarity(states, states), p)
    np.testing.assert_allclose(profile, p, rtol=1e-9)
    at_best = gem_objective(-jnp.log(p), profile, p)
    np.testing.assert_allclose(at_best, shannon_entropy(p), rtol=1e-9)
    assert gem_objective(random_log_g(len(p), seed), profile, p) < at_best


@given(mdps_with_similarity(), st.integers(0, 1000))
def test_gem_equals_geometric_entropy_at_its_maximiser(mdp_and_similarity, seed):
    """`thm:taco.kernel`: g = 1 / p_k is the maximum over g, and the gradient vanishes there."""
    mdp, similarity = mdp_and_similarity
    p, similarity = visits_of_random_policy(mdp), jnp.asarray(similarity)
    profile = similarity_profile(similarity, p)
    at_best = gem_objective(-jnp.log(profile), profile, p)
    np.testing.assert_allclose(at_best, geometric_entropy(p, similarity), rtol=1e-9)
    gradient = jax.grad(gem_objective)(-jnp.log(profile), profile, p)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    assert gem_objective(random_log_g(len(p), seed), profile, p) < at_best


@given(mdps_with_similarity())
def test_gem_maximised_over_g_equals_geometric_entropy_for_every_policy(mdp_and_similarity):
    """`thm:taco.kernel`: therefore the maxima over policies agree."""
    mdp, similarity = mdp_and_similarity
    similarity = jnp.asarray(similarity)
    for seed in range(5):
        p = visits(mdp, policy_of(3.0 * random_logits(mdp, seed)))
        profile = similarity_profile(similarity, p)
        entropy = geometric_entropy(p, similarity)
        np.testing.assert_allclose(gem_objective(-jnp.log(profile), profile, p), entropy, rtol=1e-9)


@given(mdps_with_similarity())
def test_geometric_entropy_agrees_with_the_package_sentropy(mdp_and_similarity):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentropy import sentropy

    mdp, similarity = mdp_and_similarity
    p = visits_of_random_policy(mdp)
    theirs = sentropy(np.asarray(p), similarity=similarity, q=1)
    ours = jnp.exp(geometric_entropy(p, jnp.asarray(similarity)))
    np.testing.assert_allclose(ours, float(theirs), rtol=1e-5)
    in_float32 = geometric_entropy(p.astype(jnp.float32), jnp.asarray(similarity, jnp.float32))
    np.testing.assert_allclose(jnp.exp(in_float32), float(theirs), rtol=1e-5)


@given(mdps_with_similarity())
def test_geometric_entropy_is_largest_for_the_indicator(mdp_and_similarity):
    """`prop:discrete`: maximising over k recovers the Shannon entropy."""
    mdp, similarity = mdp_and_similarity
    p = visits_of_random_policy(mdp)
    entropy = geometric_entropy(p, jnp.asarray(similarity))
    assert entropy <= shannon_entropy(p) + 1e-12
    states = jnp.arange(len(p))
    best = geometric_entropy(p, indicator_similarity(states, states))
    np.testing.assert_allclose(best, shannon_entropy(p), rtol=1e-12)


@given(mdps_with_similarity(), st.sampled_from(ALPHAS), st.integers(0, 1000))
def test_tsallis_gem_equals_tsallis_entropy_at_its_maximiser(mdp_and_similarity, alpha, seed):
    mdp, similarity = mdp_and_similarity
    p, similarity = visits_of_random_policy(mdp), jnp.asarray(similarity)
    profile = similarity_profile(similarity, p)
    at_best = gem_objective(-jnp.log(profile), profile, p, alpha=alpha)
    np.testing.assert_allclose(at_best, tsallis_entropy(p, alpha, similarity), rtol=1e-9)
    assert gem_objective(random_log_g(len(p), seed), profile, p, alpha=alpha) < at_best


@given(mdps_with_similarity(), st.sampled_from(ALPHAS))
def test_tsallis_entropy_agrees_with_the_package_sentropy(mdp_and_similarity, alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentropy import sentropy

    mdp, similarity = mdp_and_similarity
    p = visits_of_random_policy(mdp)
    diversity = float(sentropy(np.asarray(p), similarity=similarity, q=alpha))
    theirs = np.log(diversity) if alpha == 1 else (1 - diversity ** (1 - alpha)) / (alpha - 1)
    np.testing.assert_allclose(tsallis_entropy(p, alpha, jnp.asarray(similarity)), theirs, rtol=1e-5)


@given(
    mdps_with_similarity(max_states=3, max_actions=2, max_horizon=3),
    st.sampled_from(ALPHAS),
    st.integers(0, 99),
)
def test_policy_gradient_of_the_reward_is_the_gradient_of_the_objective(mdp_and_similarity, alpha, seed):
    """`prop:aco.grad`, `eq:grad.theta`, summed over all trajectories and negatives."""
    mdp, similarity = mdp_and_similarity
    similarity, log_g = jnp.asarray(similarity), random_log_g(len(mdp.start), seed)
    logits = random_logits(mdp, seed)

    def objective(logits):
        p = visits(mdp, policy_of(logits))
        return gem_objective(log_g, similarity_profile(similarity, p), p, alpha=alpha)

    p = visits(mdp, policy_of(logits))
    # The expectation over negatives x' that are sampled from p.
    reward = np.asarray(gem_reward(log_g, exact_contrast(similarity, g_power(log_g, alpha), p), alpha=alpha))
    policy = np.asarray(policy_of(logits))
    expected = np.zeros(logits.shape)
    for states, actions in trajectories(mdp):
        probability = mdp.start[states[0]]
        for t, action in enumerate(actions):
            probability *= policy[t, states[t], action] * mdp.transition[states[t], action, states[t + 1]]
        for t, action in enumerate(actions):
            score = -policy[t, states[t]]  # ∇ ln π(a|x) = 1(a) - π
            score[action] += 1.0
            expected[t, states[t]] += probability * score * sum(reward[x] for x in states[t + 1 :])
    exact = jax.grad(objective)(logits)
    # The paper's sum over t is T times the gradient (paper notes, row 22).
    scale = max(1.0, float(jnp.abs(exact).max()))
    np.testing.assert_allclose(expected / mdp.horizon, exact, atol=1e-5 * scale)


@given(
    mdps_with_similarity(max_states=3, max_actions=2, max_horizon=3),
    st.sampled_from(ALPHAS),
    st.integers(0, 99),
)
def test_expectation_of_the_sampled_gradient_of_g_equals_the_gradient_of_the_objective(
    mdp_and_similarity, alpha, seed
):
    """`prop:aco.grad`, `eq:grad.si`, summed over all trajectories and all negatives x' of their states."""
    mdp, similarity = mdp_and_similarity
    similarity, log_g = jnp.asarray(similarity), random_log_g(len(mdp.start), seed)
    policy = policy_of(random_logits(mdp, seed))
    p = visits(mdp, policy)

    def objective(log_g):
        return gem_objective(log_g, similarity_profile(similarity, p), p, alpha=alpha)

    def one_sample(log_g, x, other):
        return gem_objective(log_g[x][None], similarity[x, other][None], alpha=alpha)

    samples = jax.vmap(jax.vmap(jax.grad(one_sample), (None, None, 0)), (None, 0, None))
    states = jnp.arange(len(p))
    gradients = np.asarray(samples(log_g, states, states))  # [x, x', g]
    expected = np.zeros(len(p))
    for visited, actions in trajectories(mdp):
        probability = mdp.start[visited[0]]
        for t, action in enumerate(actions):
            probability *= policy[t, visited[t], action] * mdp.transition[visited[t], action, visited[t + 1]]
        for x in visited:
            expected += float(probability) * np.einsum("o,og->g", p, gradients[x])
    exact = jax.grad(objective)(log_g)
    scale = max(1.0, float(jnp.abs(exact).max()))
    np.testing.assert_allclose(expected / mdp.horizon, exact, atol=1e-5 * scale)

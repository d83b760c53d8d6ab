"""Rewards of single steps equal those of whole rollouts, and those of a state that is never changed in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from tests.parameters import fast_or_slow

from gemax.integrations.build import RewardOptions, build_reward_for
from gemax.integrations.intrinsic_learner import host_transitions, make_learner, standardise_transitions
from gemax.integrations.step_rewards import StepRewards, fill_invalid

NUM_ENVS, SHAPE, CAPACITY = 3, (2,), 4
SETTINGS = {"torso_size": 8, "head_size": 8, "embedding_size": 4, "intrinsic_scale": 1.0}
METHODS = ["rnd", "ngu", "ngu-rnd", "e3b", "re3", "gem"]


def build(method):
    options = RewardOptions(method, SETTINGS, horizon=CAPACITY)
    return build_reward_for(options, SHAPE, spaces.Discrete(2), recent_negatives=True)


def rollout(num_steps, seed, episode_length):
    """Returns random steps. The environments reset at different times."""
    rng, shape = np.random.default_rng(seed), (num_steps, NUM_ENVS)
    is_first = (np.arange(num_steps)[:, None] + np.arange(NUM_ENVS)[None]) % episode_length == 0
    starts, after = rng.normal(size=(2, *shape, *SHAPE)).astype(np.float32)
    never = np.zeros(shape, bool)
    return host_transitions(
        observation=np.where(is_first[..., None], starts, np.roll(after, 1, axis=0)), next_observation=after,
        action=rng.integers(2, size=shape).astype(np.int32), reward=np.zeros(shape, np.float32),
        terminated=never, truncated=never, is_first=is_first,
    )  # fmt: skip


def steps_of(transitions):
    return [
        jax.tree.map(lambda field, t=t: field[t : t + 1], transitions) for t in range(len(transitions.reward))
    ]


def learned_state(learner, num_updates=2):
    state = learner.init(jax.random.key(0))
    for seed in range(num_updates):
        _, state, _ = learner.learn(state, rollout(6, seed, episode_length=5))
    return state


@pytest.mark.parametrize("method", fast_or_slow(METHODS, ["gem", "ngu-rnd", "re3"]))
def test_rewards_equal_those_of_a_state_that_is_not_changed_in_place(method):
    learner = make_learner(build(method), SHAPE, NUM_ENVS)
    reference, rng = jax.jit(learner.reward_step), np.random.default_rng(1)
    rewards = None
    # Longer than the memories of episodes, so that these are full and overwritten. The second part follows an update.
    for num_updates in (1, 2):
        state = learned_state(learner, num_updates)
        if rewards is None:
            rewards = StepRewards(learner, state)
        rewards.restart(state)
        for step in steps_of(rollout(3 * CAPACITY, 9, episode_length=2 * CAPACITY)):
            is_valid = rng.random(NUM_ENVS) < 0.8
            is_valid[rng.integers(NUM_ENVS)] = True
            expected, state = reference(state, fill_invalid(step, is_valid), is_valid)
            np.testing.assert_allclose(rewards(step, is_valid), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["ngu", "e3b", "re3"])
def test_rewards_equal_those_of_the_whole_rollout(method):
    module = build(method)
    learner = make_learner(module, SHAPE, NUM_ENVS)
    state, transitions = learned_state(learner), rollout(3 * CAPACITY, 9, episode_length=2 * CAPACITY)
    standardised = standardise_transitions(state.observation_moments, jax.tree.map(jnp.asarray, transitions))
    whole = jax.jit(module.reward)(state.reward, standardised, state.key)
    rewards = StepRewards(learner, state)
    found = [rewards(step, np.ones(NUM_ENVS, bool)) for step in steps_of(transitions)]
    np.testing.assert_allclose(found, whole, rtol=1e-4)


def test_a_restart_returns_to_the_given_state():
    learner = make_learner(build("gem"), SHAPE, NUM_ENVS)
    state, steps = learned_state(learner), steps_of(rollout(5, 9, episode_length=8))
    rewards, is_valid = StepRewards(learner, state), np.ones(NUM_ENVS, bool)
    first = [rewards(step, is_valid) for step in steps]
    rewards.restart(state)
    np.testing.assert_array_equal([rewards(step, is_valid) for step in steps], first)


@pytest.mark.parametrize("method", fast_or_slow(METHODS, ["gem", "re3"]))
def test_values_of_invalid_environments_have_no_effect(method):
    learner = make_learner(build(method), SHAPE, NUM_ENVS)
    state, is_valid = learned_state(learner), np.asarray([True, False, True])
    first, second = steps_of(rollout(2, 9, episode_length=8))
    broken = first._replace(
        next_observation=np.where(is_valid[None, :, None], first.next_observation, np.nan)
    )
    results = []
    for step in (first, broken):
        rewards = StepRewards(learner, state)
        results.append([rewards(step, is_valid), rewards(second, np.ones(NUM_ENVS, bool))])
    np.testing.assert_array_equal(*results)
    assert results[0][0][1] == 0
    assert np.isfinite(results).all()

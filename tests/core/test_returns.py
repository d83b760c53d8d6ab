import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.core.returns import averaged_returns, td_errors, vtrace

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import rlax


def random_steps(seed, num_steps):
    rng = np.random.default_rng(seed)
    reward, value, value_next, log_ratio = rng.normal(size=(4, num_steps)).astype(np.float32)
    terminated = rng.uniform(size=num_steps) < 0.15
    truncated = ~terminated & (rng.uniform(size=num_steps) < 0.15)
    done = terminated | truncated
    # Within an episode, the next value is the value of the next step. At its end, it is an independent value.
    value_tp1 = np.where(done, value_next, np.append(value[1:], value_next[-1]))
    discount = np.where(terminated, 0.0, rng.choice([0.9, 1.0])).astype(np.float32)
    return reward, discount, value, value_tp1, done, np.exp(log_ratio)


def segments(done):
    """Yields the start and stop index of each episode segment."""
    start = 0
    for t, is_done in enumerate(done):
        if is_done or t == len(done) - 1:
            yield start, t + 1
            start = t + 1


STEPS = st.tuples(st.integers(0, 10_000), st.sampled_from([1, 2, 7, 20]))


@given(STEPS)
def test_averaged_returns_equal_a_double_loop(steps):
    reward, discount, _, value_tp1, done, _ = random_steps(*steps)
    expected = np.zeros_like(reward)
    for start, stop in segments(done):
        for t in range(start, stop):
            returns = []
            for last in range(t, stop):
                total, weight = 0.0, 1.0
                for j in range(t, last + 1):
                    total += weight * reward[j]
                    weight *= discount[j]
                returns.append(total + weight * value_tp1[last])
            expected[t] = np.mean(returns)
    ours = averaged_returns(*map(jnp.asarray, (reward, discount, value_tp1, done)))
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


@given(STEPS, st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.sampled_from([1.0, 2.0]))
def test_vtrace_equals_rlax_on_every_episode_segment(steps, vtrace_lambda, max_ratio):
    reward, discount, value, value_tp1, done, ratio = random_steps(*steps)
    ours = vtrace(
        *map(jnp.asarray, (reward, discount, value, value_tp1, done, ratio)),
        vtrace_lambda=vtrace_lambda,
        max_ratio=max_ratio,
    )
    for start, stop in segments(done):
        segment = slice(start, stop)
        theirs = rlax.vtrace_td_error_and_advantage(
            *(jnp.asarray(x[segment]) for x in (value, value_tp1, reward, discount, ratio)),
            lambda_=vtrace_lambda,
            clip_rho_threshold=max_ratio,
            clip_pg_rho_threshold=max_ratio,
        )
        np.testing.assert_allclose(ours.target[segment] - value[segment], theirs.errors, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours.advantage[segment], theirs.pg_advantage, rtol=1e-5, atol=1e-5)


@given(STEPS)
def test_on_policy_vtrace_equals_the_lambda_return_and_its_advantage(steps):
    reward, discount, value, value_tp1, done, _ = random_steps(*steps)
    lambda_ = 0.9
    estimate = vtrace(
        *map(jnp.asarray, (reward, discount, value, value_tp1, done, np.ones_like(reward))),
        vtrace_lambda=lambda_,
    )
    next_return, expected = 0.0, np.zeros_like(reward)
    for t in reversed(range(len(reward))):
        bootstrap = (
            value_tp1[t]
            if done[t] or t == len(reward) - 1
            else (1 - lambda_) * value_tp1[t] + lambda_ * next_return
        )
        next_return = expected[t] = reward[t] + discount[t] * bootstrap
    np.testing.assert_allclose(estimate.target, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(estimate.advantage, expected - value, rtol=1e-4, atol=1e-5)


def test_returns_do_not_depend_on_steps_after_the_end_of_the_episode():
    reward, discount, value, value_tp1, _, ratio = map(np.array, random_steps(1, 10))
    done = np.arange(10) == 4
    before = vtrace(*map(jnp.asarray, (reward, discount, value, value_tp1, done, ratio)))
    averaged = averaged_returns(*map(jnp.asarray, (reward, discount, value_tp1, done)))
    reward[5:], value[5:], value_tp1[5:] = 1e6, -1e6, 1e6
    after = vtrace(*map(jnp.asarray, (reward, discount, value, value_tp1, done, ratio)))
    np.testing.assert_array_equal(before.target[:5], after.target[:5])
    np.testing.assert_array_equal(before.advantage[:5], after.advantage[:5])
    later = averaged_returns(*map(jnp.asarray, (reward, discount, value_tp1, done)))
    np.testing.assert_array_equal(averaged[:5], later[:5])


@pytest.mark.parametrize("function", ["averaged", "vtrace"])
def test_a_batch_of_environments_equals_each_environment_alone(function):
    envs = [random_steps(seed, 9) for seed in range(3)]
    columns = [jnp.asarray(np.stack(column, axis=1)) for column in zip(*envs, strict=True)]

    def compute(reward, discount, value, value_tp1, done, ratio):
        if function == "averaged":
            return averaged_returns(reward, discount, value_tp1, done)
        return vtrace(reward, discount, value, value_tp1, done, ratio).advantage

    together = compute(*columns)
    for i, env in enumerate(envs):
        np.testing.assert_allclose(together[:, i], compute(*map(jnp.asarray, env)), rtol=1e-6)


def test_td_error_equals_its_formula():
    error = td_errors(jnp.asarray([1.0]), jnp.asarray([0.5]), jnp.asarray([3.0]), jnp.asarray([4.0]))
    np.testing.assert_allclose(error, [0.0])

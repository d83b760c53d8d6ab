import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.agent.losses import LossSettings, Trace, actor_critic_loss

TIME, WORLDS, ACTIONS = 6, 2, 3


def random_trace(seed=0):
    keys = jax.random.split(jax.random.key(seed), 6)
    logits = jax.random.normal(keys[0], (TIME, WORLDS, ACTIONS))
    action = jax.random.randint(keys[1], (TIME, WORLDS), 0, ACTIONS)
    taken = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]
    ends = jax.random.bernoulli(keys[2], 0.2, (TIME, WORLDS))
    values = jax.random.normal(keys[3], (TIME + 1, WORLDS))
    trace = Trace(
        action, taken, jax.random.normal(keys[4], (TIME, WORLDS)), ends, ~ends, jnp.ones((TIME, WORLDS), bool)
    )
    return logits, values, trace


def test_terms_are_those_of_the_algorithm():
    """`alg:policygradient`, with TD errors and averaged returns, by hand in NumPy."""
    logits, values, trace = random_trace()
    settings = LossSettings(returns="averaged", advantage="td", entropy_cost=0.1)
    total, metrics = actor_critic_loss(logits, values[:-1], values[1:], trace, settings)
    policy = np.exp(np.asarray(jax.nn.log_softmax(logits)))
    reward, v, ends = np.asarray(trace.reward), np.asarray(values), np.asarray(trace.ends)
    policy_loss = value_loss = entropy = 0.0
    for w in range(WORLDS):
        for t in range(TIME):
            stop = next((j for j in range(t, TIME) if ends[j, w]), TIME - 1)
            returns = [
                reward[t : m + 1, w].sum() + (0.0 if ends[m, w] else v[m + 1, w]) for m in range(t, stop + 1)
            ]
            following = 0.0 if ends[t, w] else v[t + 1, w]
            advantage = reward[t, w] + following - v[t, w]
            policy_loss -= np.log(policy[t, w, trace.action[t, w]]) * advantage
            value_loss += (v[t, w] - np.mean(returns)) ** 2
            entropy -= (policy[t, w] * np.log(policy[t, w])).sum()
    steps = TIME * WORLDS
    np.testing.assert_allclose(metrics["policy_loss"], policy_loss / steps, rtol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], value_loss / steps, rtol=1e-4)
    np.testing.assert_allclose(metrics["action_entropy"], entropy / steps, rtol=1e-4)
    np.testing.assert_allclose(total, (policy_loss + value_loss - 0.1 * entropy) / steps, rtol=1e-4)


@pytest.mark.parametrize("returns", ["averaged", "vtrace"])
@pytest.mark.parametrize("advantage", ["td", "return"])
def test_steps_that_never_happened_teach_nothing(returns, advantage):
    logits, values, trace = random_trace()
    trace = trace._replace(is_valid=trace.is_valid.at[:2].set(False), ends=trace.ends.at[:2].set(True))
    settings = LossSettings(returns=returns, advantage=advantage)

    def loss(logits, values, trace):
        return actor_critic_loss(logits, values[:-1], values[1:], trace, settings)[0]

    gradient = jax.grad(loss)(logits, values, trace)
    assert (gradient[:2] == 0).all()
    other = trace._replace(reward=trace.reward.at[:2].set(1e3))
    np.testing.assert_allclose(loss(logits, values, trace), loss(logits, values, other), rtol=1e-6)


def test_returns_and_advantages_carry_no_gradient():
    logits, values, trace = random_trace()
    settings = dataclasses.replace(LossSettings(), entropy_cost=0.0)

    def value_part(values):
        return actor_critic_loss(logits, values[:-1], values[1:], trace, settings)[0]

    gradient = jax.grad(value_part)(values)
    assert (gradient[-1] == 0).all()  # only a bootstrap: nothing pulls at it

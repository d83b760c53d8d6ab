import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.agent.config import AgentConfig
from gemax.agent.losses import actor_critic_loss, is_ppo_clipped
from gemax.types import Transition

TIME, ENVS, ACTIONS = 6, 2, 3


def random_steps(seed=0):
    """Returns random logits, values, transitions and rewards."""
    keys = jax.random.split(jax.random.key(seed), 6)
    logits = jax.random.normal(keys[0], (TIME, ENVS, ACTIONS))
    action = jax.random.randint(keys[1], (TIME, ENVS), 0, ACTIONS)
    log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]
    ended = jax.random.bernoulli(keys[2], 0.2, (TIME, ENVS))
    values = jax.random.normal(keys[3], (TIME + 1, ENVS))
    reward = jax.random.normal(keys[4], (TIME, ENVS))
    no, zero = jnp.zeros((TIME, ENVS), bool), jnp.zeros((TIME, ENVS), int)
    transitions = Transition(
        None, None, action, log_prob, jnp.zeros((TIME, ENVS)), ended, no, no, zero, zero, is_valid=~no
    )
    return logits, values, transitions, reward


def loss_of(logits, values, transitions, reward, config):
    bootstraps = ~transitions.terminated
    return actor_critic_loss(logits, values[:-1], values[1:], transitions, reward, bootstraps, config)


def test_terms_are_those_of_the_algorithm():
    """`alg:policygradient`, with TD errors and averaged returns, by hand in NumPy."""
    logits, values, transitions, rewards = random_steps()
    config = AgentConfig(returns="averaged", advantage="td", entropy_cost=0.1)
    total, metrics = loss_of(logits, values, transitions, rewards, config)
    policy = np.exp(np.asarray(jax.nn.log_softmax(logits)))
    reward, v, ended = np.asarray(rewards), np.asarray(values), np.asarray(transitions.terminated)
    policy_loss = value_loss = entropy = 0.0
    for w in range(ENVS):
        for t in range(TIME):
            stop = next((j for j in range(t, TIME) if ended[j, w]), TIME - 1)
            returns = [
                reward[t : m + 1, w].sum() + (0.0 if ended[m, w] else v[m + 1, w]) for m in range(t, stop + 1)
            ]
            following = 0.0 if ended[t, w] else v[t + 1, w]
            advantage = reward[t, w] + following - v[t, w]
            policy_loss -= np.log(policy[t, w, transitions.action[t, w]]) * advantage
            value_loss += (v[t, w] - np.mean(returns)) ** 2
            entropy -= (policy[t, w] * np.log(policy[t, w])).sum()
    steps = TIME * ENVS
    np.testing.assert_allclose(metrics["policy_loss"], policy_loss / steps, rtol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], value_loss / steps, rtol=1e-4)
    np.testing.assert_allclose(metrics["action_entropy"], entropy / steps, rtol=1e-4)
    np.testing.assert_allclose(total, (policy_loss + value_loss - 0.1 * entropy) / steps, rtol=1e-4)


def test_averaged_returns_do_not_correct_for_steps_of_older_policies():
    """`alg:policygradient` on overlapping unrolls: the gradient does not depend on which policy took the steps."""
    logits, values, transitions, reward = random_steps()
    older = transitions._replace(log_prob=transitions.log_prob + 0.7)  # a ratio below 1

    def gradients(transitions, returns):
        config = AgentConfig(returns=returns, advantage="td")
        return jax.grad(lambda *inputs: loss_of(*inputs, transitions, reward, config)[0], argnums=(0, 1))(
            logits, values
        )

    for found, expected in zip(gradients(older, "averaged"), gradients(transitions, "averaged"), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (gradients(older, "vtrace")[1] != gradients(transitions, "vtrace")[1]).any()


@pytest.mark.parametrize("returns", ["averaged", "vtrace"])
@pytest.mark.parametrize("advantage", ["td", "return"])
def test_invalid_steps_have_no_gradient_and_no_effect(returns, advantage):
    logits, values, transitions, reward = random_steps()
    transitions = transitions._replace(
        is_valid=transitions.is_valid.at[:2].set(False), terminated=transitions.terminated.at[:2].set(True)
    )
    config = AgentConfig(returns=returns, advantage=advantage)

    def loss(logits, reward):
        return loss_of(logits, values, transitions, reward, config)[0]

    gradient = jax.grad(loss)(logits, reward)
    assert (gradient[:2] == 0).all()
    np.testing.assert_allclose(loss(logits, reward), loss(logits, reward.at[:2].set(1e3)), rtol=1e-6)


def test_returns_and_advantages_carry_no_gradient():
    logits, values, transitions, reward = random_steps()
    config = AgentConfig(entropy_cost=0.0)
    gradient = jax.grad(lambda values: loss_of(logits, values, transitions, reward, config)[0])(values)
    assert (gradient[-1] == 0).all()  # only a bootstrap value


def test_policy_clip_has_a_gradient_exactly_where_ppo_has_one():
    """Equation 7 of Schulman et al. 2017, differentiated with respect to the ratio by JAX."""
    ratio, advantage = jnp.meshgrid(jnp.linspace(0.5, 1.5, 21), jnp.asarray([-2.0, -0.5, 0.5, 2.0]))

    def ppo_objective(ratio):
        return jnp.sum(jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.77, 1.23) * advantage))

    np.testing.assert_array_equal(is_ppo_clipped(ratio, advantage, 0.23), jax.grad(ppo_objective)(ratio) == 0)


def test_policy_clip_stops_the_policy_gradient_of_changed_actions_only():
    logits, values, transitions, reward = random_steps()
    config = AgentConfig(entropy_cost=0.0, policy_clip=0.2)
    far = transitions._replace(log_prob=transitions.log_prob - 50.0)  # a ratio of e^50

    def policy_loss(logits, config):
        return loss_of(logits, values, far, reward, config)[1]["policy_loss"]

    plain = jax.grad(policy_loss)(logits, AgentConfig(entropy_cost=0.0))
    clipped = jax.grad(policy_loss)(logits, config)
    is_off = (clipped == 0).all(axis=-1)
    assert is_off.any()
    assert not is_off.all()
    np.testing.assert_allclose(clipped[~is_off], plain[~is_off], rtol=1e-6)


def test_normalised_advantages_do_not_depend_on_the_scale_of_rewards():
    logits, values, transitions, reward = random_steps()
    config = AgentConfig(normalise_advantages=True)
    small, large = (
        loss_of(logits, scale * values, transitions, scale * reward, config)[1]["policy_loss"]
        for scale in (1.0, 100.0)
    )
    np.testing.assert_allclose(small, large, rtol=1e-4)

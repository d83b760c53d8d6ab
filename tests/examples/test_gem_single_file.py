"""The example and the library compute the same numbers from the same parameters and steps."""

import dataclasses
import importlib.util
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.agent.act import unroll_lstm
from gemax.agent.losses import actor_critic_loss
from gemax.core.moments import init_scale
from gemax.networks import AgentInputs, LSTMState, torso_and_heads
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.gem import GemState, Term, TermState, gem
from gemax.rewards.negatives_other_envs import other_envs
from gemax.settings import field_names
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states
from gemax.training.presets import configure
from gemax.training.rollout import collect, reset_actor
from gemax.types import Observations, Transition

EXAMPLE = Path(__file__).parents[2] / "examples" / "gem_single_file.py"
SMALL = {
    "num_envs": 8, "unroll_length": 35, "torso_size": 16, "lstm_size": 6, "head_size": 7, "embedding_size": 4,
    "time_buckets": 5, "discount": 0.97, "vtrace_lambda": 0.9, "entropy_cost": 0.05, "similarity_scale": 1.5,
    "huber_offset": 0.7, "huber_exponent": 3.0, "adjacency_scale": 0.5, "embedding_penalty": 0.1,
    "intrinsic_scale": 0.5, "intrinsic_shift": 0.1,
}  # fmt: skip
"""Small networks, unrolls longer than an episode, and no weight at a value at which its term would vanish."""


def load():
    """Imports the example as a module."""
    spec = importlib.util.spec_from_file_location("gem_single_file", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example():
    module = load()
    module.SETTINGS = module.Settings(**SMALL)
    return module


@pytest.fixture(scope="module")
def trainer():
    return assemble(configure("two-rooms", unroll_period=SMALL["unroll_length"], **SMALL))


@pytest.fixture(scope="module")
def table(trainer):
    return trainer.table.rows.reshape(len(trainer.table.rows), -1)


@pytest.fixture(scope="module")
def state(example, trainer, table):
    state = jax.jit(partial(example.init_state, trainer.collector.env, table))(jax.random.key(0))
    return state._replace(parameters=perturb(state.parameters, seed=1, scale=0.3))


@pytest.fixture(scope="module")
def updates(example, trainer, table, state):
    """Returns the state and the transitions of two consecutive updates."""
    update = jax.jit(partial(example.update, trainer.collector.env, table))
    first = update(state, jax.random.key(2))
    return first, update(first[0], jax.random.key(3))


def perturb(parameters, seed, scale):
    """Adds noise to all parameters, biases included."""
    leaves, tree = jax.tree.flatten(parameters)
    rng = np.random.default_rng(seed)
    return tree.unflatten([leaf + scale * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves])


def layer(weight, bias):
    return {"kernel": weight, "bias": bias[0]}


def head(layers):
    # Flax numbers layers in the order of their construction; the last layer is constructed first.
    return {f"Dense_{i}": layer(*weight_and_bias) for i, weight_and_bias in enumerate(reversed(layers))}


def to_library_agent(agent, forget_bias=1.0):
    """Converts parameters, or gradients if `forget_bias` is 0.

    The example adds 1 to the forget gate; the library initialises the bias with 1.
    """
    [(weight, bias)] = agent["lstm"]
    sizes = [SMALL["torso_size"], SMALL["time_buckets"], 5 + 1]
    torso, time, action_and_reward, hidden = np.split(weight, np.cumsum(sizes))
    forget_biases = np.repeat([0.0, forget_bias, 0.0, 0.0], SMALL["lstm_size"]).astype(np.float32)
    return {
        "torso": {"params": layer(*agent["torso"][0])},
        "lstm": {
            "input": np.concatenate([torso, action_and_reward, time]),
            "hidden": hidden,
            "bias": bias[0] + forget_biases,
        },
        "policy": {"params": head(agent["policy"])},
        "value": {"params": head(agent["value"])},
    }


def to_library_gem(parameters):
    torso, f, g = layer(*parameters["torso"][0]), head(parameters["f"]), head(parameters["g"])
    return {"params": {"_Torso_0": torso, "_Head_0": f, "_Head_1": g}}


def to_library_inputs(inputs):
    """Replaces the previous action and reward at the start of an episode, which the example masks in its network."""
    is_first = inputs.time == 0
    previous_action = jnp.where(is_first, 5, inputs.previous_action)
    return AgentInputs(previous_action, jnp.where(is_first, 0.0, inputs.previous_reward), inputs.time)


def keep_gradients():
    """Returns an optimiser that stores the last gradient as its state."""
    return optax.GradientTransformation(
        lambda parameters: jax.tree.map(jnp.zeros_like, parameters),
        lambda gradient, state, parameters=None: (gradient, gradient),
    )


def assert_close(actual, expected, atol=1e-6):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=atol), actual, expected)


def test_settings_are_those_of_the_laptop_preset():
    config = configure("two-rooms")
    settings = load().SETTINGS
    assert dataclasses.asdict(settings) == {name: config.flat[name] for name in dataclasses.asdict(settings)}
    assert settings.learning_rate == config.intrinsic.reward_learning_rate


def test_observations_are_standardised_as_in_the_library(table, monkeypatch):
    class TableError(Exception):
        pass

    def raise_table(env, table, key):
        raise TableError(table)

    example = load()
    monkeypatch.setattr(example, "init_state", raise_table)
    with pytest.raises(TableError) as raised:
        example.main()
    assert_close(raised.value.args[0], table)


def test_rollout_equals_that_of_the_library(trainer, state, updates):
    after, transitions = updates[0]

    env, start = trainer.collector.env, initial_states(trainer)

    def act(parameters, key):
        actor = reset_actor(env, trainer, SMALL["num_envs"], key)
        return collect(
            env, trainer, start._replace(parameters=parameters), actor, SMALL["unroll_length"], key
        )

    next_actor, expected = jax.jit(act)(to_library_agent(state.parameters["agent"]), jax.random.key(2))
    assert transitions.done.sum() >= 8
    for actual, desired in (
        (transitions.action, expected.action),
        (transitions.inputs.row, expected.observation),
        (transitions.next_row, expected.next_observation),
        (transitions.done, expected.terminated | expected.truncated),
        (after.inputs.row, next_actor.observation),
    ):
        np.testing.assert_array_equal(actual, desired)
    assert_close(transitions.log_prob, expected.log_prob)
    assert_close(to_library_inputs(transitions.inputs), expected.inputs)
    assert_close(to_library_inputs(after.inputs), next_actor.inputs)


def test_gem_losses_rewards_and_gradients_equal_those_of_the_library(example, trainer, table, state, updates):
    config = IntrinsicConfig(**{name: SMALL[name] for name in field_names(IntrinsicConfig) if name in SMALL})
    network = torso_and_heads(SMALL["torso_size"], SMALL["head_size"], (SMALL["embedding_size"], 1))
    method = gem(network, keep_gradients(), config, (Term(other_envs(config)),))
    learn = jax.jit(lambda state, transitions: method.step(state, transitions, jax.random.key(0)))

    @jax.jit
    def example_learn(parameters, moments, transitions):
        (loss, raw), gradient = jax.value_and_grad(example.gem_loss, has_aux=True)(
            parameters, table, transitions
        )
        embedding = example.mlp(parameters["torso"] + parameters["f"], table)
        adjacency = example.adjacency_regulariser(
            embedding[transitions.inputs.row], embedding[transitions.next_row]
        )
        return example.normalise(moments, raw), gradient, loss, adjacency, jnp.mean(raw)

    parameters = state.parameters["gem"]
    translated = to_library_gem(parameters)
    library_state = GemState(
        translated,
        jax.tree.map(jnp.zeros_like, translated),
        (TermState((), init_scale()),),
        init_scale(),
        init_scale(),
    )
    moments = jnp.zeros(3)
    # The running moments carry over from the first batch to the second.
    for _, transitions in updates:
        (reward, moments), gradient, *numbers = example_learn(parameters, moments, transitions)
        expected, learned, metrics = learn(library_state, with_observations(trainer.table.rows, transitions))
        assert_close(numbers, [metrics[name] for name in ("gem_loss", "adjacency", "raw_reward")])
        assert_close(reward, expected)
        # Sums over all pairs in another order: entries near 0 have rounding errors of terms of order 10.
        assert_close(to_library_gem(gradient), learned.opt_state, atol=1e-5)
        library_state = library_state._replace(terms=learned.terms)


def with_observations(images, transitions):
    return Transition(
        observation=Observations(images, transitions.inputs.row),
        next_observation=Observations(images, transitions.next_row),
        action=transitions.action,
        log_prob=transitions.log_prob,
        reward=transitions.reward,
        terminated=jnp.zeros_like(transitions.done),
        truncated=transitions.done,
        is_first=transitions.inputs.time == 0,
        cell=transitions.next_row,
        state_index=transitions.next_row,
    )


def test_agent_loss_and_gradients_equal_those_of_the_library(example, trainer, table, state, updates):
    before, transitions, after = within_an_episode(state, *updates[0])
    inputs = jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), transitions.inputs, after.inputs)
    steps = with_observations(trainer.table.rows, transitions)._replace(
        is_valid=jnp.ones_like(transitions.done)
    )

    def library_loss(parameters):
        lstm_states = unroll_lstm(
            trainer.network,
            parameters,
            Observations(trainer.table.rows, inputs.row),
            to_library_inputs(inputs),
            inputs.time == 0,
            LSTMState(*before.lstm_state),
        )
        logits, values = trainer.network.heads(parameters, lstm_states.hidden)
        return actor_critic_loss(
            logits[:-1],
            values[:-1],
            values[1:],
            steps,
            transitions.reward,
            ~transitions.done,
            trainer.config.agent,
        )[0]

    def example_loss(agent):
        return example.actor_critic_loss(agent, table, trainer.collector.env, before, transitions, after)

    loss_of, library_loss_of = (jax.jit(jax.value_and_grad(loss)) for loss in (example_loss, library_loss))
    agent = state.parameters["agent"]
    newer_agent = perturb(agent, seed=4, scale=0.1)  # off-policy: the ratios of V-trace are not 1
    for parameters in (agent, newer_agent):
        loss, gradient = loss_of(parameters)
        expected, expected_gradient = library_loss_of(to_library_agent(parameters))
        assert_close(loss, expected)
        assert_close(to_library_agent(gradient, forget_bias=0.0), expected_gradient)


def within_an_episode(state, after, transitions):
    """Changes the steps so that they start within an episode, with a non-zero LSTM state and rewards at every step."""
    rng = np.random.default_rng(3)

    def random_like(array):
        return jnp.asarray(rng.normal(size=array.shape), jnp.float32)

    time = transitions.inputs.time.at[:10].add(1)
    inputs = transitions.inputs._replace(time=time, previous_reward=random_like(transitions.reward))
    before = state._replace(lstm_state=tuple(random_like(part) for part in state.lstm_state))
    return before, transitions._replace(inputs=inputs, reward=random_like(transitions.reward)), after


def test_two_updates_are_finite_and_change_all_parameters(state, updates):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))
    old, new = (jax.tree.leaves(jax.device_get(s.parameters)) for s in (state, updates[1][0]))
    assert all((one != other).any() for one, other in zip(old, new, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_example_solves_two_rooms(seed, capsys):
    load().main(seed)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("update  50   return 0.00   visitation entropy 3.")
    assert float(re.findall(r"return (\S+)", lines[-1])[0]) >= 0.95

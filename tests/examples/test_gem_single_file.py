"""The example against the library: the same parameters, the same steps, the same numbers."""

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

from gemax.agent.acting import unroll
from gemax.agent.losses import Trace, actor_critic_loss
from gemax.core.normaliser import init_normaliser
from gemax.networks import Inputs, Memory, torso_and_heads
from gemax.rewards.gem import GemSettings, GemState, gem
from gemax.training.assemble import assemble
from gemax.training.collect import collect, start
from gemax.training.presets import configure
from gemax.types import Observations, Rollout

EXAMPLE = Path(__file__).parents[2] / "examples" / "gem_single_file.py"
SMALL = {
    "num_worlds": 8, "trace_length": 35, "torso_size": 16, "lstm_size": 6, "head_size": 7, "embedding_size": 4,
    "time_buckets": 5, "discount": 0.97, "trace_decay": 0.9, "entropy_cost": 0.05, "similarity_scale": 1.5,
    "huber_offset": 0.7, "huber_exponent": 3.0, "adjacency_scale": 0.5, "regularisation": 0.1,
    "intrinsic_scale": 0.5, "intrinsic_shift": 0.1,
}  # fmt: skip
"""Small, yet long enough for episodes to end, and with no weight at a value that would hide it."""


def load():
    """The example as a module."""
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
    return assemble(configure("two-rooms", trace_period=SMALL["trace_length"], **SMALL))


@pytest.fixture(scope="module")
def table(trainer):
    return trainer.eyes.table.reshape(len(trainer.eyes.table), -1)


@pytest.fixture(scope="module")
def state(example, trainer, table):
    state = jax.jit(partial(example.init_state, trainer.world, table))(jax.random.key(0))
    return state._replace(parameters=shaken(state.parameters, seed=1, by=0.3))


@pytest.fixture(scope="module")
def updates(example, trainer, table, state):
    """What two updates leave, one after the other: the state, and the steps that it was learned from."""
    update = jax.jit(partial(example.update, trainer.world, table))
    first = update(state, jax.random.key(2))
    return first, update(first[0], jax.random.key(3))


def shaken(parameters, seed, by):
    """Other parameters, biases included."""
    leaves, tree = jax.tree.flatten(parameters)
    rng = np.random.default_rng(seed)
    return tree.unflatten([leaf + by * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves])


def layer(weight, bias):
    return {"kernel": weight, "bias": bias[0]}


def head(layers):
    # Flax counts layers in the order in which they are made: here the last one first.
    return {f"Dense_{number}": layer(*each) for number, each in enumerate(reversed(layers))}


def agent_of_library(agent, forget_bias=1.0):
    """The example adds one to its forget gate, where the library has it in the bias; gradients have no such one."""
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


def gem_of_library(parameters):
    torso, f, g = layer(*parameters["torso"][0]), head(parameters["f"]), head(parameters["g"])
    return {"params": {"_Torso_0": torso, "_Head_0": f, "_Head_1": g}}


def inputs_of_library(inputs):
    """Where an episode starts, the library sees no previous action and reward; the example leaves them out itself."""
    is_first = inputs.time == 0
    previous_action = jnp.where(is_first, 5, inputs.previous_action)
    return Inputs(previous_action, jnp.where(is_first, 0.0, inputs.previous_reward), inputs.time)


def keep_gradients():
    """An optimiser whose state is the last gradient."""
    return optax.GradientTransformation(
        lambda parameters: jax.tree.map(jnp.zeros_like, parameters),
        lambda gradient, state, parameters=None: (gradient, gradient),
    )


def assert_close(actual, expected, atol=1e-6):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=atol), actual, expected)


def test_settings_are_those_of_the_laptop_preset():
    config = configure("two-rooms")
    settings = load().SETTINGS
    for name, value in dataclasses.asdict(settings).items():
        assert getattr(config, name) == value, name
    assert settings.learning_rate == config.reward_learning_rate  # one for all


def test_observations_are_centred_as_in_the_library(trainer, table, monkeypatch):
    class EnoughSeenError(Exception):
        pass

    def look(world, table, key):
        raise EnoughSeenError(table)

    example = load()
    monkeypatch.setattr(example, "init_state", look)
    with pytest.raises(EnoughSeenError) as seen:
        example.main()
    assert_close(seen.value.args[0], table)


def test_it_acts_as_the_library_does(trainer, state, updates):
    after, steps = updates[0]

    def act(parameters, key):
        position = start(trainer.world, trainer.eyes, trainer.network, SMALL["num_worlds"], key)
        parts = (trainer.world, trainer.eyes, trainer.centring, trainer.network)
        return collect(*parts, parameters, position, SMALL["trace_length"], key)

    following, expected = jax.jit(act)(agent_of_library(state.parameters["agent"]), jax.random.key(2))
    assert steps.ends.sum() >= 8
    for actual, wanted in (
        (steps.action, expected.action),
        (steps.inputs.row, expected.seen),
        (steps.arrived, expected.arrived),
        (steps.ends, expected.terminated | expected.truncated),
        (after.inputs.row, following.seen),
    ):
        np.testing.assert_array_equal(actual, wanted)
    assert_close(steps.log_probability, expected.log_probability)
    assert_close(inputs_of_library(steps.inputs), expected.inputs)
    assert_close(inputs_of_library(after.inputs), following.inputs)


def test_f_and_g_have_the_losses_rewards_and_gradients_of_the_library(
    example, trainer, table, state, updates
):
    shared = ("similarity_scale", "huber_offset", "huber_exponent", "adjacency_scale", "regularisation")
    settings = GemSettings(
        scale=SMALL["intrinsic_scale"],
        shift=SMALL["intrinsic_shift"],
        **{name: SMALL[name] for name in shared},
    )
    network = torso_and_heads(SMALL["torso_size"], SMALL["head_size"], (SMALL["embedding_size"], 1))
    method = gem(network, SMALL["embedding_size"], keep_gradients(), settings)
    learn = jax.jit(lambda state, rollout: method.step(state, rollout, jax.random.key(0)))

    @jax.jit
    def example_learn(parameters, moments, steps):
        (loss, raw), gradient = jax.value_and_grad(example.gem_loss, has_aux=True)(parameters, table, steps)
        embedding = example.mlp(parameters["torso"] + parameters["f"], table)
        adjacency = example.adjacency_regulariser(embedding[steps.inputs.row], embedding[steps.arrived])
        return example.normalise(moments, raw), gradient, loss, adjacency, jnp.mean(raw)

    parameters = state.parameters["gem"]
    translated = gem_of_library(parameters)
    library_state = GemState(translated, jax.tree.map(jnp.zeros_like, translated), init_normaliser())
    moments = jnp.zeros(3)
    # The moments of the reward run on from one batch to the next.
    for _, steps in updates:
        (paid, moments), gradient, *numbers = example_learn(parameters, moments, steps)
        expected, learned, metrics = learn(library_state, rollout_of(trainer.eyes.table, steps))
        assert_close(numbers, [metrics[name] for name in ("gem_loss", "adjacency", "raw_reward")])
        assert_close(paid, expected)
        # Sums over all pairs, in another order: entries near zero carry the rounding of terms of the order of ten.
        assert_close(gem_of_library(gradient), learned.optimiser, atol=1e-5)
        library_state = library_state._replace(normaliser=learned.normaliser)


def rollout_of(images, steps):
    return Rollout(
        seen=Observations(images, steps.inputs.row),
        arrived=Observations(images, steps.arrived),
        action=steps.action,
        log_probability=steps.log_probability,
        reward=steps.reward,
        terminated=jnp.zeros_like(steps.ends),
        truncated=steps.ends,
        is_first=steps.inputs.time == 0,
        square=steps.arrived,
    )


def test_the_agent_has_the_loss_and_the_gradients_of_the_library(example, trainer, table, state, updates):
    before, steps, after = within_an_episode(state, *updates[0])
    inputs = jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), steps.inputs, after.inputs)
    valid = jnp.ones_like(steps.ends)
    trace = Trace(steps.action, steps.log_probability, steps.reward, steps.ends, ~steps.ends, valid)

    def library_loss(parameters):
        logits, values = unroll(
            trainer.network,
            parameters,
            Observations(trainer.eyes.table, inputs.row),
            inputs_of_library(inputs),
            inputs.time == 0,
            Memory(*before.memory),
        )
        return actor_critic_loss(logits[:-1], values[:-1], values[1:], trace, trainer.loss)[0]

    def example_loss(agent):
        return example.actor_critic_loss(agent, table, trainer.world, before, steps, after)

    loss_of, library_loss_of = (jax.jit(jax.value_and_grad(loss)) for loss in (example_loss, library_loss))
    agent = state.parameters["agent"]
    newer = shaken(agent, seed=4, by=0.1)  # off-policy: the ratios of V-trace are not one
    for parameters in (agent, newer):
        loss, gradient = loss_of(parameters)
        expected, expected_gradient = library_loss_of(agent_of_library(parameters))
        assert_close(loss, expected)
        assert_close(agent_of_library(gradient, forget_bias=0.0), expected_gradient)


def within_an_episode(state, after, steps):
    """As if the steps began within an episode, with something in memory, and rewards fell all the time."""
    rng = np.random.default_rng(3)

    def drawn(array):
        return jnp.asarray(rng.normal(size=array.shape), jnp.float32)

    time = steps.inputs.time.at[:10].add(1)
    inputs = steps.inputs._replace(time=time, previous_reward=drawn(steps.reward))
    before = state._replace(memory=tuple(drawn(part) for part in state.memory))
    return before, steps._replace(inputs=inputs, reward=drawn(steps.reward)), after


def test_two_updates_are_finite_and_move_everything(state, updates):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))
    old, new = (jax.tree.leaves(jax.device_get(each.parameters)) for each in (state, updates[1][0]))
    assert all((one != other).any() for one, other in zip(old, new, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_it_solves_two_rooms(seed, capsys):
    load().main(seed)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("update  50   return 0.00   visitation entropy 3.")
    assert float(re.findall(r"return (\S+)", lines[-1])[0]) >= 0.95

import jax
import jax.numpy as jnp
import numpy as np

from gemax.agent.acting import act, unroll, unroll_memory, values_after
from gemax.core.encoding import soft_one_hot
from gemax.networks import Inputs, Memory, agent_network, lstm_inputs
from gemax.types import Observations

TIME, WORLDS, ACTIONS, HORIZON = 5, 3, 4, 9
NETWORK = agent_network(ACTIONS, HORIZON, torso_size=6, lstm_size=5, head_size=7, time_buckets=4)


def random_steps(seed=0):
    keys = jax.random.split(jax.random.key(seed), 6)
    table = jax.random.normal(keys[0], (8, 2, 3))
    row = jax.random.randint(keys[1], (TIME, WORLDS), 0, 8)
    inputs = Inputs(
        jax.random.randint(keys[2], (TIME, WORLDS), 0, ACTIONS + 1),
        jax.random.normal(keys[3], (TIME, WORLDS)),
        jax.random.randint(keys[4], (TIME, WORLDS), 0, HORIZON + 1),
    )
    is_first = jax.random.bernoulli(keys[5], 0.3, (TIME, WORLDS))
    return table, row, inputs, is_first


def plain_lstm(parameters, features, memory):
    """From the textbook, with everything that enters it in one vector."""
    gates = features @ parameters["input"] + memory.hidden @ parameters["hidden"] + parameters["bias"][None]
    enter, forget, new, leave = np.split(np.asarray(gates), 4, axis=1)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    cell = sigmoid(forget) * memory.cell + sigmoid(enter) * np.tanh(new)
    return Memory(sigmoid(leave) * np.tanh(cell), cell)


def test_sums_of_look_ups_equal_an_lstm_over_concatenated_inputs(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)
    logits, values = unroll(
        NETWORK, parameters, Observations(table, row), inputs, is_first, NETWORK.initial_memory(WORLDS)
    )
    dense = parameters["torso"]["params"]["Dense_0"]
    memory = NETWORK.initial_memory(WORLDS)
    for t in range(TIME):
        memory = jax.tree.map(lambda leaf, t=t: jnp.where(is_first[t][:, None], 0.0, leaf), memory)
        torso = jax.nn.relu(table[row[t]].reshape(WORLDS, -1) @ dense["kernel"] + dense["bias"][None])
        features = jnp.concatenate(
            [
                torso,
                jax.nn.one_hot(inputs.previous_action[t], ACTIONS),  # "none" is all zeros
                inputs.previous_reward[t][:, None],
                soft_one_hot(inputs.time[t].astype(float), 4, 0.0, float(HORIZON)),
            ],
            axis=1,
        )
        memory = plain_lstm(parameters["lstm"], features, memory)
        expected_logits, expected_value = NETWORK.heads(parameters, jnp.asarray(memory.hidden))
        np.testing.assert_allclose(logits[t], expected_logits, atol=1e-5)
        np.testing.assert_allclose(values[t], expected_value, atol=1e-5)


def test_unrolling_through_a_table_equals_unrolling_every_observation(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)

    def total(parameters, observations):
        memory = NETWORK.initial_memory(WORLDS)
        logits, values = unroll(NETWORK, parameters, observations, inputs, is_first, memory)
        return jnp.sum(logits**2) + jnp.sum(values**3)

    every = Observations(table[row].reshape(-1, 2, 3), None)
    fast = jax.value_and_grad(total)(parameters, Observations(table, row))
    plain = jax.value_and_grad(total)(parameters, every)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), fast, plain)


def test_acting_says_what_unrolling_says(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)
    is_first = is_first.at[0].set(True)
    logits, _ = unroll(
        NETWORK, parameters, Observations(table, row), inputs, is_first, NETWORK.initial_memory(WORLDS)
    )
    memory, tables = NETWORK.initial_memory(WORLDS), NETWORK.tables(parameters)
    for t in range(TIME):
        memory = jax.tree.map(lambda leaf, t=t: jnp.where(is_first[t][:, None], 0.0, leaf), memory)
        terms = NETWORK.row_terms(parameters, table)[row[t]]
        now = jax.tree.map(lambda leaf, t=t: leaf[t], inputs)
        acted = act(NETWORK, parameters, tables, terms, now, memory, key, greedy=True)
        np.testing.assert_array_equal(acted.action, jnp.argmax(logits[t], axis=-1))
        expected = jnp.take_along_axis(jax.nn.log_softmax(logits[t]), acted.action[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(acted.log_probability, expected, atol=1e-5)
        memory = acted.memory
    assert lstm_inputs(tables, terms, now).shape == (WORLDS, 20)


def test_values_after_steps_are_those_that_the_next_steps_see(key):
    parameters = NETWORK.init(key, jnp.zeros((1, 3)))
    observations = jax.random.normal(key, (4, 2, 3))
    inputs = Inputs(
        jax.random.randint(key, (4, 2), 0, ACTIONS),
        jax.random.normal(key, (4, 2)),
        jnp.arange(8).reshape(4, 2),
    )
    memory = NETWORK.initial_memory(2)

    def seen(rows):
        return Observations(rows.reshape(-1, 3), None)

    goes_on = jnp.zeros((4, 2), bool)
    memories = unroll_memory(NETWORK, parameters, seen(observations), inputs, goes_on, memory)
    _, values = unroll(NETWORK, parameters, seen(observations), inputs, goes_on, memory)
    later = Inputs(*(leaf[1:] for leaf in inputs))
    until = Memory(*(leaf[:-1] for leaf in memories))
    after = values_after(NETWORK, parameters, seen(observations[1:]), later, until)
    np.testing.assert_allclose(after, values[1:], rtol=1e-5, atol=1e-6)

import jax
import jax.numpy as jnp
import numpy as np

from gemax.agent.act import act, next_values, unroll_lstm
from gemax.core.encoding import soft_one_hot
from gemax.networks import AgentInputs, LSTMState, agent_network, lstm_inputs
from gemax.types import Observations

TIME, ENVS, ACTIONS, HORIZON = 5, 3, 4, 9
NETWORK = agent_network(ACTIONS, HORIZON, torso_size=6, lstm_size=5, head_size=7, time_buckets=4)


def random_steps(seed=0):
    keys = jax.random.split(jax.random.key(seed), 6)
    table = jax.random.normal(keys[0], (8, 2, 3))
    row = jax.random.randint(keys[1], (TIME, ENVS), 0, 8)
    inputs = AgentInputs(
        jax.random.randint(keys[2], (TIME, ENVS), 0, ACTIONS + 1),
        jax.random.normal(keys[3], (TIME, ENVS)),
        jax.random.randint(keys[4], (TIME, ENVS), 0, HORIZON + 1),
    )
    is_first = jax.random.bernoulli(keys[5], 0.3, (TIME, ENVS))
    return table, row, inputs, is_first


def unroll(parameters, observations, inputs, is_first):
    """Returns the LSTM states, logits and values over time, from the initial LSTM state."""
    initial = NETWORK.initial_lstm_state(is_first.shape[1])
    lstm_states = unroll_lstm(NETWORK, parameters, observations, inputs, is_first, initial)
    return lstm_states, *NETWORK.heads(parameters, lstm_states.hidden)


def reset(lstm_state, is_first):
    return jax.tree.map(lambda leaf: jnp.where(is_first[:, None], 0.0, leaf), lstm_state)


def reference_lstm(parameters, features, lstm_state):
    """A textbook LSTM over one concatenated input vector, in NumPy."""
    hidden_term = lstm_state.hidden @ parameters["hidden"]
    gates = features @ parameters["input"] + hidden_term + parameters["bias"][None]
    input_gate, forget_gate, candidate, output_gate = np.split(np.asarray(gates), 4, axis=1)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    cell = sigmoid(forget_gate) * lstm_state.cell + sigmoid(input_gate) * np.tanh(candidate)
    return LSTMState(sigmoid(output_gate) * np.tanh(cell), cell)


def test_sum_of_table_look_ups_equals_an_lstm_over_concatenated_inputs(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)
    _, logits, values = unroll(parameters, Observations(table, row), inputs, is_first)
    dense = parameters["torso"]["params"]["Dense_0"]
    lstm_state = NETWORK.initial_lstm_state(ENVS)
    for t in range(TIME):
        torso = jax.nn.relu(table[row[t]].reshape(ENVS, -1) @ dense["kernel"] + dense["bias"][None])
        features = jnp.concatenate(
            [
                torso,
                jax.nn.one_hot(inputs.previous_action[t], ACTIONS),  # zeros if there is no previous action
                inputs.previous_reward[t][:, None],
                soft_one_hot(inputs.time[t].astype(float), 4, 0.0, float(HORIZON)),
            ],
            axis=1,
        )
        lstm_state = reference_lstm(parameters["lstm"], features, reset(lstm_state, is_first[t]))
        expected_logits, expected_value = NETWORK.heads(parameters, jnp.asarray(lstm_state.hidden))
        np.testing.assert_allclose(logits[t], expected_logits, atol=1e-5)
        np.testing.assert_allclose(values[t], expected_value, atol=1e-5)


def test_unroll_with_an_observation_table_equals_unroll_of_every_observation(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)

    def total(parameters, observations):
        _, logits, values = unroll(parameters, observations, inputs, is_first)
        return jnp.sum(logits**2) + jnp.sum(values**3)

    with_table = jax.value_and_grad(total)(parameters, Observations(table, row))
    without = jax.value_and_grad(total)(parameters, Observations(table[row].reshape(-1, 2, 3), None))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), with_table, without)


def test_act_agrees_with_unroll(key):
    table, row, inputs, is_first = random_steps()
    parameters = NETWORK.init(key, table)
    is_first = is_first.at[0].set(True)
    _, logits, _ = unroll(parameters, Observations(table, row), inputs, is_first)
    lstm_state, tables = NETWORK.initial_lstm_state(ENVS), NETWORK.tables(parameters)
    for t in range(TIME):
        terms = NETWORK.observation_terms(parameters, table)[row[t]]
        inputs_t = jax.tree.map(lambda leaf, t=t: leaf[t], inputs)
        lstm_state = reset(lstm_state, is_first[t])
        output = act(NETWORK, parameters, tables, terms, inputs_t, lstm_state, key, greedy=True)
        np.testing.assert_array_equal(output.action, jnp.argmax(logits[t], axis=-1))
        log_policy = jax.nn.log_softmax(logits[t])
        expected = jnp.take_along_axis(log_policy, output.action[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(output.log_prob, expected, atol=1e-5)
        lstm_state = output.lstm_state
    assert lstm_inputs(tables, terms, inputs_t).shape == (ENVS, 20)


def test_next_values_equal_the_values_of_the_next_steps_within_an_episode(key):
    parameters = NETWORK.init(key, jnp.zeros((1, 3)))
    observations = jax.random.normal(key, (4, 2, 3))
    inputs = AgentInputs(
        jax.random.randint(key, (4, 2), 0, ACTIONS),
        jax.random.normal(key, (4, 2)),
        jnp.arange(8).reshape(4, 2),
    )
    is_first = jnp.zeros((4, 2), bool)

    def without_table(observations):
        return Observations(observations.reshape(-1, 3), None)

    lstm_states, _, values = unroll(parameters, without_table(observations), inputs, is_first)
    next_inputs = AgentInputs(*(leaf[1:] for leaf in inputs))
    states_before = LSTMState(*(leaf[:-1] for leaf in lstm_states))
    found = next_values(NETWORK, parameters, without_table(observations[1:]), next_inputs, states_before)
    np.testing.assert_allclose(found, values[1:], rtol=1e-5, atol=1e-6)

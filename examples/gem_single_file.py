"""GEM (geometric entropy maximisation) in one file, to be read from top to bottom beside the paper.

An agent in 2-Rooms learns to visit all cells evenly. It thereby finds a reward that a random policy almost never
reaches. Three parts are trained together:

- the embedding f, which defines the similarity of two states;
- g, which estimates the inverse density of the visited states, smoothed by that similarity;
- the policy, which receives a high intrinsic reward where g is high.

Labels such as `eq:taco.kernel.obj` refer to the paper. Arrays are [time, environment, ...]. At time t the agent takes
an action in x_t, receives the reward r_t and reaches x_{t+1}. Only the environment is imported from the library.

Usage: python examples/gem_single_file.py [seed]
"""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from gemax.envs.base import step_and_reset
from gemax.envs.registry import make_env


@dataclass(frozen=True)
class Settings:
    """The library's `laptop` preset for 2-Rooms, with the same names."""

    num_envs: int = 64  # the negatives of each half are the states of the other half
    unroll_length: int = 30  # steps per environment and update
    torso_size: int = 256
    lstm_size: int = 64
    head_size: int = 64
    embedding_size: int = 32
    time_buckets: int = 16
    learning_rate: float = 1e-3  # of all networks: f and g must learn at least as fast as the policy
    adam_beta1: float = 0.0
    adam_beta2: float = 0.95
    discount: float = 1.0  # γ
    vtrace_lambda: float = 0.95  # λ
    entropy_cost: float = 1e-3  # w_ent: weight of the entropy bonus
    similarity_scale: float = 1.0  # c
    huber_offset: float = 1.0  # δ
    huber_exponent: float = 4.0  # q
    adjacency_scale: float = 1.0  # C
    embedding_penalty: float = 1e-4  # w_reg
    intrinsic_scale: float = 0.005  # s: standard deviation of the normalised intrinsic reward
    intrinsic_shift: float = 0.005  # m: mean of the normalised intrinsic reward


SETTINGS = Settings()
OPTIMISER = optax.adam(SETTINGS.learning_rate, b1=SETTINGS.adam_beta1, b2=SETTINGS.adam_beta2)
Layers = list[tuple[Array, Array]]  # weight and bias of each layer
Parameters = dict[str, Layers]


def init_mlp(keys: Any, *sizes: int) -> Layers:
    """Returns layers of these sizes, from the input to the output. Each layer uses one key."""
    init, shapes = jax.nn.initializers.lecun_normal(), [sizes[i : i + 2] for i in range(len(sizes) - 1)]
    return [(init(next(keys), shape), jnp.zeros((1, shape[1]))) for shape in shapes]


def mlp(layers: Layers, inputs: Array) -> Array:
    """Applies linear layers with ReLU in between."""
    for weight, bias in layers[:-1]:
        inputs = jax.nn.relu(inputs @ weight + bias)
    return inputs @ layers[-1][0] + layers[-1][1]


class AgentInputs(NamedTuple):
    """Inputs of the agent at each step."""

    row: Array  # index of the observation in the table of observations
    previous_action: Array
    previous_reward: Array
    time: Array  # number of actions taken in this episode so far


def agent_network(agent: Parameters, table: Array, env: Any):
    """Returns a function that maps LSTM state and inputs to the next LSTM state, ln π of all actions, and the value."""
    [(weight, bias)] = agent["lstm"]
    # Observations repeat, so the projection of each distinct observation onto the gates is computed only once.
    row_gates = mlp([*agent["torso"], (weight[: SETTINGS.torso_size], bias)], table)

    def step(lstm_state: tuple[Array, Array], inputs: AgentInputs):
        # Soft one-hot encoding of the time, `alg:soft1h`:  exp(-|b_i - n t / horizon|) with b = 0.5, 1.5 … n - 0.5
        position = SETTINGS.time_buckets * inputs.time / env.spec.horizon
        time = jnp.exp(-jnp.abs(jnp.subtract.outer(position, jnp.arange(SETTINGS.time_buckets) + 0.5)))
        action = jax.nn.one_hot(inputs.previous_action, env.spec.num_actions)
        past = (action, inputs.previous_reward[:, None], *lstm_state)
        # All of these are zero at the start of an episode.
        *past, cell = (jnp.where((inputs.time == 0)[:, None], 0.0, part) for part in past)
        gates = row_gates[inputs.row] + jnp.concatenate([time, *past], axis=1) @ weight[SETTINGS.torso_size :]
        input_gate, forget_gate, candidate, output_gate = jnp.split(gates, 4, axis=1)
        # The constant 1 opens the forget gate at the start of training.
        cell = jax.nn.sigmoid(forget_gate + 1.0) * cell + jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(output_gate) * jnp.tanh(cell)
        log_policy = jax.nn.log_softmax(mlp(agent["policy"], hidden))
        return (hidden, cell), (log_policy, mlp(agent["value"], hidden)[:, 0])

    return step


class State(NamedTuple):
    """The state of training."""

    parameters: dict[str, Parameters]
    opt_state: Any
    moments: Array  # running mean and standard deviation of the intrinsic reward
    envs: Any
    inputs: AgentInputs
    lstm_state: tuple[Array, Array]  # hidden and cell


class Transitions(NamedTuple):
    """Collected steps, [time, environment]."""

    inputs: AgentInputs
    action: Array
    log_prob: Array  # ln π(a_t) when the action was taken
    reward: Array
    done: Array
    next_row: Array  # row of x_{t+1}, which is the terminal observation at the end of an episode


def collect(env: Any, table: Array, state: State, key: Array) -> tuple[State, Transitions]:
    """Runs the policy in all environments."""
    network = agent_network(state.parameters["agent"], table, env)
    row_of = jax.vmap(env.finite.observation_index)

    def one_step(state: State, key: Array) -> tuple[State, Transitions]:
        action_key, env_key = jax.random.split(key)
        lstm_state, (log_policy, _) = network(state.lstm_state, state.inputs)
        action = jax.random.categorical(action_key, log_policy)
        log_prob = jnp.take_along_axis(log_policy, action[:, None], axis=1)[:, 0]
        env_keys = jax.random.split(env_key, SETTINGS.num_envs)
        envs, outcome = jax.vmap(partial(step_and_reset, env))(env_keys, state.envs, action)
        reward, done, next_row = outcome.timestep.reward, outcome.is_first, row_of(outcome.next_state)
        transition = Transitions(state.inputs, action, log_prob, reward, done, next_row)
        inputs = AgentInputs(row_of(envs), action, reward, jnp.where(done, 0, state.inputs.time + 1))
        return state._replace(envs=envs, inputs=inputs, lstm_state=lstm_state), transition

    return jax.lax.scan(one_step, state, jax.random.split(key, SETTINGS.unroll_length))


def similarity_matrix(embedding: Array) -> Array:
    """`sec:similarity`:  k(x, x') = exp(-c ‖f(x) - f(x')‖)"""
    squared = jnp.sum((embedding[:, None] - embedding[None]) ** 2, axis=-1)
    # The square root has an infinite slope at 0. The inner `where` keeps it out of the gradient.
    distance = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
    return jnp.exp(-SETTINGS.similarity_scale * distance)


def gem_objective(log_g: Array, similarity: Array) -> Array:
    """`eq:taco.kernel.obj`:  E[ln g(x)] - E[k(x, x') g(x)] + 1, a lower bound of the geometry-aware entropy."""
    return jnp.mean(log_g - similarity * jnp.exp(log_g)) + 1.0


def gem_reward(log_g: Array, similarity: Array, similarity_g: Array) -> Array:
    """`prop:aco.grad`:  1 + ln g(x) - E[k(x, x') (g(x) + g(x'))]. Both x and x' depend on the policy, hence g(x')."""
    return 1.0 + log_g - similarity * jnp.exp(log_g) - similarity_g


def adjacency_regulariser(embedding_t: Array, embedding_tp1: Array) -> Array:
    """`alg:arloss`:  E[(δ^q + ‖f(x_t) - f(x_{t+1})‖^q)^(1/q)]. Keeps consecutive states close in the embedding."""
    squared, q = jnp.sum((embedding_t - embedding_tp1) ** 2, axis=-1), SETTINGS.huber_exponent
    return jnp.mean((SETTINGS.huber_offset**q + squared ** (q / 2)) ** (1 / q))


def gem_loss(gem: Parameters, table: Array, transitions: Transitions) -> tuple[Array, Array]:
    """`alg:taco`: returns the loss of f and g, and the intrinsic reward of every step."""
    embedding = mlp(gem["torso"] + gem["f"], table)
    log_g = jnp.log(jax.nn.softplus(mlp(gem["torso"] + gem["g"], table)[:, 0]) + 1e-8)
    matrix, halves = similarity_matrix(embedding), jnp.split(transitions.next_row, 2, axis=1)
    objectives, rewards = [], []
    for rows, other_rows in (halves, halves[::-1]):
        # All states of the other half are negatives x', so E[k(x, x')] = K h and E[k(x, x') g(x')] = K (h·g).
        histogram = jnp.zeros_like(log_g).at[other_rows].add(1.0 / other_rows.size)
        similarity, similarity_g = matrix @ histogram, matrix @ (histogram * jnp.exp(log_g))
        objectives.append(gem_objective(log_g[rows], similarity[rows]))
        rewards.append(gem_reward(log_g, similarity, similarity_g)[rows])
    penalty = jnp.mean(jnp.sum(embedding[transitions.next_row] ** 2, axis=-1))
    adjacency = adjacency_regulariser(embedding[transitions.inputs.row], embedding[transitions.next_row])
    loss = SETTINGS.embedding_penalty * penalty + SETTINGS.adjacency_scale * adjacency - sum(objectives) / 2
    return loss, jnp.concatenate(rewards, axis=1)


def normalise(moments: Array, reward: Array) -> tuple[Array, Array]:
    """`alg:moretacomax`:  (r - μ) / σ · s + m, with running averages that include the current batch."""
    moments = 0.99 * moments + jnp.array([1.0, jnp.mean(reward), jnp.std(reward)])
    mean, std = moments[1] / moments[0], jnp.maximum(moments[2] / moments[0], 1e-6)
    return (reward - mean) / std * SETTINGS.intrinsic_scale + SETTINGS.intrinsic_shift, moments


def vtrace_advantage(error: Array, discount: Array, ratio: Array) -> Array:
    """V-trace (Espeholt et al. 2018) with ratios ρ clipped at 1:  A_t = ρ_t (error_t + γ_t λ A_{t+1})"""
    ratio, advantages = jnp.minimum(ratio, 1.0), [jnp.zeros_like(error[0])]
    for t in reversed(range(len(error))):
        advantages.insert(0, ratio[t] * (error[t] + discount[t] * SETTINGS.vtrace_lambda * advantages[0]))
    return jnp.stack(advantages[:-1])


def actor_critic_loss(
    agent: Parameters, table: Array, env: Any, before: State, transitions: Transitions, after: State
):
    """`alg:policygradient`:  PLOSS + VLOSS - w_ent ENT"""
    inputs = jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), transitions.inputs, after.inputs)
    _, (log_policy, value) = jax.lax.scan(agent_network(agent, table, env), before.lstm_state, inputs)
    log_policy, value_t, value_tp1 = log_policy[:-1], value[:-1], value[1:]
    log_prob = jnp.take_along_axis(log_policy, transitions.action[..., None], axis=-1)[..., 0]
    # The ratio is 1 here, because each step is used once, immediately. It would not be for reused steps.
    ratio = jnp.exp(log_prob - transitions.log_prob)
    # The horizon is part of the task and the agent observes the time, so the value after the last step is 0.
    discount = SETTINGS.discount * ~transitions.done
    error = transitions.reward + discount * value_tp1 - value_t
    advantage = jax.lax.stop_gradient(vtrace_advantage(error, discount, ratio))
    policy_loss = -jnp.mean(log_prob * advantage)
    # With ratios clipped at 1, the V-trace target is the value plus the advantage.
    value_loss = jnp.mean((value_t - jax.lax.stop_gradient(value_t + advantage)) ** 2)
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1))
    return policy_loss + value_loss - SETTINGS.entropy_cost * entropy


def init_state(env: Any, table: Array, key: Array) -> State:
    """Initialises the networks and resets the environments. π and V share a torso and an LSTM, f and g a torso."""
    layers_key, envs_key = jax.random.split(key)
    net = partial(init_mlp, iter(jax.random.split(layers_key, 11)))  # eleven layers in total
    image, torso, embedding = table.shape[1], SETTINGS.torso_size, SETTINGS.embedding_size
    lstm, head, actions = SETTINGS.lstm_size, SETTINGS.head_size, env.spec.num_actions
    agent = {"torso": net(image, torso), "policy": net(lstm, head, actions), "value": net(lstm, head, 1)}
    agent["lstm"] = net(torso + SETTINGS.time_buckets + actions + 1 + lstm, 4 * lstm)
    gem = {"torso": net(image, torso), "f": net(torso, head, embedding), "g": net(torso, head, 1)}
    parameters = {"agent": agent, "gem": gem}
    envs, _ = jax.vmap(env.reset)(jax.random.split(envs_key, SETTINGS.num_envs))
    row, zeros = jax.vmap(env.finite.observation_index)(envs), jnp.zeros((SETTINGS.num_envs, lstm))
    inputs = AgentInputs(row, jnp.zeros_like(row), zeros[:, 0], jnp.zeros_like(row))
    return State(parameters, OPTIMISER.init(parameters), jnp.zeros(3), envs, inputs, (zeros, zeros))


def update(env: Any, table: Array, state: State, key: Array) -> tuple[State, Transitions]:
    """`alg:moretacomax`: rollout, loss of f and g, intrinsic reward, normalisation, actor-critic loss."""
    after, transitions = collect(env, table, state, key)
    gem_gradient, raw_reward = jax.grad(gem_loss, has_aux=True)(state.parameters["gem"], table, transitions)
    intrinsic, moments = normalise(state.moments, raw_reward)
    mixed = transitions._replace(reward=transitions.reward + intrinsic)
    agent_gradient = jax.grad(actor_critic_loss)(state.parameters["agent"], table, env, state, mixed, after)
    gradients = {"agent": agent_gradient, "gem": gem_gradient}
    updates, opt_state = OPTIMISER.update(gradients, state.opt_state)
    parameters = optax.apply_updates(state.parameters, updates)
    return after._replace(parameters=parameters, opt_state=opt_state, moments=moments), transitions


def main(seed: int = 0, updates: int = 600) -> None:
    """Trains until the mean return of the last 1,000 episodes counts as solved, or for the given number of updates."""
    env: Any = make_env("two-rooms", observation="cells")
    images = env.finite.observation_table.reshape(len(env.finite.observation_table), -1).astype(float)
    # Centred and scaled, because the images of a map are almost equal, which would slow down learning.
    table = (images - images.mean(axis=0, keepdims=True)) / jnp.sqrt(jnp.mean(images.var(axis=0)))
    init_key, run_key = jax.random.split(jax.random.key(seed))
    state = jax.jit(partial(init_state, env, table))(init_key)
    jitted_update = jax.jit(partial(update, env, table))
    returns, visits = np.zeros(1000), np.zeros(len(table))
    for update_index, key in enumerate(jax.random.split(run_key, updates), start=1):
        state, transitions = jitted_update(state, key)
        reward, done, next_row = jax.device_get((transitions.reward, transitions.done, transitions.next_row))
        # In 2-Rooms the last reward of an episode is its return, and each cell has exactly one observation.
        returns = np.append(returns, reward[done])[-1000:]
        visits = 0.99 * visits + np.bincount(next_row.ravel(), minlength=len(visits))
        solved = returns.mean() >= env.spec.solved_return
        if solved or update_index % 50 == 0:
            probability = visits[visits > 0] / visits.sum()
            entropy = -np.sum(probability * np.log(probability))
            print(
                f"update {update_index:3d}   return {returns.mean():.2f}   visitation entropy {entropy:.2f} nats"
            )
        if solved:
            break


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""GEM, geometric entropy maximisation, in one file: to be read from top to bottom, the paper in the other hand.

An agent in 2-Rooms learns to visit all squares evenly, and so finds a reward that it would hardly ever meet. Three
things learn together: the embedding f, by which states are similar or not; g, which learns one over the density of
the states, smoothed by that similarity; and the policy, which is paid for going where g is large.

Labels such as `eq:taco.kernel.obj` are the paper's own. Arrays are [time, world, ...]: in x_t an action is taken,
which earns r_t and arrives in x_{t+1}. Only the world is the library's. Run: python examples/gem_single_file.py [seed]
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

from gemax.worlds.base import step_and_reset
from gemax.worlds.registry import make_world


@dataclass(frozen=True)
class Settings:
    """The library's `laptop` preset for 2-Rooms, name by name."""

    num_worlds: int = 64  # side by side; each half of them is contrasted with the other
    trace_length: int = 30  # steps of each world in an update
    torso_size: int = 256
    lstm_size: int = 64
    head_size: int = 64
    embedding_size: int = 32
    time_buckets: int = 16
    learning_rate: float = 1e-3  # of all: f and g may not lag behind the policy that chases them
    adam_beta1: float = 0.0
    adam_beta2: float = 0.95
    discount: float = 1.0  # γ
    trace_decay: float = 0.95  # λ
    entropy_cost: float = 1e-3  # w_ent: what an even choice of actions is worth
    similarity_scale: float = 1.0  # c
    huber_offset: float = 1.0  # δ
    huber_exponent: float = 4.0  # q
    adjacency_scale: float = 1.0  # C
    regularisation: float = 1e-4  # w_reg
    intrinsic_scale: float = 0.005  # s: the standard deviation of the intrinsic reward
    intrinsic_shift: float = 0.005  # m: its mean


SETTINGS = Settings()
OPTIMISER = optax.adam(SETTINGS.learning_rate, b1=SETTINGS.adam_beta1, b2=SETTINGS.adam_beta2)
Parameters = dict[str, list[tuple[Array, Array]]]  # the layers of every part: weight and bias


def init_mlp(keys: Any, *sizes: int) -> list[tuple[Array, Array]]:
    """From the size of the input to that of the output; each layer takes a key."""
    init, shapes = jax.nn.initializers.lecun_normal(), [sizes[i : i + 2] for i in range(len(sizes) - 1)]
    return [(init(next(keys), shape), jnp.zeros((1, shape[1]))) for shape in shapes]


def mlp(layers: list[tuple[Array, Array]], inputs: Array) -> Array:
    """Linear layers, with relu in between."""
    for weight, bias in layers[:-1]:
        inputs = jax.nn.relu(inputs @ weight + bias)
    return inputs @ layers[-1][0] + layers[-1][1]


class Inputs(NamedTuple):
    """What the agent sees before it acts."""

    row: Array  # of the table of observations
    previous_action: Array
    previous_reward: Array
    time: Array  # actions taken in this episode so far


def agent_network(agent: Parameters, table: Array, world: Any):
    """A step of the agent in all worlds: from memory and inputs to memory, ln π of all actions, and value."""
    [(weight, bias)] = agent["lstm"]
    # Observations repeat: each one is encoded once, up to its share of the LSTM's gates, and then looked up.
    row_gates = mlp([*agent["torso"], (weight[: SETTINGS.torso_size], bias)], table)

    def step(memory: tuple[Array, Array], inputs: Inputs):
        # Time is a soft one-hot, `alg:soft1h`:  exp(-|b_i - n t / horizon|) with b = 0.5, 1.5 … n - 0.5
        position = SETTINGS.time_buckets * inputs.time / world.horizon
        now = jnp.exp(-jnp.abs(jnp.subtract.outer(position, jnp.arange(SETTINGS.time_buckets) + 0.5)))
        action = jax.nn.one_hot(inputs.previous_action, world.num_actions)
        past = (action, inputs.previous_reward[:, None], *memory)
        *past, cell = (jnp.where((inputs.time == 0)[:, None], 0.0, part) for part in past)  # empty at a start
        gates = row_gates[inputs.row] + jnp.concatenate([now, *past], axis=1) @ weight[SETTINGS.torso_size :]
        enter, forget, new, leave = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(forget + 1.0) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)  # + 1: starts open
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        log_policy = jax.nn.log_softmax(mlp(agent["policy"], hidden))
        return (hidden, cell), (log_policy, mlp(agent["value"], hidden)[:, 0])

    return step


class State(NamedTuple):
    """All that changes."""

    parameters: dict[str, Parameters]
    optimiser: Any
    moments: Array  # of the intrinsic reward
    worlds: Any
    inputs: Inputs
    memory: tuple[Array, Array]  # of the LSTM: hidden and cell


class Steps(NamedTuple):
    """What happened, step by step."""

    inputs: Inputs
    action: Array
    log_probability: Array  # ln π(a_t) when the action was taken
    reward: Array
    ends: Array
    arrived: Array  # the row of x_{t+1}: terminal observations, never those of the next start


def collect(world: Any, table: Array, state: State, key: Array) -> tuple[State, Steps]:
    """The policy acts in all worlds, side by side."""
    network = agent_network(state.parameters["agent"], table, world)
    row_of = jax.vmap(world.finite.observation_index)

    def one_step(state: State, key: Array) -> tuple[State, Steps]:
        action_key, world_key = jax.random.split(key)
        memory, (log_policy, _) = network(state.memory, state.inputs)
        action = jax.random.categorical(action_key, log_policy)
        log_probability = jnp.take_along_axis(log_policy, action[:, None], axis=1)[:, 0]
        world_keys = jax.random.split(world_key, SETTINGS.num_worlds)
        worlds, transition = jax.vmap(partial(step_and_reset, world))(world_keys, state.worlds, action)
        reward, ends, arrived = transition.arrived.reward, transition.is_first, transition.arrived_state
        steps = Steps(state.inputs, action, log_probability, reward, ends, row_of(arrived))
        inputs = Inputs(row_of(worlds), action, reward, jnp.where(ends, 0, state.inputs.time + 1))
        return state._replace(worlds=worlds, inputs=inputs, memory=memory), steps

    return jax.lax.scan(one_step, state, jax.random.split(key, SETTINGS.trace_length))


def similarity_matrix(embedding: Array) -> Array:
    """`sec:similarity`:  k(x, x') = exp(-c ‖f(x) - f(x')‖)"""
    squared = jnp.sum((embedding[:, None] - embedding[None]) ** 2, axis=-1)
    # The root has an infinite slope at zero, where every state meets itself: the inner `where` keeps it out.
    distance = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
    return jnp.exp(-SETTINGS.similarity_scale * distance)


def gem_objective(log_g: Array, similarity: Array) -> Array:
    """`eq:taco.kernel.obj`:  E[ln g(x)] - E[k(x, x') g(x)] + 1, the geometry-aware entropy from below."""
    return jnp.mean(log_g - similarity * jnp.exp(log_g)) + 1.0


def gem_reward(log_g: Array, similarity: Array, similarity_g: Array) -> Array:
    """`prop:aco.grad`:  1 + ln g(x) - E[k(x, x') (g(x) + g(x'))]. The policy moves both samples, hence g(x')."""
    return 1.0 + log_g - similarity * jnp.exp(log_g) - similarity_g


def adjacency_regulariser(embedding_t: Array, embedding_tp1: Array) -> Array:
    """`alg:arloss`:  E[(δ^q + ‖f(x_t) - f(x_{t+1})‖^q)^(1/q)]: what time joins stays close in the embedding."""
    squared, q = jnp.sum((embedding_t - embedding_tp1) ** 2, axis=-1), SETTINGS.huber_exponent
    return jnp.mean((SETTINGS.huber_offset**q + squared ** (q / 2)) ** (1 / q))


def gem_loss(gem: Parameters, table: Array, steps: Steps) -> tuple[Array, Array]:
    """`alg:taco`: what f and g minimise; and the reward of every step, which they do not learn from."""
    embedding = mlp(gem["torso"] + gem["f"], table)
    log_g = jnp.log(jax.nn.softplus(mlp(gem["torso"] + gem["g"], table)[:, 0]) + 1e-8)
    matrix, halves = similarity_matrix(embedding), jnp.split(steps.arrived, 2, axis=1)
    objectives, rewards = [], []
    for own, other in (halves, halves[::-1]):
        # The negatives x' are all of the other half: E[k(x, x')] = K h and E[k(x, x') g(x')] = K (h·g), exactly.
        histogram = jnp.zeros_like(log_g).at[other].add(1.0 / other.size)
        similarity, similarity_g = matrix @ histogram, matrix @ (histogram * jnp.exp(log_g))
        objectives.append(gem_objective(log_g[own], similarity[own]))
        rewards.append(gem_reward(log_g, similarity, similarity_g)[own])
    penalty = jnp.mean(jnp.sum(embedding[steps.arrived] ** 2, axis=-1))
    adjacency = adjacency_regulariser(embedding[steps.inputs.row], embedding[steps.arrived])
    loss = SETTINGS.regularisation * penalty + SETTINGS.adjacency_scale * adjacency - sum(objectives) / 2
    return loss, jnp.concatenate(rewards, axis=1)


def normalise(moments: Array, reward: Array) -> tuple[Array, Array]:
    """`alg:moretacomax`:  (r - μ) / σ · s + m, by running moments in which the batch itself counts at once."""
    moments = 0.99 * moments + jnp.array([1.0, jnp.mean(reward), jnp.mean(reward**2)])
    mean, mean_square = moments[1] / moments[0], moments[2] / moments[0]
    deviation = jnp.sqrt(jnp.maximum(mean_square - mean**2, 1e-12))
    return (reward - mean) / deviation * SETTINGS.intrinsic_scale + SETTINGS.intrinsic_shift, moments


def vtrace_advantage(error: Array, discount: Array, ratio: Array) -> Array:
    """V-trace (Espeholt et al. 2018), its ratios ρ cut at 1:  A_t = ρ_t (error_t + γ_t λ A_{t+1})"""
    ratio, advantages = jnp.minimum(ratio, 1.0), [jnp.zeros_like(error[0])]
    for t in reversed(range(len(error))):
        advantages.insert(0, ratio[t] * (error[t] + discount[t] * SETTINGS.trace_decay * advantages[0]))
    return jnp.stack(advantages[:-1])


def actor_critic_loss(agent: Parameters, table: Array, world: Any, before: State, steps: Steps, after: State):
    """`alg:policygradient`:  PLOSS + VLOSS - w_ent ENT"""
    inputs = jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), steps.inputs, after.inputs)
    _, (log_policy, value) = jax.lax.scan(agent_network(agent, table, world), before.memory, inputs)
    log_policy, value_t, value_tp1 = log_policy[:-1], value[:-1], value[1:]
    log_probability = jnp.take_along_axis(log_policy, steps.action[..., None], axis=-1)[..., 0]
    # One here, where steps are used once and at once; not if they were used again, or if actors lagged behind.
    ratio = jnp.exp(log_probability - steps.log_probability)
    # The horizon is part of the task, and the agent sees the time: after an end nothing is worth anything.
    discount = SETTINGS.discount * ~steps.ends
    error = steps.reward + discount * value_tp1 - value_t
    advantage = jax.lax.stop_gradient(vtrace_advantage(error, discount, ratio))
    policy_loss = -jnp.mean(log_probability * advantage)
    # With ratios cut at 1, the advantage is also what lies between the value and its V-trace target.
    value_loss = jnp.mean((value_t - jax.lax.stop_gradient(value_t + advantage)) ** 2)
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1))
    return policy_loss + value_loss - SETTINGS.entropy_cost * entropy


def init_state(world: Any, table: Array, key: Array) -> State:
    """π and V on a torso and an LSTM, f and g on a torso of their own; and all worlds at their start."""
    layers_key, worlds_key = jax.random.split(key)
    net = partial(init_mlp, iter(jax.random.split(layers_key, 11)))  # eleven layers in all
    image, torso, embedding = table.shape[1], SETTINGS.torso_size, SETTINGS.embedding_size
    lstm, head, actions = SETTINGS.lstm_size, SETTINGS.head_size, world.num_actions
    agent = {"torso": net(image, torso), "policy": net(lstm, head, actions), "value": net(lstm, head, 1)}
    agent["lstm"] = net(torso + SETTINGS.time_buckets + actions + 1 + lstm, 4 * lstm)
    gem = {"torso": net(image, torso), "f": net(torso, head, embedding), "g": net(torso, head, 1)}
    parameters = {"agent": agent, "gem": gem}
    worlds, _ = jax.vmap(world.reset)(jax.random.split(worlds_key, SETTINGS.num_worlds))
    row, nothing = jax.vmap(world.finite.observation_index)(worlds), jnp.zeros((SETTINGS.num_worlds, lstm))
    inputs = Inputs(row, jnp.zeros_like(row), nothing[:, 0], jnp.zeros_like(row))
    return State(parameters, OPTIMISER.init(parameters), jnp.zeros(3), worlds, inputs, (nothing, nothing))


def update(world: Any, table: Array, state: State, key: Array) -> tuple[State, Steps]:
    """`alg:moretacomax`: rollout → reward and loss of f and g → normalise → add → actor-critic."""
    after, steps = collect(world, table, state, key)
    gem_gradient, raw_reward = jax.grad(gem_loss, has_aux=True)(state.parameters["gem"], table, steps)
    intrinsic, moments = normalise(state.moments, raw_reward)
    mixed = steps._replace(reward=steps.reward + intrinsic)
    agent_gradient = jax.grad(actor_critic_loss)(state.parameters["agent"], table, world, state, mixed, after)
    gradients = {"agent": agent_gradient, "gem": gem_gradient}
    updates, optimiser_state = OPTIMISER.update(gradients, state.optimiser)
    parameters = optax.apply_updates(state.parameters, updates)
    return after._replace(parameters=parameters, optimiser=optimiser_state, moments=moments), steps


def main(seed: int = 0, updates: int = 600) -> None:
    """Trains until the world is solved, by the mean return of a thousand episodes, or the updates are over."""
    world: Any = make_world("two-rooms", observation="squares")
    images = world.finite.observation_table.reshape(len(world.finite.observation_table), -1).astype(float)
    # Images of a map are almost alike, and what is alike is learned slowly.
    table = (images - images.mean(axis=0, keepdims=True)) / jnp.sqrt(jnp.mean(images.var(axis=0)))
    init_key, run_key = jax.random.split(jax.random.key(seed))
    state = jax.jit(partial(init_state, world, table))(init_key)
    call = jax.jit(partial(update, world, table))
    returns, visits = np.zeros(1000), np.zeros(len(table))
    for number, key in enumerate(jax.random.split(run_key, updates), start=1):
        state, steps = call(state, key)
        reward, ends, arrived = jax.device_get((steps.reward, steps.ends, steps.arrived))
        # All reward of 2-Rooms comes with the last step, and every square has an observation of its own.
        returns = np.append(returns, reward[ends])[-1000:]
        visits = 0.99 * visits + np.bincount(arrived.ravel(), minlength=len(visits))
        solved = returns.mean() >= world.solved_return
        if solved or number % 50 == 0:
            share = visits[visits > 0] / visits.sum()
            entropy = -np.sum(share * np.log(share))
            print(f"update {number:3d}   return {returns.mean():.2f}   visitation entropy {entropy:.2f} nats")
        if solved:
            break


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

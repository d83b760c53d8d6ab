"""Collecting steps: the policy acts in all worlds, side by side, inside one compiled call."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.agent.acting import act, no_action
from gemax.networks import AgentNetwork, Inputs, Memory, Parameters
from gemax.training.centring import Centring, centre
from gemax.training.state import Position
from gemax.types import ActionSpec, FiniteActions, Observations, Rollout
from gemax.worlds.base import State, Transition, World, step_and_reset


class Steps(NamedTuple):
    """What happened, step by step; [time, worlds, ...]."""

    seen: Shaped[Array, "time worlds *shape"]
    arrived: Shaped[Array, "time worlds *shape"]
    inputs: Inputs
    is_first: Bool[Array, "time worlds"]
    memory: Memory
    """Before each step."""
    action: Shaped[Array, "time worlds *parts"]
    log_probability: Float[Array, "time worlds"]
    reward: Float[Array, "time worlds"]
    terminated: Bool[Array, "time worlds"]
    truncated: Bool[Array, "time worlds"]
    square: Int[Array, "time worlds"]
    """Of the world's `places`: a square, or a bin."""
    episode_return: Float[Array, "time worlds"]
    """Of the episode up to and with this step."""
    is_valid: Bool[Array, "time worlds"] | None = None
    """False where a step is but a copy of the one before it, to fill a gap; None where there are no gaps."""


class Eyes(NamedTuple):
    """How observations reach the networks: as rows of a table of all there are, or one by one."""

    table: Float[Array, "rows *shape"] | None
    """Every observation once, centred; None where there are too many."""

    def observations(self, centring: Centring, seen: Shaped[Array, "time worlds *shape"]) -> Observations:
        """What was seen, for the networks."""
        if self.table is not None:
            return Observations(self.table, seen)
        return Observations(centre(centring, seen.reshape(-1, *seen.shape[2:])), None)


def look(world: World, eyes: Eyes, state: State, observation: Array) -> Array:
    """What is kept of an observation in one world: its row, or itself as it is, to be centred when it is used."""
    if eyes.table is not None and world.finite is not None:
        return world.finite.observation_index(state)
    return a_pixel_a_square(world, observation)


def a_pixel_a_square(world: World, observation: Shaped[Array, "*shape"]) -> Shaped[Array, "*smaller"]:
    """Observations of gridworlds without their repeated pixels, as the networks take them; others as they are."""
    if world.finite is None:
        return observation
    step = world.finite.pixels_per_square
    return observation[::step, ::step]


def start(world: World, eyes: Eyes, network: AgentNetwork, num_worlds: int, key: PRNGKeyArray) -> Position:
    """Resets all worlds."""
    states, timesteps = jax.vmap(world.reset)(jax.random.split(key, num_worlds))
    seen = jax.vmap(lambda state, observation: look(world, eyes, state, observation))(
        states, timesteps.observation
    )
    return first_position(FiniteActions((world.num_actions,)), network, states, seen)


def first_position(
    actions: ActionSpec, network: AgentNetwork, states: State, seen: Shaped[Array, "worlds *shape"]
) -> Position:
    """Where every episode is about to begin."""
    num_worlds = seen.shape[0]
    nothing = jnp.zeros(num_worlds)
    return Position(
        world=states,
        seen=seen,
        inputs=Inputs(no_action(actions, num_worlds), nothing, jnp.zeros(num_worlds, int)),
        is_first=jnp.ones(num_worlds, bool),
        memory=network.initial_memory(num_worlds),
        episode_return=nothing,
    )


def collect(
    world: World,
    eyes: Eyes,
    centring: Centring,
    network: AgentNetwork,
    parameters: Parameters,
    position: Position,
    num_steps: int,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[Position, Steps]:
    """Acts for some steps in every world; greedy takes the likeliest action instead of drawing one."""
    tables = network.tables(parameters)
    row_terms = None if eyes.table is None else network.row_terms(parameters, eyes.table)
    num_worlds = position.is_first.shape[0]

    def one_step(position: Position, key: PRNGKeyArray) -> tuple[Position, Steps]:
        action_key, world_key = jax.random.split(key)
        if row_terms is None:
            terms = network.row_terms(parameters, centre(centring, position.seen))
        else:
            terms = row_terms[position.seen]
        acted = act(
            network, parameters, tables, terms, position.inputs, position.memory, action_key, greedy=greedy
        )
        world_keys = jax.random.split(world_key, num_worlds)
        states, transition = jax.vmap(lambda *arguments: step_and_reset(world, *arguments))(
            world_keys, position.world, acted.action
        )
        return _go_on(
            world,
            eyes,
            network,
            position,
            acted.action,
            acted.log_probability,
            acted.memory,
            states,
            transition,
        )

    return jax.lax.scan(one_step, position, jax.random.split(key, num_steps))


def rollout_of(eyes: Eyes, centring: Centring, steps: Steps) -> Rollout:
    """The steps as intrinsic rewards read them."""
    return Rollout(
        seen=eyes.observations(centring, steps.seen),
        arrived=eyes.observations(centring, steps.arrived),
        action=steps.action,
        log_probability=steps.log_probability,
        reward=steps.reward,
        terminated=steps.terminated,
        truncated=steps.truncated,
        is_first=steps.is_first,
        square=steps.square,
    )


def _go_on(
    world: World,
    eyes: Eyes,
    network: AgentNetwork,
    position: Position,
    action: Array,
    log_probability: Array,
    memory: Memory,
    states: State,
    transition: Transition,
) -> tuple[Position, Steps]:
    """The position after a step, and the record of the step."""

    def see(states: State, observation: Array) -> Array:
        return jax.vmap(lambda state, seen: look(world, eyes, state, seen))(states, observation)

    arrived, over = transition.arrived, transition.is_first
    # A reward of plain numbers has a weak type, and one that comes back so would have the update compiled twice.
    reward = arrived.reward.astype(jnp.float32)
    episode_return = position.episode_return + reward
    num_worlds = over.shape[0]
    steps = Steps(
        seen=position.seen,
        arrived=see(transition.arrived_state, arrived.observation),
        inputs=position.inputs,
        is_first=position.is_first,
        memory=position.memory,
        action=action,
        log_probability=log_probability,
        reward=reward,
        terminated=arrived.terminated,
        truncated=arrived.truncated,
        square=jax.vmap(world.places.index_of)(transition.arrived_state),
        episode_return=episode_return,
    )
    empty = network.initial_memory(num_worlds)
    following = Position(
        world=states,
        seen=see(states, transition.current.observation),
        inputs=Inputs(
            jnp.where(over, world.num_actions, action),
            jnp.where(over, 0.0, reward),
            jnp.where(over, 0, position.inputs.time + 1),
        ),
        is_first=over,
        memory=Memory(*(jnp.where(over[:, None], new, old) for new, old in zip(empty, memory, strict=True))),
        episode_return=jnp.where(over, 0.0, episode_return),
    )
    return following, steps

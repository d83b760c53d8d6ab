"""The training step, `alg:moretacomax`: reward → learn → normalise → add → traces → actor-critic."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.agent.acting import action_before, unroll_memory, values_after
from gemax.agent.distributions import ActionDistribution
from gemax.agent.losses import LossSettings, Trace, actor_critic_loss
from gemax.core.entropy import shannon_entropy
from gemax.environments.base import Environment
from gemax.networks import AgentNetwork, Inputs, Memory, Parameters
from gemax.rewards.base import IntrinsicReward
from gemax.training.centring import Centring, update_centring
from gemax.training.collect import Eyes, Steps, collect, first_position, rollout_of, start
from gemax.training.config import Config
from gemax.training.state import (
    RETURNS_KEPT,
    Arrived,
    Position,
    Tally,
    TrainState,
    Window,
    mean_return,
    tally_returns,
    tally_visits,
)
from gemax.training.traces import empty_window, extend, latest
from gemax.types import ActionSpec, Metrics, Tree
from gemax.worlds.base import World


class Trainer(NamedTuple):
    """The parts that a configuration names, put together. Nothing in here changes."""

    config: Config
    world: World | Environment
    eyes: Eyes
    spec: ActionSpec
    """What the agent can do."""
    actions: ActionDistribution
    """How it chooses."""
    network: AgentNetwork
    optimiser: optax.GradientTransformation
    reward: IntrinsicReward
    loss: LossSettings
    centring: Centring
    """Before anything was seen."""


def initial_state(trainer: Trainer, key: PRNGKeyArray) -> TrainState:
    """Before the first update."""
    config, world, centring = trainer.config, trainer.world, trainer.centring
    agent_key, reward_key, worlds_key, run_key = jax.random.split(key, 4)
    position = _first_position(trainer, worlds_key)
    rows = trainer.eyes.observations(centring, position.seen[None]).rows
    parameters = trainer.network.init(agent_key, rows)
    return TrainState(
        update=jnp.zeros((), int),
        key=run_key,
        position=position,
        window=first_window(trainer, position),
        parameters=parameters,
        optimiser=trainer.optimiser.init(parameters),
        reward=trainer.reward.init(reward_key, rows, config.num_worlds),
        centring=centring,
        tally=Tally(
            jnp.zeros(world.places.number if world.places else 0), jnp.zeros(RETURNS_KEPT), jnp.zeros((), int)
        ),
    )


def _first_position(trainer: Trainer, key: PRNGKeyArray) -> Position:
    """At the start of episodes. In environments nothing was seen yet: whoever opens them puts that in."""
    world, num_worlds = trainer.world, trainer.config.num_worlds
    if isinstance(world, World):
        return start(world, trainer.eyes, trainer.network, num_worlds, key)
    seen = jnp.zeros((num_worlds, *world.observation.shape), world.observation.dtype)
    return first_position(world.actions, trainer.network, (), seen)


def first_window(trainer: Trainer, position: Position) -> Window:
    """Before any step."""
    num_steps = trainer.config.trace_length - trainer.config.trace_period
    return empty_window(position, num_steps, keeps_arrived=isinstance(trainer.world, Environment))


def update(trainer: Trainer, state: TrainState) -> tuple[TrainState, Metrics]:
    """One update: collects steps in the worlds, and learns from them."""
    assert isinstance(trainer.world, World), "environments are stepped on the host: see `outside`"
    key, collect_key, learn_key = jax.random.split(state.key, 3)
    position, steps = collect(
        trainer.world,
        trainer.eyes,
        state.centring,
        trainer.network,
        state.parameters,
        state.position,
        trainer.config.trace_period,
        collect_key,
    )
    state = state._replace(key=key, position=position)
    return learn(trainer, state, steps, learn_key)


def learn(trainer: Trainer, state: TrainState, steps: Steps, key: PRNGKeyArray) -> tuple[TrainState, Metrics]:
    """Learns from new steps, wherever they come from."""
    config = trainer.config
    rollout = rollout_of(trainer.eyes, state.centring, steps)
    intrinsic, reward_state, reward_metrics = trainer.reward.step(state.reward, rollout, key)
    extrinsic = (
        0.0
        if config.reward_free
        else steps.reward * extrinsic_scale(trainer, state.tally, steps.episode_return)
    )
    mixed = extrinsic + intrinsic_weight(config, state.update) * intrinsic
    window = extend(state.window, steps, mixed, _arrived(trainer, steps))
    parameters, optimiser, agent_metrics = agent_step(trainer, state, window)
    ends = steps.terminated | steps.truncated
    ends = ends if steps.is_valid is None else ends & steps.is_valid
    tally = tally_returns(state.tally, steps.episode_return, ends)
    if trainer.world.places is not None:
        tally = tally_visits(tally, steps.square, config.visit_decay)
    state = state._replace(
        update=state.update + 1,
        window=latest(window, config.trace_length - config.trace_period),
        parameters=parameters,
        optimiser=optimiser,
        reward=reward_state,
        centring=_centring_after(trainer, state.centring, steps),
        tally=tally,
    )
    metrics = {"intrinsic_reward": jnp.mean(intrinsic), **reward_metrics, **agent_metrics}
    return state, metrics | _tally_metrics(state) | _skipped(state)


def extrinsic_scale(
    trainer: Trainer, tally: Tally, episode_return: Float[Array, "time worlds"]
) -> Float[Array, ""]:
    """What rewards are multiplied with before they are learned from.

    Rewards of other people's environments may be of any size. Where an episode earns or loses more than one, they are
    scaled such that the largest return of late is one: what exploring and an even choice of actions are worth beside it
    then holds everywhere. In our own worlds rewards are what they are.
    """
    if isinstance(trainer.world, World) or not trainer.config.scale_rewards:
        return jnp.ones(())
    largest = jnp.maximum(jnp.max(jnp.abs(tally.returns)), jnp.max(jnp.abs(episode_return)))
    return 1.0 / jnp.maximum(largest, 1.0)


def intrinsic_weight(config: Config, update: Array) -> Float[Array, ""]:
    """One, or on its way down to zero."""
    if not config.anneal_updates:
        return jnp.ones(())
    return jnp.maximum(1.0 - update / config.anneal_updates, 0.0)


def agent_step(trainer: Trainer, state: TrainState, window: Window) -> tuple[Parameters, Tree, Metrics]:
    """`actor_critic_step` if it is due: in the last of every n updates. In the others its metrics are not numbers."""
    step = partial(actor_critic_step, trainer)
    every = trainer.config.policy_every
    if every == 1:
        return step(state, window)
    nothing = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan), jax.eval_shape(step, state, window)[2])
    is_due = state.update % every == every - 1
    return jax.lax.cond(
        is_due, step, lambda state, window: (state.parameters, state.optimiser, nothing), state, window
    )


def actor_critic_step(
    trainer: Trainer, state: TrainState, window: Window
) -> tuple[Parameters, Tree, Metrics]:
    """Policy and value learn from a window: their parameters and their optimiser's state after it."""

    def loss(parameters: Parameters):
        outputs, value_t, value_tp1 = _unroll_window(trainer, parameters, state, window)
        trace = Trace(
            window.action,
            window.log_probability,
            window.reward,
            window.ends,
            window.bootstraps,
            window.is_valid,
        )
        return actor_critic_loss(outputs, value_t, value_tp1, trace, trainer.loss, trainer.actions)

    (total, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(state.parameters)
    updates, optimiser = trainer.optimiser.update(gradient, state.optimiser, state.parameters)
    parameters = optax.apply_updates(state.parameters, updates)
    return parameters, optimiser, metrics | {"agent_loss": total}


def _unroll_window(trainer: Trainer, parameters: Parameters, state: TrainState, window: Window):
    """The policy's outputs and the values of the window's steps, and the values of what they led to.

    The last step led to the position after the window, whose value stands for the rest.
    """
    position = state.position
    seen, inputs, is_first = jax.tree.map(
        lambda steps, after: jnp.concatenate([steps, after[None]]),
        (window.seen, Inputs(*window.inputs), window.is_first),
        (position.seen, Inputs(*position.inputs), position.is_first),
    )
    memory = jax.tree.map(lambda leaf: leaf[0], window.memory)
    observations = trainer.eyes.observations(state.centring, seen)
    memories = unroll_memory(trainer.network, parameters, observations, inputs, is_first, memory)
    outputs, values = trainer.network.heads(parameters, memories.hidden)
    return (
        outputs[:-1],
        values[:-1],
        _values_arrived(trainer, parameters, state, window, memories, values[1:]),
    )


def _values_arrived(
    trainer: Trainer,
    parameters: Parameters,
    state: TrainState,
    window: Window,
    memories: Memory,
    value_next: Float[Array, "time worlds"],
) -> Float[Array, "time worlds"]:
    """What each step led to is what the next one saw, except where an episode was cut short and another one began."""
    if window.arrived is None:
        return value_next
    observations = trainer.eyes.observations(state.centring, window.arrived.seen)
    memory = Memory(*(leaf[:-1] for leaf in memories))
    value = values_after(trainer.network, parameters, observations, Inputs(*window.arrived.inputs), memory)
    return jnp.where(window.ends, value, value_next)


def _arrived(trainer: Trainer, steps: Steps) -> Arrived | None:
    """What each step led to, where episodes may be cut short whose worth goes on."""
    world = trainer.world
    if isinstance(world, World):
        return None
    time = jnp.minimum(steps.inputs.time + 1, world.horizon)
    return Arrived(steps.arrived, Inputs(action_before(world.actions, steps.action), steps.reward, time))


def _centring_after(trainer: Trainer, centring: Centring, steps: Steps) -> Centring:
    """Centring moves with what was seen; observations of finite worlds are centred once and for all."""
    if trainer.world.finite is not None:
        return centring
    return update_centring(centring, steps.arrived.reshape(-1, *centring.mean.shape))


def _tally_metrics(state: TrainState) -> Metrics:
    earned = {"return": mean_return(state.tally), "episodes": state.tally.num_returns.astype(float)}
    visits, total = state.tally.visits, jnp.sum(state.tally.visits)
    if not len(visits):
        return earned
    probability = visits / jnp.maximum(total, 1e-12)
    return earned | {
        "visitation_entropy": shannon_entropy(probability),
        "coverage": jnp.mean(probability > 0.01 / len(visits)),
    }


def _skipped(state: TrainState) -> Metrics:
    """Updates that were not finite and therefore left out: since the start, and without a good one in between."""
    trees = (state.optimiser, state.reward)
    totals = optax.tree_utils.tree_get_all_with_path(trees, "total_notfinite")
    in_a_row = optax.tree_utils.tree_get_all_with_path(trees, "notfinite_count")
    return {
        "skipped_updates": sum(count for _, count in totals) + jnp.zeros(()),
        "bad_in_a_row": jnp.max(jnp.asarray([count for _, count in in_a_row])).astype(float),
    }

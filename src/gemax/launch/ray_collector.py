"""The collector that acts on a Ray cluster: actors step the environments, and this process learns.

Actors act with the policy of an earlier update. V-trace corrects for this lag, which is one update by default.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from gemax.launch.actor_pool import ActorPool
from gemax.launch.env_actor import Rollout
from gemax.training.assemble import MakeEnv
from gemax.training.collector import EpisodeOptions, Evaluation, History
from gemax.training.host_rollout import (
    HostCollector,
    PolicySnapshot,
    jit_learner,
    learn_from,
    reset_seed,
    with_new_episodes,
)
from gemax.training.learn import Trainer
from gemax.training.state import ActorState, TrainState
from gemax.training.window import empty_window
from gemax.types import Episode, Metrics, Transition, tree_where
from gemax.version import VERSION


class RayCollector(NamedTuple):
    """Collects transitions of environments that actors on a Ray cluster step. Evaluates in this process."""

    ray: Any
    """The module, connected to a cluster."""
    host: HostCollector
    num_actors: int
    make_env: MakeEnv | None = None
    """Makes a custom environment."""
    log: Callable[[str], None] = print
    lag: int = 1
    """Updates between the policy that acts and the policy that learns. More of them wait longer for slow actors."""

    def initial_actor(self, trainer: Trainer, key: PRNGKeyArray) -> ActorState:
        """Returns an actor with zero observations, which the first rollouts replace."""
        return self.host.initial_actor(trainer, key)

    def updates(self, trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, History]]:
        """Learns from one rollout of every environment per update, while the actors collect the next ones."""
        config, reached = trainer.config, int(state.update)
        arguments = (config.to_json(), self.make_env, trainer.spec.horizon, VERSION)
        state = jax.jit(lambda state: with_new_episodes(trainer, state, state.actor))(state)
        learner = jit_learner(partial(_learn, trainer))
        tables = jax.jit(trainer.network.tables)
        pool = ActorPool(
            self.ray,
            arguments,
            num_actors=self.num_actors,
            num_envs=config.env.num_envs,
            num_steps=config.agent.unroll_period,
            max_pending=self.lag + 1,
            seed=reset_seed(config.run.seed, reached),
            log=self.log,
        )
        with contextlib.closing(pool):
            for number in range(reached, config.run.updates):
                policy = PolicySnapshot(state.parameters, tables(state.parameters), state.observation_moments)
                pool.publish(jax.device_get(policy), number)
                rollouts = pool.next_rollouts()
                state, metrics = learner(state, *_put_together(rollouts))
                history = {name: np.asarray(value).reshape(1, 1) for name, value in metrics.items()}
                yield state, history | _pool_metrics(pool, rollouts, number)

    def evaluate(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Evaluation:
        """Runs episodes in this process. See `HostCollector.evaluate`."""
        return self.host.evaluate(trainer, state, options)

    def episodes(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Iterator[Episode]:
        """Yields episodes of this process. See `HostCollector.episodes`."""
        return self.host.episodes(trainer, state, options)

    def max_episode_steps(self, requested: int | None) -> int:
        """Returns the limit of evaluation episodes. See `HostCollector.max_episode_steps`."""
        return self.host.max_episode_steps(requested)


def _put_together(rollouts: Sequence[Rollout]) -> tuple[ActorState, Transition, Bool[np.ndarray, " envs"]]:
    """Joins the rollouts of all shards. Returns the actor, the transitions and which environments are new."""
    actor = jax.tree.map(lambda *parts: np.concatenate(parts), *[rollout.actor for rollout in rollouts])
    transitions = jax.tree.map(
        lambda *parts: np.concatenate(parts, axis=1), *[rollout.transitions for rollout in rollouts]
    )
    is_new = [np.full(rollout.ticket.num_envs, rollout.is_new) for rollout in rollouts]
    return actor, transitions, np.concatenate(is_new)


def _learn(
    trainer: Trainer,
    state: TrainState,
    actor: ActorState,
    transitions: Transition,
    is_new: Bool[Array, " envs"],
) -> tuple[TrainState, Metrics]:
    """Learns from transitions. Drops the window of environments that are new, since their episodes were cut."""
    num_steps = state.window.reward.shape[0]
    empty = empty_window(actor, num_steps)
    window = tree_where(jnp.broadcast_to(is_new[None], (num_steps, is_new.shape[0])), empty, state.window)
    return learn_from(trainer, state._replace(window=window), actor, transitions)


def _pool_metrics(pool: ActorPool, rollouts: Sequence[Rollout], update: int) -> History:
    values = {
        "policy_lag_updates": float(
            np.mean([update - rollout.ticket.policy_version for rollout in rollouts])
        ),
        "lost_frames": float(pool.lost_frames),
        "actors": float(pool.num_actors),
    }
    return {name: np.full((1, 1), value) for name, value in values.items()}


def with_ray_actors(
    trainer: Trainer, ray: Any, num_actors: int, make_env: MakeEnv | None, log: Callable[[str], None]
) -> Trainer:
    """Returns the trainer of a host environment with actors on a Ray cluster."""
    assert isinstance(trainer.collector, HostCollector)
    return trainer._replace(collector=RayCollector(ray, trainer.collector, num_actors, make_env, log))

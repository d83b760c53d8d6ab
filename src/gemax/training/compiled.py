"""The collector of JAX environments: rollouts, evaluation and episodes inside compiled programs."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Key, PRNGKeyArray, Shaped

from gemax.envs.base import JaxEnv
from gemax.stopping import check_stop
from gemax.training.collector import EpisodeOptions, Evaluation, History
from gemax.training.config import traced_settings
from gemax.training.learn import Trainer, learn
from gemax.training.nonfinite import update_unless_frozen
from gemax.training.rendering import Acting, RenderedStep, render_jax_episodes
from gemax.training.rollout import collect, reset_actor, reset_actor_at_random_times
from gemax.training.sharding import divide_envs, on_all_devices, on_one_device
from gemax.training.state import ActorState, TrainState
from gemax.training.stored_programs import load_or_compile
from gemax.types import Episode, Metrics, Transition, ends

Update: TypeAlias = Callable[[TrainState], tuple[TrainState, Metrics]]
MAX_UPDATES_PER_CALL = 1000
"""Largest number of updates per compiled call. A run can only be stopped between calls."""
MAX_EVALUATION_ENVS = 256
"""Largest number of environments that evaluation steps in parallel."""


class CompiledCollector(NamedTuple):
    """Collects transitions of a JAX environment inside the compiled update."""

    env: JaxEnv
    mesh: Mesh | None = None
    """Devices that the environments are divided between. None is the default device."""

    def initial_actor(self, trainer: Trainer, key: PRNGKeyArray) -> ActorState:
        """Resets all environments, each at a random time of its first episode."""
        return reset_actor_at_random_times(self.env, trainer, trainer.config.env.num_envs, key)

    def updates(self, trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, History]]:
        """Alternates collecting and learning to the end of the run, several updates per compiled call.

        The states of several seeds are stacked and trained in one program.
        """
        run, is_group = trainer.config.run, np.ndim(state.update) > 0
        reached = _updates_reached(state)
        length = updates_per_call(run.updates, run.updates_per_call, reached)
        update = partial(self.update, trainer)
        if is_group:
            update = partial(update_unless_frozen, update)
        everywhere = None
        if self.mesh is not None:
            state = on_all_devices(state, self.mesh)
            everywhere = NamedSharding(self.mesh, PartitionSpec())
            update = _divided(update, divide_envs(trainer, self.mesh))

        def call(state: TrainState):
            return jax.lax.scan(lambda state, _: update(state), state, length=length)

        if is_group:
            call = jax.vmap(call)
        compiled = jax.jit(call, donate_argnums=0, keep_unused=True, out_shardings=everywhere)
        if self.mesh is None and reached < run.updates:
            settings, folder = traced_settings(trainer.config), trainer.program_folder
            compiled = load_or_compile(folder, f"updates-{length}", settings, compiled, state)
        while _updates_reached(state) < run.updates:
            state, metrics = compiled(state)
            history = {name: np.atleast_2d(values) for name, values in metrics.items()}
            yield (state if self.mesh is None else on_one_device(state)), history

    def update(self, trainer: Trainer, state: TrainState) -> tuple[TrainState, Metrics]:
        """Collects new steps and learns from them."""
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        actor, transitions = collect(
            self.env, trainer, state, state.actor, trainer.config.agent.unroll_period, collect_key
        )
        return learn(trainer, state._replace(key=key, actor=actor), transitions, learn_key)

    def evaluate(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Evaluation:
        """Runs new episodes of the frozen policy to their end and returns their statistics."""
        num_envs, keys = self._batches(options)
        evaluate = jax.jit(partial(_evaluate_batch, self.env, trainer, num_envs, options.greedy))
        batches = []
        for key in keys:
            check_stop()
            batches.append(jax.tree.map(np.asarray, evaluate(state, key)))
        returns, lengths, visits = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        last = options.num_episodes
        return Evaluation(returns[:last], lengths[:last], visits[:last])

    def episodes(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Iterator[Episode]:
        """Yields new episodes of the frozen policy, computed in batches."""
        num_envs, keys = self._batches(options)
        batch = jax.jit(partial(_first_episodes, self.env, trainer, num_envs))
        for number, key in enumerate(keys):
            transitions, in_first = jax.tree.map(np.asarray, batch(state, key))
            for index in range(min(num_envs, options.num_episodes - number * num_envs)):
                check_stop()
                yield self._episode(trainer, transitions, index, int(in_first[:, index].sum()))

    def render(self, policy: Acting, options: EpisodeOptions) -> Iterator[RenderedStep]:
        """Yields the images of episodes in which the policy acts, step by step."""
        self.max_episode_steps(options.max_episode_steps)
        return render_jax_episodes(self.env, policy, options.num_episodes, options.seed, options.greedy)

    def _batches(self, options: EpisodeOptions) -> tuple[int, Key[Array, " batches"]]:
        """Returns the number of environments per batch, and one key per batch."""
        self.max_episode_steps(options.max_episode_steps)
        num_envs = min(options.num_episodes, MAX_EVALUATION_ENVS)
        return num_envs, jax.random.split(jax.random.key(options.seed), -(-options.num_episodes // num_envs))

    def _episode(self, trainer: Trainer, transitions: Transition, index: int, length: int) -> Episode:
        last = transitions.next_observation[length - 1 : length, index]
        stored = np.concatenate([transitions.observation[:length, index], last])
        return Episode(
            self._original_observations(trainer, stored),
            transitions.action[:length, index].astype(np.int64),
            transitions.reward[:length, index].astype(np.float64),
            transitions.terminated[:length, index],
            transitions.truncated[:length, index],
        )

    def _original_observations(
        self, trainer: Trainer, stored: Shaped[np.ndarray, "steps *shape"]
    ) -> Shaped[np.ndarray, "steps *observation"]:
        """Returns observations in the environment's own format. The inverse of `stored_observation`."""
        finite, dtype = self.env.finite, self.env.spec.observation.dtype
        if finite is None:
            return stored.astype(dtype)
        images = stored if trainer.table.rows is None else np.asarray(finite.observation_table)[stored]
        pixels = finite.pixels_per_cell
        return images.astype(dtype).repeat(pixels, axis=1).repeat(pixels, axis=2)

    def max_episode_steps(self, requested: int | None) -> int:
        """Returns the horizon, which ends every episode.

        Raises:
            ValueError: Another limit is requested.
        """
        spec = self.env.spec
        if requested is not None:
            raise ValueError(
                f"max_episode_steps is for gym: environments. Episodes of {spec.name} end after {spec.horizon} steps "
                "at the latest."
            )
        return spec.horizon


def _updates_reached(state: TrainState) -> int:
    # `np.max` of a JAX array calls JAX, which compiles a program for it.
    return int(np.asarray(state.update).max())


def _divided(update: Update, divide: Callable[[TrainState], TrainState]) -> Update:
    return lambda state: update(divide(state))


def updates_per_call(updates: int, at_most: int, reached: int = 0) -> int:
    """Returns the largest common divisor of `updates` and `reached` up to `at_most`, so that calls end at `updates`."""
    common, at_most = math.gcd(updates, reached), min(at_most, MAX_UPDATES_PER_CALL)
    return max(number for number in range(1, at_most + 1) if common % number == 0)


def _first_episodes(
    env: JaxEnv,
    trainer: Trainer,
    num_envs: int,
    state: TrainState,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[Transition, Bool[Array, "time envs"]]:
    """Returns `horizon` steps after a reset, and a mask of the steps in the first episode of each environment."""
    start_key, steps_key = jax.random.split(key)
    actor = reset_actor(env, trainer, num_envs, start_key)
    _, transitions = collect(env, trainer, state, actor, env.spec.horizon, steps_key, greedy=greedy)
    ended = ends(transitions).astype(int)
    return transitions, jnp.cumsum(ended, axis=0) - ended == 0


def _evaluate_batch(
    env: JaxEnv, trainer: Trainer, num_envs: int, greedy: bool, state: TrainState, key: PRNGKeyArray
) -> tuple[Array, Array, Array]:
    """Returns the return, length and cell visits of the first episode of every environment."""
    transitions, in_first = _first_episodes(env, trainer, num_envs, state, key, greedy=greedy)
    env_index = jnp.broadcast_to(jnp.arange(num_envs)[None], transitions.cell.shape)
    visits = jnp.zeros((num_envs, state.statistics.visits.shape[0]))
    visits = visits.at[env_index, transitions.cell].add(in_first.astype(float))
    return jnp.sum(transitions.reward * in_first, axis=0), jnp.sum(in_first, axis=0), visits

"""Computes the arrays of a snapshot from the training state, without changing it.

A few new episodes of the current policy show its actions in every cell. They have random keys of their own, so that
training is the same with and without snapshots.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from gemax.core.moments import standardise
from gemax.envs.base import FiniteEnv, JaxEnv
from gemax.runs.snapshots.film import FilmArrays, encode_film
from gemax.runs.snapshots.scene import embedded_cells, plane_of
from gemax.training.compiled import CompiledCollector
from gemax.training.learn import Trainer
from gemax.training.rollout import collect, reset_actor
from gemax.training.state import TrainState
from gemax.types import ends

NUM_ENVS = 32
"""Episodes that the policy's actions are counted in. Long episodes need fewer."""
MAX_STEPS = 8_000
"""Steps of all these episodes together."""
NUM_PATHS = 6
"""Episodes that are stored step by step."""
MAX_PATH_STEPS = 250
"""Longer episodes are stored with larger steps in between."""
NUM_POINTS = 400
"""Embedded observations per snapshot, if the environment is not finite."""

Arrays: TypeAlias = dict[str, Any]
Sampler: TypeAlias = Callable[[TrainState], Arrays]
"""Returns the arrays of a snapshot. Pure, and can be compiled."""


def quick_arrays(state: TrainState) -> Arrays:
    """Returns the arrays that need no computation: the visits."""
    visits = np.asarray(state.statistics.visits)
    return {"visits": visits} if len(visits) else {}


def episode_sampler(trainer: Trainer) -> Sampler | None:
    """Returns a function that runs new episodes inside a compiled program. None for environments on the host."""
    collector = trainer.collector
    if not isinstance(collector, CompiledCollector):
        return None
    return partial(_sample_episodes, collector.env, trainer)


def _sample_episodes(env: JaxEnv, trainer: Trainer, state: TrainState) -> Arrays:
    start_key, steps_key = jax.random.split(jax.random.key(state.update))
    num_envs = max(min(NUM_ENVS, MAX_STEPS // env.spec.horizon), NUM_PATHS)
    actor = reset_actor(env, trainer, num_envs, start_key)
    _, steps = collect(env, trainer, state, actor, env.spec.horizon, steps_key)
    ended = ends(steps).astype(int)
    in_first = jnp.cumsum(ended, axis=0) - ended == 0
    first_cell = jax.vmap(env.cell_index)(actor.env)
    arrays = {
        "path_length": jnp.sum(in_first, axis=0)[:NUM_PATHS],
        "path_action": steps.action[:, :NUM_PATHS].T,
        "path_reward": steps.reward[:, :NUM_PATHS].T,
        "path_cell": _paths(first_cell, steps.cell),
        "path_observation": _paths(steps.observation[0], steps.next_observation),
    }
    if trainer.spec.num_cells:
        before = jnp.concatenate([first_cell[None], steps.cell[:-1]])
        counts = jnp.zeros((trainer.spec.num_cells, env.spec.num_actions))
        arrays["actions"] = counts.at[before, steps.action].add(in_first)
    if env.finite is not None:
        cells = embedded_cells(env.finite)
        rows = env.finite.observation_table[_observation_of_cell(env.finite)[cells]]
        points = {"point_cell": jnp.asarray(cells)}
    else:
        chosen = np.linspace(0, steps.reward.size - 1, min(NUM_POINTS, steps.reward.size)).astype(int)
        rows = steps.next_observation.reshape(-1, *steps.next_observation.shape[2:])[chosen]
        points = {
            "point_cell": steps.cell.reshape(-1)[chosen],
            "point_time": steps.inputs.time.reshape(-1)[chosen] + 1,
        }
    return arrays | points | embed(trainer, state, standardise(state.observation_moments, rows))


def embed(trainer: Trainer, state: TrainState, rows: Shaped[Array, "rows *shape"]) -> Arrays:
    """Returns f and ln g of standardised observations, if the method has them."""
    arrays = {}
    if trainer.reward.embed is not None:
        arrays["embedding"] = trainer.reward.embed(state.reward, rows)
    if trainer.reward.log_g is not None:
        arrays["log_g"] = trainer.reward.log_g(state.reward, rows)
    return arrays


def compact(trainer: Trainer, arrays: Arrays) -> dict[str, np.ndarray]:
    """Converts sampled arrays to the form that is stored: small types, thinned paths, observations as a film."""
    arrays = {name: np.asarray(values) for name, values in arrays.items()}
    if "embedding" in arrays:
        arrays["embedding"] = arrays["embedding"].astype(np.float32)
    if "path_observation" not in arrays:
        return arrays
    observations, plane = arrays.pop("path_observation"), plane_of(trainer)
    num_steps = observations.shape[1]
    kept = np.unique(np.linspace(0, num_steps - 1, min(num_steps, MAX_PATH_STEPS + 1)).astype(int))
    # Entry t of actions and rewards belongs to the step that ends in entry t of the path.
    rewards = np.cumsum(arrays.pop("path_reward"), axis=1)
    arrays["path_return"] = np.pad(rewards, ((0, 0), (1, 0)))[:, kept].astype(np.float32)
    arrays["path_action"] = np.pad(arrays["path_action"], ((0, 0), (1, 0)), constant_values=-1)[:, kept]
    arrays["path_cell"] = arrays["path_cell"][:, kept]
    arrays["path_step"] = kept
    observations = observations[:, kept]
    if trainer.finite is not None:
        return arrays | _film_of_observations(trainer.finite, observations)
    if plane is not None:
        arrays["path_plane"] = plane.from_observation(observations).astype(np.float32)
    if observations.ndim == 3:
        arrays["path_vector"] = observations.astype(np.float32)
    return arrays


def _film_of_observations(finite: FiniteEnv, stored: Shaped[np.ndarray, "paths steps *shape"]) -> FilmArrays:
    """Returns what the agent sees in every step, with one pixel per cell."""
    images = stored if finite.has_noise else np.asarray(finite.observation_table)[stored]
    return encode_film(images.reshape(-1, *images.shape[2:]).astype(np.uint8), is_lossless=True)


def _paths(
    first: Shaped[Array, "envs *shape"], after: Shaped[Array, "time envs *shape"]
) -> Shaped[Array, "paths steps *shape"]:
    """Returns the values before the first and after every step, for the episodes that are stored."""
    return jnp.moveaxis(jnp.concatenate([first[None], after])[:, :NUM_PATHS], 0, 1)


def _observation_of_cell(finite: FiniteEnv) -> Int[np.ndarray, " cells"]:
    """Returns for each cell the row of the observation table of its first state, with the fewest items taken."""
    rows = np.zeros(len(finite.cell_positions), int)
    for state in reversed(range(finite.num_states)):
        rows[finite.model.cell[state]] = finite.observation_of_state[state]
    return rows

"""Checks that an environment, built-in or custom, keeps the contract of `JaxEnv`.

from gemax import check_env

check_env(my_env)
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gemax.envs.base import JaxEnv, is_last, step_and_reset
from gemax.types import Timestep, Tree

TOLERANCE = 1e-5
"""Relative and absolute difference that `vmap` may make to the results of an environment."""


class EnvContractError(AssertionError):
    """An environment breaks its contract. The message says what was expected and what was found."""


class Rollout(NamedTuple):
    """Steps with random actions and automatic resets."""

    first: Timestep
    """Result of the first reset, [envs, ...]."""
    timesteps: Timestep
    """Results of the steps, [time, envs, ...]."""
    indices: dict[str, Int[Array, "time envs"]]
    """Indices of the state after each step, by name: `cell_index`, `state_index`, `observation_index`."""


def check_env(env: JaxEnv, *, num_envs: int = 4, num_steps: int | None = None, seed: int = 0) -> None:
    """Checks an environment with random actions. Raises `EnvContractError` if it breaks the contract of `JaxEnv`:

    - `reset` and `step` are pure and can be compiled and vectorised. `step` keeps the shapes and dtypes of the state.
    - Observations have the shape, dtype and bounds of `spec.observation`. Rewards are finite.
    - No step both terminates and truncates. Episodes have between `spec.min_episode_steps` and `spec.horizon` steps.
    - Indices of cells, states and observations are in their ranges.

    Args:
        env: The environment.
        num_envs: Number of environments to step in parallel.
        num_steps: Number of steps. The default is one more than the horizon.
        seed: Random seed of keys and actions.
    """
    _check_structure(env)
    key, num_steps = jax.random.key(seed), env.spec.horizon + 1 if num_steps is None else num_steps
    rollout, again = (_random_rollout(env, key, num_envs, num_steps) for _ in range(2))
    _expect(
        all(map(partial(np.array_equal, equal_nan=True), *map(jax.tree.leaves, (rollout, again)))),
        "reset and step are pure: the same keys and actions give the same results",
        "different results when traced and run again",
    )
    _check_vmap(env, key)
    _check_clock(env, key)
    _check_values(env, rollout.first)
    _check_values(env, rollout.timesteps)
    _expect(not rollout.first.reward.any(), "a reset has reward 0", rollout.first.reward)
    _expect(not is_last(rollout.first).any(), "a reset does not end the episode", "an end of the episode")
    num_both = (rollout.timesteps.terminated & rollout.timesteps.truncated).sum()
    _expect(num_both == 0, "terminated and truncated are never true together", f"{num_both} times both")
    _check_episode_lengths(env, np.asarray(is_last(rollout.timesteps)))
    _check_indices(env, rollout.indices)


def _check_structure(env: JaxEnv) -> None:
    """Checks shapes and dtypes by tracing, without running anything."""
    key, action = jax.random.key(0), jnp.zeros((), int)
    try:
        state, first = jax.eval_shape(env.reset, key)
        next_state, timestep = jax.eval_shape(env.step, key, state, action)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        reason = str(error).splitlines()[0]
        raise EnvContractError(
            f"expected: reset and step can be compiled with jit. Found: {reason}"
        ) from error
    shapes, next_shapes = _shapes(state), _shapes(next_state)
    _expect(shapes == next_shapes, f"step keeps the structure of the state, {shapes}", next_shapes)
    expected = {
        "observation": (env.spec.observation.shape, env.spec.observation.dtype),
        "reward": ((), np.dtype(np.float32)),
        "terminated": ((), np.dtype(bool)),
        "truncated": ((), np.dtype(bool)),
    }
    for name, result in (("reset", first), ("step", timestep)):
        for field, (shape, dtype) in expected.items():
            found = getattr(result, field)
            _expect(
                (found.shape, found.dtype) == (shape, dtype),
                f"{field} of {name} has shape {shape} and dtype {dtype}",
                f"shape {found.shape} and dtype {found.dtype}",
            )


def _random_rollout(env: JaxEnv, key: PRNGKeyArray, num_envs: int, num_steps: int) -> Rollout:
    """Steps the environments with random actions. Traces them anew in every call."""
    functions = _index_functions(env)

    def one_step(states: Tree, key: PRNGKeyArray):
        action_key, env_key = jax.random.split(key)
        actions = jax.random.randint(action_key, (num_envs,), 0, env.spec.num_actions)
        keys = jax.random.split(env_key, num_envs)
        states, outcome = jax.vmap(partial(step_and_reset, env))(keys, states, actions)
        indices = {name: jax.vmap(function)(outcome.next_state) for name, (function, _) in functions.items()}
        return states, (outcome.timestep, indices)

    @jax.jit
    def rollout(key: PRNGKeyArray) -> Rollout:
        reset_key, step_key = jax.random.split(key)
        states, first = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
        return Rollout(first, *jax.lax.scan(one_step, states, jax.random.split(step_key, num_steps))[1])

    return rollout(key)


def _check_vmap(env: JaxEnv, key: PRNGKeyArray) -> None:
    """Checks that `vmap` over several environments does not change the results of one."""

    def reset_and_step(key: PRNGKeyArray):
        state, first = env.reset(key)
        return first, env.step(key, state, jnp.zeros((), int))[1]

    keys = jax.random.split(key, 2)
    together = jax.jit(jax.vmap(reset_and_step))(keys)
    alone = jax.jit(reset_and_step)(keys[1])
    for found, expected in zip(*map(jax.tree.leaves, (together, alone)), strict=True):
        _expect(
            np.allclose(found[1].astype(float), expected.astype(float), TOLERANCE, TOLERANCE, equal_nan=True),
            "an environment gives the same results under vmap as alone",
            f"{found[1]} instead of {expected}",
        )


def _check_clock(env: JaxEnv, key: PRNGKeyArray) -> None:
    """Checks that `reset_at` agrees with `reset` at time 0, and that an episode ends at the horizon."""
    if env.reset_at is None:
        return
    reset_at, horizon = env.reset_at, env.spec.horizon

    @jax.jit
    def start(key: PRNGKeyArray):
        late_state, _ = reset_at(key, jnp.asarray(horizon - 1))
        last = env.step(key, late_state, jnp.zeros((), int))[1]
        return env.reset(key)[1], reset_at(key, jnp.zeros((), int))[1], is_last(last)

    first, first_at_zero, is_over = start(key)
    same = jax.tree.all(jax.tree.map(lambda one, other: (one == other).all(), first, first_at_zero))
    _expect(same, "reset_at at time 0 equals reset", f"{first_at_zero} instead of {first}")
    _expect(is_over, "an episode that starts at the last time step ends after one step", "it goes on")


def _check_values(env: JaxEnv, timesteps: Timestep) -> None:
    low, high = env.spec.observation
    observation = np.asarray(timesteps.observation)
    batch_axes = tuple(range(observation.ndim - low.ndim))
    lowest, highest = observation.min(batch_axes), observation.max(batch_axes)
    _expect(
        bool((lowest >= low).all() and (highest <= high).all()),
        f"observations are in the bounds of the spec, {low.min()} to {high.max()}",
        f"entries from {lowest.min()} to {highest.max()}",
    )
    _expect(np.isfinite(timesteps.reward).all(), "rewards are finite", "infinite or NaN")


def _check_episode_lengths(env: JaxEnv, ends: Bool[np.ndarray, "time envs"]) -> None:
    shortest, horizon = env.spec.min_episode_steps, env.spec.horizon
    for column in ends.T:
        lengths = np.diff(np.flatnonzero(column), prepend=-1)
        # The last episode may not have ended yet.
        longest = max([*lengths, len(column) - lengths.sum()])
        at_most, at_least = f"at most horizon = {horizon}", f"at least min_episode_steps = {shortest}"
        _expect(longest <= horizon, f"episodes have {at_most} steps", f"one of {longest} or more")
        shortest_found = lengths.min(initial=horizon)
        _expect(shortest_found >= shortest, f"episodes have {at_least} steps", f"one of {shortest_found}")


def _index_functions(env: JaxEnv) -> dict[str, Any]:
    """Returns the index functions by name, each with the size of its range."""
    functions = {} if env.spec.num_cells is None else {"cell_index": (env.cell_index, env.spec.num_cells)}
    if env.finite is not None:
        functions["state_index"] = env.finite.state_index, env.finite.num_states
        functions["observation_index"] = env.finite.observation_index, len(env.finite.observation_table)
    return functions


def _check_indices(env: JaxEnv, indices: dict[str, Int[Array, "time envs"]]) -> None:
    for name, (_, size) in _index_functions(env).items():
        low, high = indices[name].min(), indices[name].max()
        _expect(bool(low >= 0 and high < size), f"{name} is in 0..{size - 1}", f"values from {low} to {high}")


def _shapes(tree: Tree) -> Any:
    """Returns dtype and shape of each leaf as text."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree)


def _expect(condition: Any, expected: str, found: Any) -> None:
    """Raises `EnvContractError` unless the condition is true."""
    if not condition:
        raise EnvContractError(f"expected: {expected}. Found: {found}.")

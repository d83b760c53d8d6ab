"""Checks that a custom intrinsic reward follows the interface.

`check_reward` runs an intrinsic reward on generated rollouts and reports the first rule that it breaks:

    from gemax.testing import check_reward

    check_reward(my_reward, rows=jnp.eye(12), num_envs=8)
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path
from jaxtyping import Array, Float, PRNGKeyArray

from gemax.rewards.base import IntrinsicReward, refreshed
from gemax.types import Observations, Transition, Tree, gather_flat

TOLERANCE = 1e-4
"""Rewards count as equal if they differ by at most this share of the largest reward."""


class ContractError(AssertionError):
    """An intrinsic reward breaks a rule of its interface."""


def check_reward(
    reward: IntrinsicReward,
    rows: Float[Array, "rows *shape"],
    num_envs: int,
    *,
    num_steps: int = 6,
    num_actions: int = 4,
    num_states: int = 1,
    envs_are_independent: bool = False,
) -> None:
    """Raises `ContractError` unless an intrinsic reward follows the interface of `rewards.base`.

    The optimiser of the reward must skip non-finite updates, as in training.

    Args:
        reward: The intrinsic reward.
        rows: Typical observations, with no two alike.
        num_envs: Number of environments of the artificial rollouts.
        num_steps: Number of steps of each environment.
        num_actions: Number of actions.
        num_states: Number of cells and of true states.
        envs_are_independent: Declares that the reward in one environment does not depend on the others: true for NGU,
            which has one memory per environment, but not for GEM, nor for rewards that are normalised over all
            environments.
    """
    init_key, key = jax.random.split(jax.random.key(0))
    sizes = {"num_actions": num_actions, "num_states": num_states}
    transitions = example_transitions(0, rows, num_envs, num_steps, **sizes)
    state = _check_initial_state(reward, init_key, rows, num_envs)
    _check_traces(reward, state, transitions, key)

    def results(state: Tree, *arguments: Any) -> Results:
        return Results(reward.reward(refreshed(reward, state), *arguments), *reward.step(state, *arguments))

    run = jax.jit(results)
    case = Case(run, state, transitions, key)
    first = _check_step_uses_old_state(case)
    _check_vmap(reward, case, first.state)
    _check_table(reward, case, first.reward)
    _check_finite(case)
    _check_recovers(case)
    _check_serialisation(case, first.state)
    if envs_are_independent:
        _check_independent_envs(case, first.reward)
    _check_embedding(reward, state, rows)


def example_transitions(
    seed: int,
    rows: Float[Array, "rows *shape"],
    num_envs: int,
    num_steps: int,
    *,
    num_actions: int = 4,
    num_states: int = 1,
) -> Transition:
    """Returns a random walk over the rows of a table in each environment, with episodes of random length.

    The observation of each step is the next observation of the previous step, or the start of an episode. Some
    episodes terminate, others are truncated.
    """
    # NumPy, because it needs no compilation.
    random = np.random.default_rng(seed)
    shape, num_rows = (num_steps, num_envs), rows.shape[0]
    next_observation = random.integers(num_rows, size=shape)
    ends, is_terminal = random.random(shape) < 0.25, random.random(shape) < 0.5
    is_first = np.concatenate([np.ones((1, num_envs), bool), ends[:-1]])
    before = np.concatenate([next_observation[:1], next_observation[:-1]])
    observation = np.where(is_first, random.integers(num_rows, size=shape), before)
    return Transition(
        observation=Observations(rows, jnp.asarray(observation, int)),
        next_observation=Observations(rows, jnp.asarray(next_observation, int)),
        action=jnp.asarray(random.integers(num_actions, size=shape), int),
        log_prob=jnp.asarray(np.full(shape, -np.log(num_actions)), float),
        reward=jnp.asarray(np.zeros(shape), float),
        terminated=jnp.asarray(ends & is_terminal),
        truncated=jnp.asarray(ends & ~is_terminal),
        is_first=jnp.asarray(is_first),
        cell=jnp.asarray(next_observation % num_states, int),
        state_index=jnp.asarray(next_observation % num_states, int),
    )


def slice_steps(transitions: Transition, start: int, stop: int) -> Transition:
    """Returns the steps from `start` up to, but not including, `stop`. The observations must have a table."""
    return _map_steps(transitions, lambda field: field[start:stop])


def without_table(transitions: Transition) -> Transition:
    """Returns the same transitions with one observation per step instead of a table."""
    return _map_observations(
        transitions, lambda observations: Observations(gather_flat(observations, observations.rows), None)
    )


class Results(NamedTuple):
    """Results of `reward` and `step` for the same transitions."""

    reward_only: Float[Array, "time envs"]
    """From `reward`."""
    reward: Float[Array, "time envs"]
    """From `step`."""
    state: Tree
    metrics: Tree


class Case(NamedTuple):
    """The inputs that most checks share."""

    run: Callable[[Tree, Transition, PRNGKeyArray], Results]
    """Runs `reward` and `step`. Compiled once for all transitions of the same shape."""
    state: Tree
    transitions: Transition
    key: PRNGKeyArray


def _check_initial_state(
    reward: IntrinsicReward, key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_envs: int
) -> Tree:
    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> Tree:
        state = reward.init(key, rows, num_envs)
        for path, leaf in tree_leaves_with_path(state):
            _require(
                isinstance(leaf, jax.Array | np.ndarray),
                "the state is a tree of arrays",
                f"{keystr(path)} is {type(leaf).__name__}; keep constants in the factory",
            )
        return state

    _traced_shapes("init", init, key, rows)
    return init(key, rows)


def _check_traces(reward: IntrinsicReward, state: Tree, transitions: Transition, key: PRNGKeyArray) -> None:
    """Traces `reward`, `step` and `remember` without running them."""
    reward_only = _traced_shapes("reward", reward.reward, state, transitions, key)
    from_step, next_state, metrics = _traced_shapes("step", reward.step, state, transitions, key)
    for name, result in (("reward", reward_only), ("step", from_step)):
        rule = f"`{name}` returns a reward for each step of each environment"
        _require_floats(result, transitions.action.shape, rule)
    _check_same_structure(state, next_state, "step")
    if reward.remember is not None:
        all_envs = jnp.ones(transitions.action.shape[1], bool)
        remembered = _traced_shapes("remember", reward.remember, state, transitions, all_envs)
        _check_same_structure(state, remembered, "remember")
    for name, value in metrics.items():
        _require_floats(value, (), f"metric {name!r} is a scalar")


def _traced_shapes(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Checks that a function can be compiled and is pure. Returns its output shapes.

    A pure function gives the same program when traced twice. Calling it twice is no test, since JAX caches the program.
    """
    try:
        (text, constants, shapes), again = (_trace(function, *arguments) for _ in range(2))
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        rule = f"`{name}` can be compiled, without Python conditions on array values"
        raise ContractError(f"broken rule: {rule}. Found: {str(error).splitlines()[0]}") from error
    _require(
        text == again[0] and all(map(np.array_equal, constants, again[1])),
        f"`{name}` is pure",
        "a second trace gives another program; does it change or sample anything outside of its arguments",
    )
    return shapes


def _trace(function: Callable[..., Any], *arguments: Any) -> tuple[str, list[np.ndarray], Any]:
    """Returns a function's program as text without memory addresses, its constants, and its output shapes."""
    # A new function each time, since JAX caches traces.
    traced, shapes = jax.make_jaxpr(lambda *arguments: function(*arguments), return_shape=True)(*arguments)
    text = re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr))
    return text, [_to_numpy(constant) for constant in traced.consts], shapes


def _check_same_structure(state: Tree, next_state: Tree, function: str) -> None:
    rule = f"`{function}` keeps the shapes and dtypes of the state, so that it can be scanned"
    before, after = jax.tree.structure(state), jax.tree.structure(next_state)
    _require(before == after, rule, f"the tree was {before} and became {after}")
    leaves = tree_leaves_with_path(state)
    for (path, old), new in zip(leaves, jax.tree.leaves(next_state), strict=True):
        _require(
            old.shape == new.shape and old.dtype == new.dtype,
            rule,
            f"{keystr(path)} was {old.dtype} of shape {old.shape} and became {new.dtype} of {new.shape}",
        )


def _check_step_uses_old_state(case: Case) -> Results:
    results = case.run(case.state, case.transitions, case.key)
    _check_results_finite(results, "an ordinary rollout")
    rule = "`step` returns the reward of `reward`, with the state before it learns"
    _require_equal(results.reward, results.reward_only, rule)
    return results


def _check_vmap(reward: IntrinsicReward, case: Case, next_state: Tree) -> None:
    """Checks two seeds, one of them a step ahead. `step` is only traced, because `vmap` errors occur in tracing."""
    rule = "seeds under `vmap` have the same rewards as alone"
    states = jax.tree.map(
        lambda *leaves: _from_numpy(np.stack([*map(_to_numpy, leaves)]), leaves[0]), case.state, next_state
    )
    vectorised = partial(jax.vmap, in_axes=(0, None, None), axis_size=2)
    try:
        together = jax.jit(
            vectorised(lambda state, *arguments: reward.reward(refreshed(reward, state), *arguments))
        )(states, case.transitions, case.key)
        jax.eval_shape(vectorised(reward.step), states, case.transitions, case.key)
    except (NotImplementedError, ValueError) as error:
        raise ContractError(f"broken rule: {rule}. Found: {error}") from error
    for seed, state in enumerate((case.state, next_state)):
        _require_equal(together[seed], case.run(state, case.transitions, case.key).reward_only, rule)


def _check_table(reward: IntrinsicReward, case: Case, expected: Float[Array, "time envs"]) -> None:
    found = jax.jit(reward.reward)(case.state, without_table(case.transitions), case.key)
    _require_equal(found, expected, "rewards are the same for rows of a table and for single observations")


def _check_finite(case: Case) -> None:
    rows = case.transitions.next_observation.rows
    first_row = jnp.zeros_like(case.transitions.action)
    edge_cases = {
        "observations that are all zero": _with_rows(case.transitions, jnp.zeros_like(rows)),
        "observations that are all a million": _with_rows(case.transitions, jnp.full_like(rows, 1e6)),
        "observations of a million and more": _with_rows(case.transitions, 1e6 * rows),
        "the same observation at every step": _map_observations(
            case.transitions, lambda observations: observations._replace(row_index=first_row)
        ),
    }
    for name, transitions in edge_cases.items():
        state = case.state
        for _ in range(3):
            results = case.run(state, transitions, case.key)
            _check_results_finite(results, name)
            state = results.state


def _check_results_finite(results: Results, name: str) -> None:
    rule = f"rewards, metrics and state are finite after {name}"
    for path, leaf in tree_leaves_with_path(results):
        _require(_is_finite(leaf), rule, f"{keystr(path)} is not")


def _check_recovers(case: Case) -> None:
    """Checks that non-finite observations do not affect the rewards of later rollouts."""
    rows = case.transitions.next_observation.rows
    broken = _with_rows(case.transitions, jnp.full_like(rows, jnp.nan))
    state = case.run(case.state, broken, case.key).state
    _require(
        _is_finite(case.run(state, case.transitions, case.key).reward),
        "a non-finite rollout does not affect later ones",
        "later rewards are not finite; do the optimiser and the running averages skip non-finite values?",
    )


def _check_serialisation(case: Case, state: Tree) -> None:
    before = case.run(state, case.transitions, case.key).reward
    after = case.run(jax.tree.map(_from_bytes, state), case.transitions, case.key).reward
    _require_equal(after, before, "a state written to a file and read again gives the same rewards")


def _check_independent_envs(case: Case, expected: Float[Array, "time envs"]) -> None:
    def change_first_env(observations: Observations) -> Observations:
        assert observations.row_index is not None
        row_index = observations.row_index.at[:, 0].add(1) % observations.rows.shape[0]
        return observations._replace(row_index=row_index)

    changed = case.run(case.state, _map_observations(case.transitions, change_first_env), case.key)
    rule = "environments are independent, as declared"
    _require_equal(changed.reward[:, 1:], expected[:, 1:], f"{rule}: the reward ignores other environments")
    order = np.roll(np.arange(expected.shape[1]), 1)
    reordered = _map_steps(case.transitions, lambda field: field[:, order])
    found = case.run(case.state, reordered, case.key).reward
    _require_equal(found, expected[:, order], f"{rule}: the reward ignores the order of the environments")


def _check_embedding(reward: IntrinsicReward, state: Tree, rows: Float[Array, "rows *shape"]) -> None:
    if reward.embed is None:
        return
    shape = jax.eval_shape(reward.embed, state, rows).shape
    _require(
        len(shape) == 2 and shape[0] == rows.shape[0],
        "`embed` returns a vector for each row",
        f"expected the shape ({rows.shape[0]}, D), got {shape}",
    )


def _map_observations(transitions: Transition, change: Callable[[Observations], Observations]) -> Transition:
    """Returns the transitions with changed observations and next observations."""
    observation, next_observation = map(change, transitions[:2])
    return transitions._replace(observation=observation, next_observation=next_observation)


def _with_rows(transitions: Transition, rows: Float[Array, "rows *shape"]) -> Transition:
    """Returns the transitions with another table of observations."""
    return _map_observations(transitions, lambda observations: observations._replace(rows=rows))


def _map_steps(transitions: Transition, change: Callable[[np.ndarray], np.ndarray]) -> Transition:
    """Returns the transitions with every [time, envs] field changed, and the same table."""

    def change_field(field: Array) -> Array:
        return jnp.asarray(change(np.asarray(field)))

    def change_row(observations: Observations) -> Observations:
        if observations.row_index is None:
            raise ValueError("transitions must have a table of observations; got one observation per step.")
        return observations._replace(row_index=change_field(observations.row_index))

    fields = jax.tree.map(change_field, transitions[2:])
    return _map_observations(Transition(*transitions[:2], *fields), change_row)


def _require(condition: bool, rule: str, found: str) -> None:
    if not condition:
        raise ContractError(f"broken rule: {rule}. Found: {found}.")


def _require_floats(result: jax.ShapeDtypeStruct, shape: tuple[int, ...], rule: str) -> None:
    is_right = result.shape == shape and jnp.issubdtype(result.dtype, jnp.floating)
    _require(is_right, rule, f"expected floats of shape {shape}, got {result.dtype} of {result.shape}")


def _require_equal(found: Array, expected: Array, rule: str) -> None:
    values, target = np.asarray(found), np.asarray(expected)
    difference = np.abs(values - target)
    time, env = np.unravel_index(np.argmax(difference), difference.shape)
    _require(
        bool(difference.max() <= TOLERANCE * np.abs(target).max()),
        rule,
        f"{values[time, env]:.6g} instead of {target[time, env]:.6g} at time {time} in environment {env}",
    )


def _is_finite(leaf: Array) -> bool:
    return bool(np.isfinite(_to_numpy(leaf)).all())


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Array) -> np.ndarray:
    """Converts an array or random keys to NumPy."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _from_numpy(numbers: np.ndarray, like: Array) -> Array:
    """Converts back to an array or random keys."""
    array = jnp.asarray(numbers)
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(like)) if _is_key(like) else array


def _from_bytes(leaf: Array) -> Array:
    """Writes an array as raw bytes and reads it again."""
    numbers = _to_numpy(leaf)
    return _from_numpy(np.frombuffer(numbers.tobytes(), numbers.dtype).reshape(numbers.shape), leaf)

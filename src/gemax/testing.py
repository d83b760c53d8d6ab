"""The contracts as functions, for other people's code too.

`check_reward` puts an intrinsic reward through made-up rollouts and names the first promise that it breaks:

    from gemax.testing import check_reward

    check_reward(my_reward, rows=jnp.eye(12), num_worlds=8)
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gemax.rewards.base import IntrinsicReward
from gemax.types import Observations, Rollout, Tree

TOLERANCE = 1e-4
"""How far rewards that should be the same may be apart, as a share of the largest of them."""


class BrokenPromiseError(AssertionError):
    """An intrinsic reward does not keep its contract."""


def check_reward(
    reward: IntrinsicReward,
    rows: Float[Array, "rows *shape"],
    num_worlds: int,
    *,
    num_steps: int = 6,
    num_actions: int = 4,
    num_squares: int = 1,
    worlds_are_independent: bool = False,
) -> None:
    """Raises `BrokenPromiseError` unless the intrinsic reward keeps the contract of `rewards.base`.

    `rows` are observations such as it will meet, all different from each other. `worlds_are_independent` says that what
    a world is paid does not depend on what happens in the others: true of NGU, whose memories are apart; not of GEM,
    which contrasts worlds, nor of anything that is standardised over all of them.

    Give the module an optimiser that skips updates that are not finite, as training does.
    """
    init_key, key = jax.random.split(jax.random.key(0))
    rollout = example_rollout(
        0, rows, num_worlds, num_steps, num_actions=num_actions, num_squares=num_squares
    )
    state = _check_initial_state(reward, init_key, rows, num_worlds)
    _check_programs(reward, state, rollout, key)
    case = Case(_in_one_call(reward), state, rollout, key)
    paid, following = _check_pays_before_it_learns(case)
    _check_vmap(reward, case, following)
    _check_table(reward, case, paid)
    _check_finite(case)
    _check_recovers(case)
    _check_survives_a_file(case, following)
    if worlds_are_independent:
        _check_independent_worlds(case, paid)
    _check_embedding(reward, state, rows)


def example_rollout(
    seed: int,
    rows: Float[Array, "rows *shape"],
    num_worlds: int,
    num_steps: int,
    *,
    num_actions: int = 4,
    num_squares: int = 1,
) -> Rollout:
    """A random walk over the rows of a table in every world, with episodes that end in odd places.

    Each step sees what the one before arrived in, or a new start. Of the ends, some terminate and some truncate.
    """
    # Drawn by NumPy, which has nothing to compile.
    draw = np.random.default_rng(seed)
    shape, num_rows = (num_steps, num_worlds), rows.shape[0]
    arrived = draw.integers(num_rows, size=shape)
    ends, is_terminal = draw.random(shape) < 0.25, draw.random(shape) < 0.5
    is_first = np.concatenate([np.ones((1, num_worlds), bool), ends[:-1]])
    before = np.concatenate([arrived[:1], arrived[:-1]])
    seen = np.where(is_first, draw.integers(num_rows, size=shape), before)
    return Rollout(
        seen=Observations(rows, jnp.asarray(seen, int)),
        arrived=Observations(rows, jnp.asarray(arrived, int)),
        action=jnp.asarray(draw.integers(num_actions, size=shape), int),
        log_probability=jnp.asarray(np.full(shape, -np.log(num_actions)), float),
        reward=jnp.asarray(np.zeros(shape), float),
        terminated=jnp.asarray(ends & is_terminal),
        truncated=jnp.asarray(ends & ~is_terminal),
        is_first=jnp.asarray(is_first),
        square=jnp.asarray(arrived % num_squares, int),
    )


def part_of(rollout: Rollout, start: int, stop: int) -> Rollout:
    """The steps of a rollout from one time to another; it must have a table."""
    return _each_field(rollout, lambda field: field[start:stop])


def without_table(rollout: Rollout) -> Rollout:
    """The same rollout with the observations themselves, one after the other."""

    def plain(observations: Observations) -> Observations:
        if observations.row is None:
            return observations
        return Observations(observations.rows[observations.row.reshape(-1)], None)

    return rollout._replace(seen=plain(rollout.seen), arrived=plain(rollout.arrived))


class Results(NamedTuple):
    """What `reward` and `step` say of the same rollout."""

    said: Float[Array, "time worlds"]
    paid: Float[Array, "time worlds"]
    state: Tree
    metrics: Tree


class Case(NamedTuple):
    """What the promises are tried on."""

    run: Callable[[Tree, Rollout, PRNGKeyArray], Results]
    """Compiled once for all rollouts of the same shape."""
    state: Tree
    rollout: Rollout
    key: PRNGKeyArray


def _in_one_call(reward: IntrinsicReward) -> Callable[[Tree, Rollout, PRNGKeyArray], Results]:
    def both(state: Tree, rollout: Rollout, key: PRNGKeyArray) -> Results:
        return Results(reward.reward(state, rollout, key), *reward.step(state, rollout, key))

    return jax.jit(both)


def _check_initial_state(
    reward: IntrinsicReward, key: PRNGKeyArray, rows: Float[Array, "rows *shape"], num_worlds: int
) -> Tree:
    def init(key: PRNGKeyArray, rows: Float[Array, "rows *shape"]) -> Tree:
        state = reward.init(key, rows, num_worlds)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state):
            _promise(
                isinstance(leaf, jax.Array | np.ndarray),
                "the state is a tree of arrays",
                f"{_name(path)} is {type(leaf).__name__}; what never changes belongs into the factory",
            )
        return state

    _program_of("init", init, key, rows)
    return init(key, rows)


def _check_programs(reward: IntrinsicReward, state: Tree, rollout: Rollout, key: PRNGKeyArray) -> None:
    """Looks at what `reward` and `step` would compute, without computing it."""
    said = _program_of("reward", reward.reward, state, rollout, key)
    paid, following, metrics = _program_of("step", reward.step, state, rollout, key)
    for name, result in (("reward", said), ("step", paid)):
        _promise(
            result.shape == rollout.action.shape and jnp.issubdtype(result.dtype, jnp.floating),
            f"`{name}` pays every step of every world",
            f"expected floats of shape {rollout.action.shape}, got {result.dtype} of {result.shape}",
        )
    _check_same_structure(state, following, "step")
    if reward.remember is not None:
        everywhere = jnp.ones(rollout.action.shape[1], bool)
        remembered = _program_of("remember", reward.remember, state, rollout, everywhere)
        _check_same_structure(state, remembered, "remember")
    for name, value in metrics.items():
        _promise(
            value.shape == () and jnp.issubdtype(value.dtype, jnp.floating),
            "metrics are numbers",
            f"{name!r} is {value.dtype} of shape {value.shape}",
        )


def _program_of(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The shapes that a function returns, if it can be compiled and is pure.

    Traced twice, a pure function gives the same program. Running it twice would only run the first one again.
    """
    try:
        (text, constants, shapes), again = (_trace(function, *arguments) for _ in range(2))
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise BrokenPromiseError(
            f"broken promise: `{name}` can be compiled, without decisions in Python on the values of arrays. "
            f"Found: {str(error).splitlines()[0]}"
        ) from error
    is_same = text == again[0] and all(map(np.array_equal, constants, again[1]))
    _promise(
        is_same,
        f"`{name}` is pure",
        "traced a second time it is another program; does it keep or draw anything outside of its arguments",
    )
    return shapes


def _trace(function: Callable[..., Any], *arguments: Any) -> tuple[str, list[np.ndarray], Any]:
    """What a function does, as text without addresses in memory, the constants it uses, and the shapes it returns."""
    # A new function each time, as those that were traced are remembered.
    traced, shapes = jax.make_jaxpr(lambda *arguments: function(*arguments), return_shape=True)(*arguments)
    text = re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr))
    return text, [_numbers(constant) for constant in traced.consts], shapes


def _check_same_structure(state: Tree, following: Tree, function: str) -> None:
    promise = f"`{function}` keeps the shapes and dtypes of the state, so that it can be scanned"
    before, after = jax.tree.structure(state), jax.tree.structure(following)
    _promise(before == after, promise, f"the tree was {before} and became {after}")
    leaves = jax.tree_util.tree_leaves_with_path(state)
    for (path, old), new in zip(leaves, jax.tree.leaves(following), strict=True):
        _promise(
            old.shape == new.shape and old.dtype == new.dtype,
            promise,
            f"{_name(path)} was {old.dtype} of shape {old.shape} and became {new.dtype} of {new.shape}",
        )


def _check_pays_before_it_learns(case: Case) -> tuple[Array, Tree]:
    results = case.run(case.state, case.rollout, case.key)
    _check_results_finite(results, "an ordinary rollout")
    _promise_same(
        results.paid,
        results.said,
        "`step` pays what `reward` says, with what was known before it learns",
    )
    return results.paid, results.state


def _check_vmap(reward: IntrinsicReward, case: Case, following: Tree) -> None:
    """Two seeds side by side, one of them a step ahead. What they learn is only traced, which is where `vmap` fails."""
    promise = "seeds side by side under `vmap` are paid as they are alone"
    states = jax.tree.map(
        lambda one, other: _array(np.stack([_numbers(one), _numbers(other)]), one), case.state, following
    )
    side_by_side = partial(jax.vmap, in_axes=(0, None, None), axis_size=2)
    try:
        together = jax.jit(side_by_side(reward.reward))(states, case.rollout, case.key)
        jax.eval_shape(side_by_side(reward.step), states, case.rollout, case.key)
    except (NotImplementedError, ValueError) as error:
        raise BrokenPromiseError(f"broken promise: {promise}. Found: {error}") from error
    for seed, state in enumerate((case.state, following)):
        _promise_same(together[seed], case.run(state, case.rollout, case.key).said, promise)


def _check_table(reward: IntrinsicReward, case: Case, paid: Float[Array, "time worlds"]) -> None:
    plain = jax.jit(reward.reward)(case.state, without_table(case.rollout), case.key)
    _promise_same(plain, paid, "observations pay the same whether they come as rows of a table or one by one")


def _check_finite(case: Case) -> None:
    rows = case.rollout.arrived.rows
    nowhere = jnp.zeros_like(case.rollout.action)
    hard = {
        "observations that are all zero": _seen_as(case.rollout, jnp.zeros_like(rows)),
        "observations that are all a million": _seen_as(case.rollout, jnp.full_like(rows, 1e6)),
        "observations of a million and more": _seen_as(case.rollout, 1e6 * rows),
        "one observation over and over": _moved_to(case.rollout, nowhere, nowhere),
    }
    for name, rollout in hard.items():
        state = case.state
        for _ in range(3):
            results = case.run(state, rollout, case.key)
            _check_results_finite(results, name)
            state = results.state


def _check_results_finite(results: Results, name: str) -> None:
    promise = f"rewards, metrics and state are finite after {name}"
    _promise(_is_finite(results.paid), promise, "the reward is not")
    for tree in (results.metrics, results.state):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            _promise(_is_finite(leaf), promise, f"{_name(path)} is not")


def _check_recovers(case: Case) -> None:
    """A broken sensor spoils the rollouts it is broken in, and nothing once their episodes are over."""
    broken = _seen_as(case.rollout, jnp.full_like(case.rollout.arrived.rows, jnp.nan))
    after = case.run(case.state, broken, case.key).state
    _promise(
        _is_finite(case.run(after, case.rollout, case.key).paid),
        "a rollout that is not finite leaves nothing behind",
        "later rewards are not finite; does the optimiser skip bad updates, and do running averages?",
    )


def _check_survives_a_file(case: Case, following: Tree) -> None:
    restored = jax.tree.map(_written_and_read, following)
    before = case.run(following, case.rollout, case.key).paid
    after = case.run(restored, case.rollout, case.key).paid
    _promise_same(after, before, "a state that was written to a file and read again goes on as before")


def _check_independent_worlds(case: Case, paid: Float[Array, "time worlds"]) -> None:
    seen, arrived = _rows_of(case.rollout)
    num_rows = case.rollout.arrived.rows.shape[0]
    elsewhere = _moved_to(case.rollout, *(row.at[:, 0].add(1) % num_rows for row in (seen, arrived)))
    _promise_same(
        case.run(case.state, elsewhere, case.key).paid[:, 1:],
        paid[:, 1:],
        "worlds are independent, as was said of them: one went elsewhere, and another was paid differently",
    )
    order = np.roll(np.arange(paid.shape[1]), 1)
    reordered = _each_field(case.rollout, lambda field: field[:, order])
    _promise_same(
        case.run(case.state, reordered, case.key).paid,
        paid[:, order],
        "worlds are independent, as was said of them: they changed places, and were paid differently",
    )


def _check_embedding(reward: IntrinsicReward, state: Tree, rows: Float[Array, "rows *shape"]) -> None:
    if reward.embed is None:
        return
    shape = jax.eval_shape(reward.embed, state, rows).shape
    _promise(
        len(shape) == 2 and shape[0] == rows.shape[0],
        "`embed` gives a vector for each row",
        f"expected the shape ({rows.shape[0]}, D), got {shape}",
    )


def _seen_as(rollout: Rollout, rows: Float[Array, "rows *shape"]) -> Rollout:
    """The same steps, in a world that looks different."""
    return rollout._replace(
        seen=rollout.seen._replace(rows=rows), arrived=rollout.arrived._replace(rows=rows)
    )


def _moved_to(
    rollout: Rollout, seen: Int[Array, "time worlds"], arrived: Int[Array, "time worlds"]
) -> Rollout:
    """Other steps, in a world that looks the same."""
    return rollout._replace(
        seen=rollout.seen._replace(row=seen), arrived=rollout.arrived._replace(row=arrived)
    )


def _each_field(rollout: Rollout, change: Callable[[np.ndarray], np.ndarray]) -> Rollout:
    """Changes all fields that are [time, worlds]; the table stays."""
    seen, arrived = _rows_of(rollout)
    fields = [jnp.asarray(change(np.asarray(field))) for field in (seen, arrived, *rollout[2:])]
    return _moved_to(Rollout(rollout.seen, rollout.arrived, *fields[2:]), *fields[:2])


def _rows_of(rollout: Rollout) -> tuple[Int[Array, "time worlds"], Int[Array, "time worlds"]]:
    if rollout.seen.row is None or rollout.arrived.row is None:
        raise ValueError("rollout must have a table of observations; got one without.")
    return rollout.seen.row, rollout.arrived.row


def _promise(is_kept: bool, promise: str, reason: str) -> None:
    if not is_kept:
        raise BrokenPromiseError(f"broken promise: {promise}. Found: {reason}.")


def _promise_same(found: Array, expected: Array, promise: str) -> None:
    got, wanted = np.asarray(found), np.asarray(expected)
    apart = np.abs(got - wanted)
    time, world = np.unravel_index(np.argmax(apart), apart.shape)
    _promise(
        bool(apart.max() <= TOLERANCE * np.abs(wanted).max()),
        promise,
        f"{got[time, world]:.6g} instead of {wanted[time, world]:.6g} at time {time} in world {world}",
    )


def _is_finite(leaf: Array) -> bool:
    return bool(np.isfinite(_numbers(leaf)).all())


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Array) -> np.ndarray:
    """The numbers of an array, those of a random key included."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _array(numbers: np.ndarray, like: Array) -> Array:
    """The array, or the random keys, of these numbers."""
    array = jnp.asarray(numbers)
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(like)) if _is_key(like) else array


def _written_and_read(leaf: Array) -> Array:
    """What becomes of an array in a file that knows nothing but numbers."""
    numbers = _numbers(leaf)
    return _array(np.frombuffer(numbers.tobytes(), numbers.dtype).reshape(numbers.shape), leaf)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path)

"""The training loop: a generator. Writing, drawing and stopping are its caller's business."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool

from gemax.training.learn import Trainer, initial_state, update
from gemax.training.state import TrainState
from gemax.types import Metrics, tree_where

MOST_BAD_IN_A_ROW = 10
ADVICE = "A smaller learning_rate or reward_learning_rate may help."


class NumericalError(Exception):
    """Too many updates in a row were not finite."""

    exit_code = 5


def begin(trainer: Trainer) -> TrainState:
    """The state before the first update."""
    return _called_once(partial(initial_state, trainer))(jax.random.key(trainer.config.seed))


def begin_together(trainer: Trainer) -> TrainState:
    """The states of all seeds before the first update, stacked: the first axis of every leaf is the seed."""
    first, number = trainer.config.seed, trainer.config.seeds
    keys = jnp.stack([jax.random.key(seed) for seed in range(first, first + number)])
    return _called_once(jax.vmap(partial(initial_state, trainer)))(keys)


def _called_once(function: Callable) -> Callable:
    """Compiled with little care: that would take seconds, and what runs once has none to gain."""
    careless = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=careless)


def train(trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, dict[str, float]]]:
    """Goes on from a state to the end of the run, and yields after every compiled call.

    What is yielded is the state, which the next call uses up, and the metrics of the last update.
    """
    config = trainer.config
    num_updates = updates_in_a_call(config.updates, config.updates_per_call, int(state.update))

    @partial(jax.jit, donate_argnums=0)
    def call(state: TrainState):
        return jax.lax.scan(lambda state, _: update(trainer, state), state, length=num_updates)

    while int(state.update) < config.updates:
        state, metrics = call(state)
        history = {name: np.asarray(values) for name, values in metrics.items()}
        check_finite(history, int(state.update))
        yield state, {name: float(values[-1]) for name, values in history.items()}


def train_together(
    trainer: Trainer, states: TrainState
) -> Iterator[tuple[TrainState, list[dict[str, float] | None]]]:
    """The same for several seeds in one compiled call, from their stacked states.

    A seed whose updates are not finite again and again is frozen where it stands, and the others go on. The metrics
    are a list with an entry a seed: those of its last update, or None where a frozen one stood still.
    """
    config, reached = trainer.config, np.asarray(states.update)
    num_updates = updates_in_a_call(config.updates, config.updates_per_call, int(reached.max()))

    @partial(jax.jit, donate_argnums=0)
    @jax.vmap
    def call(state: TrainState):
        return jax.lax.scan(lambda state, _: update_unless_frozen(trainer, state), state, length=num_updates)

    while reached.max() < config.updates:
        states, metrics = call(states)
        history = {name: np.asarray(values) for name, values in metrics.items()}
        before, reached = reached, np.asarray(states.update)
        last = [
            {name: float(values[seed, done - 1]) for name, values in history.items()} if done else None
            for seed, done in enumerate(reached - before)
        ]
        check_one_trains(last, reached)
        yield states, last


def update_unless_frozen(trainer: Trainer, state: TrainState) -> tuple[TrainState, Metrics]:
    """An update, or the state as it was: then the metrics mean nothing."""
    following, metrics = update(trainer, state)
    return tree_where(is_frozen(state), state, following), metrics


def is_frozen(state: TrainState) -> Bool[Array, ""]:
    """Whether the last updates were not finite, so many that no more are made. It is part of the state."""
    counts = optax.tree_utils.tree_get_all_with_path((state.optimiser, state.reward), "notfinite_count")
    return jnp.max(jnp.asarray([count for _, count in counts])) >= MOST_BAD_IN_A_ROW


@jax.jit
def state_of_seed(states: TrainState, index: int | Array) -> TrainState:
    """One of the stacked states."""
    return jax.tree.map(lambda leaf: leaf[index], states)


def updates_in_a_call(updates: int, at_most: int, reached: int = 0) -> int:
    """The largest number of updates a call may have so that calls fill the run exactly, from wherever it is resumed."""
    return max(number for number in range(1, at_most + 1) if updates % number == reached % number == 0)


def check_finite(history: dict[str, np.ndarray], last_update: int) -> None:
    """Refuses to go on where updates were skipped again and again, and says what was not finite."""
    bad = history["bad_in_a_row"]
    if bad.max() < MOST_BAD_IN_A_ROW:
        return
    index = int(np.argmax(bad >= MOST_BAD_IN_A_ROW))
    terms = not_finite({name: values[index] for name, values in history.items()})
    raise NumericalError(
        f"{bad_in_words(last_update - len(bad) + index + 1, terms)}. The last good checkpoint is kept. {ADVICE}"
    )


def check_one_trains(last: list[dict[str, float] | None], reached: np.ndarray) -> None:
    """Refuses to go on where all seeds are frozen, and says what was not finite in those that came last."""
    if not all(metrics is None or has_failed(metrics) for metrics in last):
        return
    words = [
        bad_in_words(int(update), not_finite(metrics))
        for metrics, update in zip(last, reached, strict=True)
        if metrics is not None
    ]
    raise NumericalError(
        f"no seed of {len(last)} is left to train: {'; '.join(words)}. The last good checkpoint is kept. {ADVICE}"
    )


def has_failed(metrics: Mapping[str, float | None]) -> bool:
    """Whether these were the metrics of the last update before a seed was frozen."""
    return (metrics["bad_in_a_row"] or 0) >= MOST_BAD_IN_A_ROW


def not_finite(metrics: Mapping[str, float | None]) -> list[str]:
    """The names of what was not finite, or was written as null. Without an episode there is no return to speak of."""
    return [
        name
        for name, value in metrics.items()
        if name != "return" and (value is None or not math.isfinite(value))
    ]


def bad_in_words(update: int, terms: list[str]) -> str:
    """What was wrong, where the last of too many bad updates is known."""
    return (
        f"{MOST_BAD_IN_A_ROW} updates in a row were not finite, from update {update - MOST_BAD_IN_A_ROW + 1} on; "
        f"not finite: {', '.join(terms) or 'a gradient'}"
    )

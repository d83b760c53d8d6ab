"""The training loop: a generator. Writing, drawing and stopping are its caller's business."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

from gemax.training.learn import Trainer, initial_state, update
from gemax.training.state import TrainState

MOST_BAD_IN_A_ROW = 10


class NumericalError(Exception):
    """Too many updates in a row were not finite."""

    exit_code = 5


def begin(trainer: Trainer) -> TrainState:
    """The state before the first update."""
    return jax.jit(partial(initial_state, trainer))(jax.random.key(trainer.config.seed))


def train(trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, dict[str, float]]]:
    """Goes on from a state to the end of the run, and yields after every compiled call.

    What is yielded is the state, which the next call uses up, and the metrics of the last update.
    """
    num_updates = updates_in_a_call(trainer.config.updates, trainer.config.updates_per_call)

    @partial(jax.jit, donate_argnums=0)
    def call(state: TrainState):
        return jax.lax.scan(lambda state, _: update(trainer, state), state, length=num_updates)

    while int(state.update) < trainer.config.updates:
        state, metrics = call(state)
        history = {name: np.asarray(values) for name, values in metrics.items()}
        check_finite(history, int(state.update))
        yield state, {name: float(values[-1]) for name, values in history.items()}


def updates_in_a_call(updates: int, at_most: int) -> int:
    """The largest number of updates a call may have so that calls fill the run exactly."""
    return max(number for number in range(1, at_most + 1) if updates % number == 0)


def check_finite(history: dict[str, np.ndarray], last_update: int) -> None:
    """Refuses to go on where updates were skipped again and again, and says what was not finite."""
    bad = history["bad_in_a_row"]
    if bad.max() < MOST_BAD_IN_A_ROW:
        return
    index = int(np.argmax(bad >= MOST_BAD_IN_A_ROW))
    first = last_update - len(bad) + index + 1 - (MOST_BAD_IN_A_ROW - 1)
    terms = [name for name, values in history.items() if not np.isfinite(values[index])]
    raise NumericalError(
        f"{MOST_BAD_IN_A_ROW} updates in a row were not finite, from update {first} on; "
        f"not finite: {', '.join(terms) or 'a gradient'}. The last good checkpoint is kept. "
        "A smaller learning_rate or reward_learning_rate may help."
    )

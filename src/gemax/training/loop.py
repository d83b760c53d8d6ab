"""The training loop, a generator: its caller writes files and decides when to stop."""

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gemax.training.config import traced_settings
from gemax.training.learn import Trainer, initial_state
from gemax.training.nonfinite import check_finite, check_not_all_frozen
from gemax.training.state import TrainState
from gemax.training.stored_programs import load_or_compile

QUICK_COMPILER_OPTIONS = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    # They make faster loops, but take longer to compile than LLVM.
    "xla_cpu_use_fusion_emitters": False,
}
"""Options for programs that run once."""


def initial_states(trainer: Trainer) -> TrainState:
    """Returns the state before the first update. The states of several seeds are stacked along a first axis."""
    init, seeds = partial(initial_state, trainer), trainer.config.all_seeds
    if len(seeds) == 1:
        init, key = _jit_for_one_call(init), jax.random.key(seeds[0])
    else:
        init = _jit_for_one_call(jax.vmap(init))
        key = jnp.stack([jax.random.key(seed) for seed in seeds])
    made_from = traced_settings(trainer.config), QUICK_COMPILER_OPTIONS
    return load_or_compile(trainer.program_folder, "initial-state", made_from, init, key)(key)


def state_shapes(trainer: Trainer) -> TrainState:
    """Returns the shapes and dtypes of the state, without computing it."""
    init, key = partial(initial_state, trainer), jax.random.key(0)
    if trainer.config.run.seeds == 1:
        return jax.eval_shape(init, key)
    return jax.eval_shape(jax.vmap(init), jax.random.split(key, trainer.config.run.seeds))


def states_by_seed(trainer: Trainer, state: TrainState) -> dict[int, TrainState]:
    """Returns the state of each seed."""
    return {seed: state_of_seed(trainer, state, seed) for seed in trainer.config.all_seeds}


def state_of_seed(trainer: Trainer, state: TrainState, seed: int) -> TrainState:
    """Returns the state of one seed: the state itself if there is only one, otherwise a copy."""
    if trainer.config.run.seeds == 1:
        return state
    return _state_at(state, seed - trainer.config.run.seed)


@jax.jit
def _state_at(states: TrainState, index: int | Array) -> TrainState:
    return jax.tree.map(lambda leaf: leaf[index], states)


def _jit_for_one_call(function: Callable) -> Callable:
    """Compiles a function with minimal optimisation, because it is called once."""
    return jax.jit(function, keep_unused=True, compiler_options=QUICK_COMPILER_OPTIONS)


def train(trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, list[dict[str, float] | None]]]:
    """Trains from a state to the end of the run.

    Yields after every compiled call the state and, for each seed, the metrics of its last update, or None if the seed
    was frozen before. The next call may overwrite the memory of the yielded state.

    Raises:
        NumericalError: Too many consecutive updates were not finite, in every seed.
    """
    reached = np.atleast_1d(np.asarray(state.update))
    for state, history in trainer.collector.updates(trainer, state):  # noqa: B020 (continues from the argument)
        before, reached = reached, np.atleast_1d(np.asarray(state.update))
        metrics = [
            {name: float(values[seed, done - 1]) for name, values in history.items()} if done else None
            for seed, done in enumerate(reached - before)
        ]
        if len(reached) == 1:
            check_finite(history, int(reached[0]))
        else:
            check_not_all_frozen(metrics, reached)
        yield state, metrics

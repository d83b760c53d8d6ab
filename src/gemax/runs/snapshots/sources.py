"""Where the arrays of snapshots come from: new episodes in compiled programs, or recent observations on the host."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from gemax.core.moments import standardise
from gemax.runs.snapshots.sampler import NUM_POINTS, Arrays, Sampler, compact, embed, episode_sampler
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

LONG_HORIZON = 200
"""Programs of longer episodes are worth optimising. Others are compiled quickly."""
MAX_RECENT_BYTES = 16 * 2**20
"""Memory for recent observations."""
COMPILE_TIMEOUT_SECONDS = 10.0
"""How long the end of a run waits for a program that is being compiled."""


@runtime_checkable
class Source(Protocol):
    """Computes the arrays of snapshots."""

    def observe(self, state: TrainState) -> None:
        """Called after every compiled call, also without a snapshot."""
        ...

    def start(self, state: TrainState) -> None:
        """Starts to compile in the background. Can be called more than once."""
        ...

    def arrays(self, state: TrainState, *, wait: bool) -> Arrays:
        """Returns the arrays of a snapshot. Empty before everything is compiled; `wait` waits for that."""
        ...

    def close(self) -> None:
        """Ends the thread."""
        ...


def source_of(trainer: Trainer) -> Source:
    """Returns the source for the environment of a run."""
    sampler = episode_sampler(trainer)
    return RecentObservations(trainer) if sampler is None else NewEpisodes(trainer, sampler)


class CompiledLater:
    """Compiles a function in a thread, because training must not wait for it."""

    def __init__(self, function: Callable, *, is_optimised: bool) -> None:
        self._function, self._is_optimised = function, is_optimised
        self._thread = ThreadPoolExecutor(1, "snapshots")
        self._pending: Future[Callable] | None = None

    def start(self, *arguments: Any) -> None:
        """Starts to compile for arguments of these shapes, unless this has started already."""
        if self._pending is None:
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), leaf.dtype), arguments)
            self._pending = self._thread.submit(self._compile, shapes)

    def ready(self, *, wait: bool) -> Callable | None:
        """Returns the compiled function, or None if it is not compiled yet."""
        if self._pending is None:
            return None
        try:
            return self._pending.result(COMPILE_TIMEOUT_SECONDS if wait else 0.0)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Ends the thread, without waiting for it."""
        self._thread.shutdown(wait=False)

    def _compile(self, shapes: tuple) -> Callable:
        options = (
            {}
            if self._is_optimised
            else {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        )
        return jax.jit(self._function).lower(*shapes).compile(compiler_options=options)


class NewEpisodes:
    """Runs a few new episodes of the policy, for JAX environments."""

    def __init__(self, trainer: Trainer, sampler: Sampler) -> None:
        self._trainer = trainer
        self._sampler = CompiledLater(sampler, is_optimised=trainer.spec.horizon > LONG_HORIZON)

    def observe(self, state: TrainState) -> None:
        """Does nothing: new episodes are run when a snapshot is due."""

    def start(self, state: TrainState) -> None:
        """Starts to compile the episodes."""
        self._sampler.start(state)

    def arrays(self, state: TrainState, *, wait: bool) -> Arrays:
        """Returns actions, paths, observations, f and ln g."""
        sample = self._sampler.ready(wait=wait)
        return {} if sample is None else compact(self._trainer, sample(state))

    def close(self) -> None:
        """Ends the thread."""
        self._sampler.close()


class RecentObservations:
    """Embeds the observations of the last updates, for environments on the host."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        shape, dtype = trainer.spec.observation.shape, trainer.spec.observation.dtype
        row_bytes = max(int(np.prod(shape)) * dtype.itemsize, 1)
        capacity = max(min(NUM_POINTS, MAX_RECENT_BYTES // row_bytes), 8)
        self._rows = np.zeros((capacity, *shape), dtype)
        self._times = np.zeros(capacity, np.int32)
        self._count = 0
        self._embed = CompiledLater(partial(_embed_recent, trainer), is_optimised=False)

    def observe(self, state: TrainState) -> None:
        """Stores the current observation of every environment."""
        observations = np.asarray(state.actor.observation)[: len(self._rows)]
        slots = (self._count + np.arange(len(observations))) % len(self._rows)
        self._rows[slots] = observations
        self._times[slots] = np.asarray(state.actor.inputs.time)[: len(observations)]
        self._count += len(observations)

    def start(self, state: TrainState) -> None:
        """Starts to compile the embedding."""
        self._embed.start(state, self._rows)

    def arrays(self, state: TrainState, *, wait: bool) -> Arrays:
        """Returns f and ln g of the stored observations, and the time of each in its episode."""
        embed_rows, count = self._embed.ready(wait=wait), min(self._count, len(self._rows))
        if embed_rows is None or not count:
            return {}
        embedded = {name: values[:count] for name, values in embed_rows(state, self._rows).items()}
        return compact(self._trainer, embedded | {"point_time": self._times[:count].copy()})

    def close(self) -> None:
        """Ends the thread."""
        self._embed.close()


def _embed_recent(trainer: Trainer, state: TrainState, rows: Shaped[Array, "rows *shape"]) -> Arrays:
    return embed(trainer, state, standardise(state.observation_moments, rows))

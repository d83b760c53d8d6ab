"""Divides the environments of a run between JAX devices, of this process or of several processes.

Several processes run the same program, one per machine, and JAX connects them (`jax.distributed`). The first process
writes all files. The others follow it: they compute their part of every call, and end with it.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jaxtyping import PRNGKeyArray

from gemax.runs.session import Place
from gemax.training.collector import EpisodeOptions, Evaluation, History
from gemax.training.compiled import CompiledCollector
from gemax.training.learn import Trainer
from gemax.training.loop import initial_states
from gemax.training.sharding import device_mesh
from gemax.training.state import ActorState, TrainState
from gemax.types import Episode

COORDINATOR = "JAX_COORDINATOR_ADDRESS"
NUM_PROCESSES, PROCESS_ID = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
"""Environment variables. JAX itself reads the first one only."""
SHUTDOWN_SECONDS = 30
"""Time that the processes wait for each other at the end."""


@contextlib.contextmanager
def on_devices(num_devices: int) -> Iterator[Place]:
    """Yields a function that divides a run between the first devices.

    Raises:
        ValueError: There are fewer devices.
    """
    with _connected_processes():
        _make_cpu_devices(num_devices)
        if len(jax.devices()) < num_devices:
            raise ValueError(
                f"devices must be at most {len(jax.devices())}, the number of {jax.default_backend()} devices; got "
                f"{num_devices}."
            )
        yield lambda trainer: divide(trainer, num_devices)


def divide(trainer: Trainer, num_devices: int) -> Trainer:
    """Returns the trainer of a compiled environment, divided between devices."""
    assert isinstance(trainer.collector, CompiledCollector)
    collector: Any = trainer.collector._replace(mesh=device_mesh(num_devices))
    if jax.process_count() > 1:
        collector = LeadingCollector(collector)
    return trainer._replace(collector=collector)


def _make_cpu_devices(num_devices: int) -> None:
    """Makes virtual devices if JAX runs on the CPU, which is one device otherwise. For tests and small experiments."""
    with contextlib.suppress(RuntimeError):  # JAX has started already, with the devices that it has
        jax.config.update("jax_num_cpu_devices", -(-num_devices // _num_processes()))


def _num_processes() -> int:
    return int(os.environ.get(NUM_PROCESSES, "1"))


@contextlib.contextmanager
def _connected_processes() -> Iterator[None]:
    """Connects this process to the others if the environment variables name a coordinator.

    Slurm and Kubernetes tell JAX the number of processes. Elsewhere, two more variables do.
    """
    if COORDINATOR not in os.environ:
        yield
        return
    num_processes, process_id = (
        int(os.environ[name]) if name in os.environ else None for name in (NUM_PROCESSES, PROCESS_ID)
    )
    jax.distributed.initialize(
        os.environ[COORDINATOR], num_processes, process_id, shutdown_timeout_seconds=SHUTDOWN_SECONDS
    )
    yield
    # Not after an error: the processes would wait for each other, and the error would be reported late.
    jax.distributed.shutdown()


class LeadingCollector(NamedTuple):
    """The collector of the first of several processes. Informs the others whether another call follows."""

    collector: CompiledCollector

    def initial_actor(self, trainer: Trainer, key: PRNGKeyArray) -> ActorState:
        """Resets all environments."""
        return self.collector.initial_actor(trainer, key)

    def updates(self, trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, History]]:
        """Sends the state to all processes, then trains with them."""
        try:
            for result in self.collector.updates(trainer, _state_of_leader(state)):
                yield result
                _does_leader_continue(True)
        finally:
            # Also if the caller stops early, or fails.
            _does_leader_continue(False)

    def evaluate(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Evaluation:
        """Runs episodes in this process alone."""
        return self.collector.evaluate(trainer, state, options)

    def episodes(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Iterator[Episode]:
        """Yields episodes of this process alone."""
        return self.collector.episodes(trainer, state, options)

    def max_episode_steps(self, requested: int | None) -> int:
        """Returns the horizon. See `CompiledCollector.max_episode_steps`."""
        return self.collector.max_episode_steps(requested)


def process_index() -> int:
    """Returns the number of this process among those of the run, 0 for the one that writes the files."""
    return jax.process_index()


def follow(trainer: Trainer) -> None:
    """Trains with the first process until it stops. Writes nothing."""
    assert isinstance(trainer.collector, LeadingCollector)
    state = _state_of_leader(initial_states(trainer))
    for _ in trainer.collector.collector.updates(trainer, state):
        if not _does_leader_continue():
            return
    _does_leader_continue()


def _state_of_leader(state: TrainState) -> TrainState:
    """Returns the state of the first process in all of them."""
    data = state._replace(key=jax.random.key_data(state.key))
    state = jax.tree.map(jnp.asarray, multihost_utils.broadcast_one_to_all(data))
    return state._replace(key=jax.random.wrap_key_data(state.key))


def _does_leader_continue(answer: bool = False) -> bool:
    """Returns the answer of the first process in all of them."""
    return bool(multihost_utils.broadcast_one_to_all(jnp.asarray(answer)))

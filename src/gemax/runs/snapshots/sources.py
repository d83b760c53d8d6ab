"""Where the arrays of snapshots come from: new episodes in compiled programs, or recent observations on the host."""

from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Shaped

from gemax.core.moments import standardise
from gemax.runs.snapshots.compiled_later import CompiledLater
from gemax.runs.snapshots.film import encode_film
from gemax.runs.snapshots.recording import EpisodeRecorder, Recording
from gemax.runs.snapshots.sampler import NUM_POINTS, Arrays, Sampler, compact, embed, episode_sampler
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

LONG_HORIZON = 200
"""Programs of longer episodes are worth optimising. Others are compiled quickly."""
MAX_RECENT_BYTES = 16 * 2**20
"""Memory for recent observations."""
FILM_EVERY = 3
"""Every n-th snapshot has a film, if the environment can render."""


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
    """Embeds the observations of the last updates, for environments on the host, and films episodes now and then."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        shape, dtype = trainer.spec.observation.shape, trainer.spec.observation.dtype
        row_bytes = max(int(np.prod(shape)) * dtype.itemsize, 1)
        capacity = max(min(NUM_POINTS, MAX_RECENT_BYTES // row_bytes), 8)
        self._rows = np.zeros((capacity, *shape), dtype)
        self._times = np.zeros(capacity, np.int32)
        self._count = self._num_snapshots = 0
        self._embed = CompiledLater(partial(_embed_recent, trainer), is_optimised=False)
        self._recorder = EpisodeRecorder(trainer)

    def observe(self, state: TrainState) -> None:
        """Stores the current observation of every environment."""
        observations = np.asarray(state.actor.observation)[: len(self._rows)]
        slots = (self._count + np.arange(len(observations))) % len(self._rows)
        self._rows[slots] = observations
        self._times[slots] = np.asarray(state.actor.inputs.time)[: len(observations)]
        self._count += len(observations)

    def start(self, state: TrainState) -> None:
        """Starts to compile the embedding and the policy of films."""
        self._embed.start(state, self._rows)
        self._recorder.start(state)

    def arrays(self, state: TrainState, *, wait: bool) -> Arrays:
        """Returns f and ln g of observations with the time of each in its episode, and sometimes a film."""
        embed_rows, count = self._embed.ready(wait=wait), min(self._count, len(self._rows))
        if embed_rows is None or not count:
            return {}
        recording = None
        if wait or self._num_snapshots % FILM_EVERY == 0:
            recording = self._recorder.record(state)
        self._num_snapshots += 1
        rows, times = self._rows, self._times
        film: Arrays = {}
        if recording is not None:
            # Frames of the film are points of the embedding, so that the page can show both together.
            num_frames = min(len(recording.frames), len(rows) // 2)
            rows = np.concatenate([np.stack(recording.observations[:num_frames]), rows])[: len(rows)]
            times = np.concatenate([recording.steps[:num_frames], times])[: len(times)].astype(np.int32)
            count = min(count + num_frames, len(rows))
            film = film_arrays(recording)
            film["point_frame"] = np.where(np.arange(count) < num_frames, np.arange(count), -1)
        embedded = {name: values[:count] for name, values in embed_rows(state, rows).items()}
        return film | compact(self._trainer, embedded | {"point_time": times[:count].copy()})

    def close(self) -> None:
        """Ends the thread and closes the environment of films."""
        self._embed.close()
        self._recorder.close()


def film_arrays(recording: Recording) -> Arrays:
    """Returns a film as the page plays it: one path of the steps that have a frame."""
    steps = np.asarray(recording.steps)
    return {
        "path_step": steps,
        "path_length": steps[-1:],
        "path_return": np.asarray(recording.returns, np.float32)[None],
        **encode_film(np.stack(recording.frames), is_lossless=False),
    }


def _embed_recent(trainer: Trainer, state: TrainState, rows: Shaped[Array, "rows *shape"]) -> Arrays:
    return embed(trainer, state, standardise(state.observation_moments, rows))

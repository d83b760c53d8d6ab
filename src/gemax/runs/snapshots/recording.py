"""Films an episode of the current policy in a Gymnasium environment that can render."""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt8

from gemax.agent.act import ActorOutput, act
from gemax.core.moments import standardise
from gemax.errors import EnvFault
from gemax.networks import AgentInputs, LSTMState
from gemax.runs.snapshots.compiled_later import CompiledLater
from gemax.training.host_rollout import HostCollector
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

MAX_FRAMES = 60
"""Frames per film. Longer episodes keep only every 2nd, 4th, 8th … frame."""
MAX_SIDE = 160
"""Larger frames are scaled down."""
MAX_STEPS = 1_000
MAX_SECONDS = 2.0
"""Longer episodes are cut."""


class Recording(NamedTuple):
    """Some frames of one episode. Every field has one entry per frame."""

    frames: list[UInt8[np.ndarray, "height width 3"]]
    observations: list[Shaped[np.ndarray, "*shape"]]
    steps: list[int]
    """Number of actions before the frame."""
    returns: list[float]
    """Return of the episode up to the frame."""

    def append(self, *entry: Any) -> None:
        """Adds a frame."""
        for entries, value in zip(self, entry, strict=True):
            entries.append(value)

    def thinned(self) -> "Recording":
        """Returns every second entry."""
        return Recording(self.frames[::2], self.observations[::2], self.steps[::2], self.returns[::2])


class EpisodeRecorder:
    """Films episodes with an environment of its own, which it opens when the first film is due.

    An environment that cannot be rendered, or fails, is not filmed again. Training has environments of its own.

    Args:
        trainer: The parts of the run.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._act = CompiledLater(partial(_act, trainer), is_optimised=False)
        self._env: Any = None
        self._is_on = isinstance(trainer.collector, HostCollector)

    def start(self, state: TrainState) -> None:
        """Starts to compile the policy."""
        if self._is_on:
            spec = self._trainer.spec.observation
            self._act.start(state, np.zeros((1, *spec.shape), spec.dtype), *self._first_inputs(), np.int32(0))

    @property
    def is_ready(self) -> bool:
        """Whether the policy is compiled and the environment has not failed."""
        return self._is_on and self._act.ready(wait=False) is not None

    def record(self, state: TrainState) -> Recording | None:
        """Films one episode. Returns None if the environment cannot be filmed, or the policy is not compiled yet."""
        policy = self._act.ready(wait=False) if self._is_on else None
        if policy is None:
            return None
        try:
            return self._record(policy, state)
        except (ValueError, EnvFault):
            self._is_on = False
            return None

    def close(self) -> None:
        """Closes the environment."""
        self._act.close()
        if self._env is not None:
            self._env.close()

    def _record(self, policy: Any, state: TrainState) -> Recording:
        collector, spec = self._trainer.collector, self._trainer.spec
        assert isinstance(collector, HostCollector)
        if self._env is None:
            self._env = collector.env.open_rendered()
        env, started = self._env, time.monotonic()
        update = int(state.update)
        observation, _ = env.reset(seed=update)
        inputs, lstm_state = self._first_inputs()
        recording, stride, episode_return = Recording([], [], [], []), 1, 0.0
        for step in range(MAX_STEPS + 1):
            encoded = np.asarray(spec.encode_observation(observation))
            if step % stride == 0:
                recording.append(small(env.render()), encoded, step, episode_return)
                if len(recording.frames) > MAX_FRAMES:
                    recording, stride = recording.thinned(), 2 * stride
            acted = policy(state, encoded[None], inputs, lstm_state, np.int32(step))
            action = spec.decode_action(np.asarray(acted.action[0]))
            observation, reward, terminated, truncated, _ = env.step(action)
            episode_return += float(reward)
            seen_reward = 0.0 if self._trainer.config.env.reward_free else float(reward)
            inputs = AgentInputs(
                spec.actions.as_input(acted.action),
                jnp.full(1, seen_reward, jnp.float32),
                jnp.full(1, min(step + 1, spec.horizon), jnp.int32),
            )
            lstm_state = acted.lstm_state
            if terminated or truncated or time.monotonic() - started > MAX_SECONDS:
                encoded = np.asarray(spec.encode_observation(observation))
                recording.append(small(env.render()), encoded, step + 1, episode_return)
                break
        return recording

    def _first_inputs(self) -> tuple[AgentInputs, LSTMState]:
        inputs = AgentInputs(
            self._trainer.spec.actions.null_input(1), jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.int32)
        )
        return inputs, self._trainer.network.initial_lstm_state(1)


def _act(
    trainer: Trainer,
    state: TrainState,
    observation: Shaped[Array, "1 *shape"],
    inputs: AgentInputs,
    lstm_state: LSTMState,
    step: Int[Array, ""],
) -> ActorOutput:
    """Samples an action. Its key depends only on the update and the step, so filming does not change the training."""
    network, parameters = trainer.network, state.parameters
    terms: Float[Array, "1 gates"] = network.observation_terms(
        parameters, standardise(state.observation_moments, observation)
    )
    key = jax.random.fold_in(jax.random.key(state.update), step)
    return act(
        network,
        parameters,
        network.tables(parameters),
        terms,
        inputs,
        lstm_state,
        key,
        actions=trainer.distribution,
    )


def small(image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "h w 3"]:
    """Returns an image scaled down to at most `MAX_SIDE` pixels per side."""
    from PIL import Image

    height, width, _ = image.shape
    scale = min(MAX_SIDE / max(height, width), 1.0)
    if scale == 1.0:
        return image
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    return np.array(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))

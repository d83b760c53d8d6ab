"""A trained policy that acts step by step, for use outside of training."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gemax.agent.act import act
from gemax.core.moments import standardise
from gemax.networks import AgentInputs
from gemax.training.learn import Trainer
from gemax.training.state import TrainState


class Policy:
    """Chooses actions and keeps the LSTM state of the current episode.

    Args:
        trainer: The parts of the run.
        state: The training state that holds the parameters.
        seed: Random seed of sampled actions.
    """

    def __init__(self, trainer: Trainer, state: TrainState, seed: int = 0) -> None:
        self.spec = trainer.spec
        self._trainer, self._state = trainer, state
        self._key = jax.random.key(seed)
        self._act = jax.jit(self._compiled_act, static_argnames="greedy")
        self.reset()

    def reset(self) -> None:
        """Starts a new episode: clears the LSTM state."""
        self._lstm_state = self._trainer.network.initial_lstm_state(1)
        self._time, self._previous_action = 0, self.spec.actions.null_input(1)

    def act(self, observation: Any, reward: float = 0.0, *, greedy: bool = False) -> Any:
        """Returns an action for an observation, both in the format of the environment.

        Args:
            observation: The current observation.
            reward: Reward of the previous action. Policies that were trained reward-free ignore it.
            greedy: Takes the mode of the action distribution instead of sampling.
        """
        encoded = self.spec.encode_observation(observation)
        if np.shape(encoded) != self._trainer.observation_moments.mean.shape:
            raise ValueError(
                f"observation must have the shape {self.spec.observation.shape} of {self.spec.name}; "
                f"got {np.shape(observation)}."
            )
        self._key, key = jax.random.split(self._key)
        reward = 0.0 if self._trainer.config.env.reward_free else reward
        inputs = AgentInputs(
            self._previous_action,
            jnp.full(1, reward, jnp.float32),
            jnp.full(1, min(self._time, self.spec.horizon), jnp.int32),
        )
        acted = self._act(encoded[None], inputs, self._lstm_state, key, greedy=greedy)
        self._lstm_state = acted.lstm_state
        self._previous_action = self.spec.actions.as_input(acted.action)
        self._time += 1
        return self.spec.decode_action(np.asarray(acted.action[0]))

    def _compiled_act(self, observation, inputs, lstm_state, key, greedy):
        network, parameters = self._trainer.network, self._state.parameters
        terms = network.observation_terms(
            parameters, standardise(self._state.observation_moments, observation)
        )
        tables, distribution = network.tables(parameters), self._trainer.distribution
        return act(
            network, parameters, tables, terms, inputs, lstm_state, key, greedy=greedy, actions=distribution
        )

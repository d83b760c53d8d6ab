"""A trained policy that acts step by step, for use outside of training."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped

from gemax.agent.act import act
from gemax.core.moments import standardise
from gemax.networks import AgentInputs, LSTMState
from gemax.training.learn import Trainer
from gemax.training.state import TrainState
from gemax.types import tree_where


class PolicyState(NamedTuple):
    """The memory of a policy in the current episode of every environment."""

    lstm_state: LSTMState
    previous_action: Shaped[Array, "envs *parts"]
    time: Int[np.ndarray, " envs"]
    """Number of actions taken in this episode so far."""

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return len(self.time)


class Policy:
    """Chooses actions and keeps the LSTM state of the current episode.

    `act` takes one observation. `predict` has the signature of Stable-Baselines3's models, so that its
    `evaluate_policy` takes a policy too. Call `reset` whenever an episode ends.

    Args:
        trainer: The parts of the run.
        state: The training state that holds the parameters.
        seed: Random seed of sampled actions.
    """

    def __init__(self, trainer: Trainer, state: TrainState, seed: int = 0) -> None:
        self.spec = trainer.spec
        self.update = int(state.update)
        """Number of updates that the policy was trained for."""
        self._trainer, self._state = trainer, state
        self._key = jax.random.key(seed)
        self._act = jax.jit(self._compiled_act, static_argnames="greedy")
        self._memory: PolicyState | None = None
        self._has_warned = False

    def __repr__(self) -> str:
        return f"Policy({self.spec.name}, update {self.update:,})"

    def reset(self) -> None:
        """Starts a new episode in every environment: clears the LSTM state."""
        self._memory = None

    def act(self, observation: Any, reward: float = 0.0, *, greedy: bool = False) -> Any:
        """Returns an action for an observation, both in the format of the environment.

        Args:
            observation: The current observation.
            reward: Reward of the previous action. Policies that were trained reward-free ignore it.
            greedy: Takes the mode of the action distribution instead of sampling.
        """
        return self.predict(observation, deterministic=greedy, reward=reward)[0]

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: Bool[np.ndarray, " envs"] | None = None,
        deterministic: bool = False,
        *,
        reward: float | Shaped[np.ndarray, " envs"] = 0.0,
    ) -> tuple[Any, PolicyState]:
        """Returns an action per observation and the new state, as models of Stable-Baselines3 do.

        The policy also keeps the state itself, so that passing it is optional.

        Args:
            observation: The current observation, or a batch with one per environment.
            state: The state that the previous call returned. The default is the one that the policy keeps.
            episode_start: Whether each observation is the first of an episode, for which the state is cleared.
            deterministic: Takes the mode of the action distribution instead of sampling.
            reward: Reward of the previous action, one or one per environment. Policies that were trained reward-free
                ignore it.

        Raises:
            ValueError: The observation has another shape than those of the environment, or the batch has another size
                than before and no episode has started since.
        """
        encoded, is_batch = self._encode(observation)
        memory = self._episodes(len(encoded), state, episode_start)
        rewards = np.broadcast_to(0.0 if self._trainer.config.env.reward_free else reward, len(encoded))
        # The reward of the last episode is not an input of the first step of the next one.
        rewards = np.where(memory.time == 0, 0.0, rewards).astype(np.float32)
        self._key, key = jax.random.split(self._key)
        horizon = self.spec.horizon
        time = np.minimum(memory.time, horizon).astype(np.int32)
        inputs = AgentInputs(memory.previous_action, jnp.asarray(rewards), jnp.asarray(time))
        acted = self._act(encoded, inputs, memory.lstm_state, key, greedy=deterministic)
        previous_action = self.spec.actions.as_input(acted.action)
        self._memory = PolicyState(acted.lstm_state, previous_action, memory.time + 1)
        self._warn_beyond_horizon(memory.time)
        actions = [self.spec.decode_action(action) for action in np.asarray(acted.action)]
        return np.stack(actions) if is_batch else actions[0], self._memory

    def _encode(self, observation: Any) -> tuple[Shaped[np.ndarray, "envs *shape"], bool]:
        """Returns a batch of encoded observations, and whether the observation was a batch."""
        is_batch = self.spec.is_batch(observation)
        observations = _unbatch(observation) if is_batch else [observation]
        encoded = np.stack([self.spec.encode_observation(one) for one in observations])
        if encoded.shape[1:] != self._trainer.observation_moments.mean.shape:
            raise ValueError(
                f"observation must have the shape {self.spec.observation.shape} of {self.spec.name}; "
                f"got {np.shape(observations[0])}."
            )
        return encoded, is_batch

    def _episodes(
        self, num_envs: int, state: PolicyState | None, episode_start: Bool[np.ndarray, " envs"] | None
    ) -> PolicyState:
        """Returns the memory before this step, cleared where an episode starts."""
        memory, initial = self._memory if state is None else state, self._initial(num_envs)
        is_start = np.zeros(num_envs, bool) if episode_start is None else np.asarray(episode_start, bool)
        if is_start.shape != (num_envs,):
            raise ValueError(
                f"episode_start must have one entry per observation ({num_envs}); got the shape {is_start.shape}."
            )
        if memory is None or is_start.all():
            return initial
        if memory.num_envs != num_envs:
            raise ValueError(
                f"observation must be a batch of {memory.num_envs}, as in the steps before; got {num_envs}. Call "
                "reset() first to start new episodes with another number of environments."
            )
        if not is_start.any():
            return memory
        lstm_state, previous_action = tree_where(jnp.asarray(is_start), initial[:2], memory[:2])
        return PolicyState(lstm_state, previous_action, np.where(is_start, 0, memory.time))

    def _initial(self, num_envs: int) -> PolicyState:
        return PolicyState(
            self._trainer.network.initial_lstm_state(num_envs),
            self.spec.actions.null_input(num_envs),
            np.zeros(num_envs, int),
        )

    def _warn_beyond_horizon(self, time: Int[np.ndarray, " envs"]) -> None:
        """Warns once if an episode is longer than the horizon: the caller has probably forgotten `reset`."""
        if self._has_warned or time.max() < self.spec.horizon:
            return
        self._has_warned = True
        warnings.warn(
            f"the policy has acted for {time.max() + 1:,} steps without reset(), and episodes of {self.spec.name} have "
            f"at most {self.spec.horizon:,}. Call reset() when an episode ends, so that the next one starts with an "
            "empty LSTM state.",
            stacklevel=3,
        )

    def _compiled_act(
        self, observation: Array, inputs: AgentInputs, lstm_state: LSTMState, key: PRNGKeyArray, greedy: bool
    ):
        network, parameters = self._trainer.network, self._state.parameters
        terms = network.observation_terms(
            parameters, standardise(self._state.observation_moments, observation)
        )
        tables, distribution = network.tables(parameters), self._trainer.distribution
        return act(
            network, parameters, tables, terms, inputs, lstm_state, key, greedy=greedy, actions=distribution
        )


def _unbatch(batch: Any) -> list[Any]:
    """Splits a batch into single observations. Dictionaries and tuples have a batch in every part."""
    if isinstance(batch, dict):
        parts = [_unbatch(part) for part in batch.values()]
        return [dict(zip(batch, values, strict=True)) for values in zip(*parts, strict=True)]
    if isinstance(batch, tuple):
        return list(zip(*map(_unbatch, batch), strict=True))
    return list(batch)

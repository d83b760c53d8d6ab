"""What was learned, ready to act: in a world, a game, a robot, anything that shows it observations."""

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from gemax.agent.acting import act, action_before, no_action
from gemax.environments.base import Environment
from gemax.networks import Inputs
from gemax.runs.report import load_run
from gemax.training.assemble import MakeEnvironment, Own, OwnReward, OwnSimilarity
from gemax.training.centring import centre
from gemax.training.collect import a_pixel_a_square
from gemax.training.learn import Trainer
from gemax.training.state import TrainState


class Policy:
    """Acts step by step, and remembers what it has seen in this episode."""

    def __init__(self, trainer: Trainer, state: TrainState, seed: int = 0) -> None:
        self.world = trainer.world
        self._trainer, self._state = trainer, state
        self._key = jax.random.key(seed)
        self._act = jax.jit(self._compiled, static_argnames="greedy")
        self.reset()

    def reset(self) -> None:
        """Forgets: a new episode begins."""
        self._memory = self._trainer.network.initial_memory(1)
        self._time, self._previous_action = 0, no_action(self._trainer.spec, 1)

    def act(self, observation: Any, reward: float = 0.0, *, greedy: bool = False) -> Any:
        """The action for an observation, as the environment takes and gives them: whole numbers in our worlds.

        `reward` is what the action before it earned. A policy that was trained reward-free takes no notice of it.
        """
        reward = 0.0 if self._trainer.config.reward_free else reward
        if isinstance(self.world, Environment):
            return self.world.write(self._choose(self.world.read(observation), reward, greedy))
        if np.shape(observation) != self.world.observation.shape:
            raise ValueError(
                f"observation must have the shape {self.world.observation.shape} of {self.world.name}; "
                f"got {np.shape(observation)}."
            )
        return int(self._choose(a_pixel_a_square(self.world, jnp.asarray(observation)), reward, greedy))

    def _choose(
        self, seen: Shaped[np.ndarray, "*shape"] | jax.Array, reward: float, greedy: bool
    ) -> np.ndarray:
        self._key, key = jax.random.split(self._key)
        inputs = Inputs(
            self._previous_action,
            jnp.full(1, reward, jnp.float32),
            jnp.full(1, min(self._time, self.world.horizon), jnp.int32),
        )
        acted = self._act(seen[None], inputs, self._memory, key, greedy=greedy)
        self._memory, self._previous_action = acted.memory, action_before(self._trainer.spec, acted.action)
        self._time += 1
        return np.asarray(acted.action[0])

    def _compiled(self, observation, inputs, memory, key, greedy):
        network, parameters = self._trainer.network, self._state.parameters
        terms = network.row_terms(parameters, centre(self._state.centring, observation))
        tables, actions = network.tables(parameters), self._trainer.actions
        return act(network, parameters, tables, terms, inputs, memory, key, greedy=greedy, actions=actions)


def load(
    run: str | Path,
    seed: int = 0,
    similarity: OwnSimilarity | None = None,
    reward: OwnReward | None = None,
    environment: MakeEnvironment | None = None,
) -> Policy:
    """The policy of a run, from its newest good checkpoint. What was one's own in it has to be given again."""
    trainer, states, messages = load_run(Path(run), Own(similarity, reward, environment))
    for message in messages:
        warnings.warn(message, stacklevel=2)
    if len(states) > 1:
        folders = ", ".join(f"seed-{trained}" for trained in states)
        raise ValueError(f"{run} holds several policies. Load one of those below it: {folders}.")
    return Policy(trainer, *states.values(), seed=seed)

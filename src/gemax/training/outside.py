"""Training in environments that are stepped on the host, while the compiled learner works in a thread beside them.

Each rollout is collected with the parameters from before the update that is still being computed. That lag is always
one update, however fast either side is, so a seed decides a run; V-trace corrects for it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from gemax.agent.acting import act, action_before
from gemax.environments.base import Arrival, Environment, Episodes, HostArray
from gemax.networks import Inputs, Memory, Parameters, Tables
from gemax.training.centring import Centring, centre
from gemax.training.collect import Steps, first_position
from gemax.training.learn import Trainer, first_window, learn
from gemax.training.loop import check_finite
from gemax.training.state import Position, TrainState
from gemax.types import Metrics, tree_where


class Mind(NamedTuple):
    """What an agent acts with, frozen for a rollout."""

    parameters: Parameters
    tables: Tables
    """Of these parameters, made once and not at every step."""
    centring: Centring


class Outside:
    """An agent in open environments: acts step by step, and remembers where it stands."""

    def __init__(self, trainer: Trainer, environment: Environment, episodes: Episodes, seed: int) -> None:
        self._environment, self._episodes = environment, episodes
        self._sees_reward = not trainer.config.reward_free
        self._act = jax.jit(partial(_act, trainer), static_argnames="greedy")
        self._tables = jax.jit(trainer.network.tables)
        first = first_position(environment.actions, trainer.network, (), jnp.asarray(episodes.reset(seed)))
        self._nothing = jax.tree.map(np.asarray, first)
        self.position: Position = self._nothing
        self._step: Steps | None = None

    def mind(self, state: TrainState) -> Mind:
        """What the agent of a state acts with."""
        return Mind(state.parameters, self._tables(state.parameters), state.centring)

    def collect(self, mind: Mind, num_steps: int, key: PRNGKeyArray, *, greedy: bool = False) -> Steps:
        """Acts for some steps in every environment."""
        steps = [self._one_step(mind, key, number, greedy) for number in range(num_steps)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *steps)

    def _one_step(self, mind: Mind, key: PRNGKeyArray, number: int, greedy: bool) -> Steps:
        before = self.position
        acted = self._act(
            mind, before.seen, before.inputs, before.is_first, before.memory, key, number, greedy=greedy
        )
        # Fetched together: this is where the host waits for the network.
        action, log_probability, previous_action = jax.device_get(
            (acted.action, acted.log_probability, acted.previous_action)
        )
        arrival = self._episodes.step(action)
        episode_return = before.episode_return + arrival.reward
        if not self._sees_reward:
            # Returns are for people to read; neither the agent nor the learner is told of rewards.
            arrival = without_task(arrival)
        step = _record(before, action, log_probability, arrival, episode_return)
        if self._step is not None and not arrival.happened.all():
            # Nothing happened there: the gap is filled with the step before, which nobody counts again.
            step = _choose(arrival.happened, step, self._step._replace(is_valid=arrival.happened))
        self.position = self._after(before, previous_action, acted.memory, arrival, episode_return)
        self._step = step
        return step

    def _after(
        self,
        before: Position,
        previous_action: HostArray,
        memory: Memory,
        arrival: Arrival,
        episode_return: HostArray,
    ) -> Position:
        going_on = Position(
            world=(),
            seen=arrival.current,
            inputs=Inputs(
                previous_action,
                arrival.reward,
                _limited(before.inputs.time + 1, self._environment.horizon),
            ),
            is_first=arrival.is_first,
            memory=memory,
            episode_return=episode_return,
        )
        if not arrival.is_first.any():
            return going_on
        # Memory is left as it is: it is emptied where it is used, wherever an episode starts.
        return going_on._replace(
            inputs=_choose(arrival.is_first, self._nothing.inputs, going_on.inputs),
            episode_return=_choose(arrival.is_first, self._nothing.episode_return, going_on.episode_return),
        )


def without_task(arrival: Arrival) -> Arrival:
    """What happened, without the reward. What ends an episode is part of the task too: it becomes an interruption.

    Else a goal would be avoided, which ends all exploring.
    """
    return arrival._replace(
        reward=np.zeros_like(arrival.reward),
        terminated=np.zeros_like(arrival.terminated),
        truncated=arrival.terminated | arrival.truncated,
    )


class _Acted(NamedTuple):
    action: Array
    log_probability: Array
    previous_action: Array
    """The action, as the network takes it in the next step."""
    memory: Memory


def _act(
    trainer: Trainer, mind: Mind, seen, inputs, is_first, memory, key: PRNGKeyArray, number, *, greedy: bool
) -> _Acted:
    """One step of the agent in all environments, to be compiled."""
    network, environment = trainer.network, trainer.world
    assert isinstance(environment, Environment)
    terms = network.row_terms(mind.parameters, centre(mind.centring, seen))
    memory = tree_where(is_first, network.initial_memory(is_first.shape[0]), Memory(*memory))
    acted = act(
        network,
        mind.parameters,
        mind.tables,
        terms,
        Inputs(*inputs),
        memory,
        jax.random.fold_in(key, number),
        greedy=greedy,
        actions=trainer.actions,
    )
    previous_action = action_before(environment.actions, acted.action)
    return _Acted(acted.action, acted.log_probability, previous_action, acted.memory)


def _record(
    before: Position,
    action: HostArray,
    log_probability: HostArray,
    arrival: Arrival,
    episode_return: HostArray,
) -> Steps:
    return Steps(
        seen=before.seen,
        arrived=arrival.arrived,
        inputs=before.inputs,
        is_first=before.is_first,
        memory=before.memory,
        action=action,
        log_probability=log_probability,
        reward=arrival.reward,
        terminated=arrival.terminated,
        truncated=arrival.truncated,
        square=_nowhere(len(action)),
        episode_return=episode_return,
        is_valid=arrival.happened,
    )


def _limited(time: HostArray, horizon: int) -> HostArray:
    return np.minimum(time, horizon).astype(np.int32)


def _nowhere(number: int) -> HostArray:
    """There are no places to count."""
    return np.zeros(number, np.int32)


def _choose(condition: HostArray, new, old):
    """As `tree_where`, on the host."""

    def choose(one: HostArray, other: HostArray) -> HostArray:
        return np.where(condition.reshape(condition.shape + (1,) * (np.ndim(one) - 1)), one, other)

    return jax.tree.map(choose, new, old)


def train_outside(
    trainer: Trainer, state: TrainState, environment: Environment, episodes: Episodes
) -> Iterator[tuple[TrainState, dict[str, float]]]:
    """Goes on from a state to the end of the run, and yields the state and the metrics of every update.

    Episodes start anew, whatever the state remembers of them: the environments hold what no checkpoint can.
    """
    config = trainer.config
    reached, acting_key = int(state.update), jax.random.fold_in(jax.random.key(config.seed), 1)
    agent = Outside(trainer, environment, episodes, seed_after(config.seed, reached))
    state = jax.jit(partial(_restarted, trainer))(state, agent.position)
    learner = jax.jit(partial(_learn, trainer))
    # Returns that are not corrected for an older policy cannot have one.
    lags = config.returns == "vtrace"
    with ThreadPoolExecutor(1, "learner") as thread:
        work = None
        for number in range(reached, config.updates):
            steps = agent.collect(
                agent.mind(state), config.trace_period, jax.random.fold_in(acting_key, number)
            )
            done = None if work is None else work.result()
            state = state if done is None else done[0]
            work = thread.submit(_computed, learner, state, agent.position, steps)
            if done is not None:
                yield state, _numbers(done[1], number)
            if not lags:
                state, metrics = work.result()
                work = None
                yield state, _numbers(metrics, number + 1)
        if work is not None:
            state, metrics = work.result()
            yield state, _numbers(metrics, config.updates)


def seed_after(seed: int, reached: int) -> int:
    """Of the episodes that start when so many updates are done: a resumed run does not see the same ones again."""
    return seed if not reached else int(np.random.SeedSequence([seed, reached]).generate_state(1)[0])


def _restarted(trainer: Trainer, state: TrainState, position: Position) -> TrainState:
    """The state with new episodes, and without steps that they do not follow."""
    return state._replace(position=position, window=first_window(trainer, position))


def _learn(
    trainer: Trainer, state: TrainState, position: Position, steps: Steps
) -> tuple[TrainState, Metrics]:
    key, learn_key = jax.random.split(state.key)
    position = position._replace(inputs=Inputs(*position.inputs), memory=Memory(*position.memory))
    return learn(trainer, state._replace(key=key, position=position), steps, learn_key)


def _computed(learner, *arguments) -> tuple[TrainState, Metrics]:
    # Waited for in the thread: jax computes what one thread asks for in order, and actions must not stand in line.
    return jax.block_until_ready(learner(*arguments))


def _numbers(metrics: Metrics, update: int) -> dict[str, float]:
    history = {name: np.asarray(values)[None] for name, values in metrics.items()}
    check_finite(history, update)
    return {name: float(values[0]) for name, values in history.items()}

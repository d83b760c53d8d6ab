"""The collector of host environments: Python steps them while the compiled learner runs in a thread.

With V-trace, which corrects for it, the policy of each rollout lags one update behind, because the next update is still
being computed. The lag is constant, so a seed determines a run.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from gemax.agent.act import act
from gemax.core.moments import Moments, standardise
from gemax.envs.host.base import HostEnv, HostVectorEnv, VectorTransition
from gemax.networks import AgentInputs, InputTables, LSTMState, Parameters
from gemax.stopping import check_stop
from gemax.training.collector import EpisodeOptions, Evaluation, History
from gemax.training.learn import Trainer, learn
from gemax.training.rendering import Acting, RenderedStep, render_host_episodes
from gemax.training.rollout import initial_actor
from gemax.training.state import ActorState, TrainState
from gemax.training.window import empty_window
from gemax.types import Episode, HostArray, Metrics, Transition, tree_where

STEPS_PER_CALL = 16
"""Evaluation checks for finished episodes after this many steps."""
MAX_EPISODE_STEPS = 10_000
"""Default limit of evaluation episodes, because an environment may have no time limit."""


class PolicySnapshot(NamedTuple):
    """The policy during one rollout."""

    parameters: Parameters
    tables: InputTables
    """Input tables of these parameters, computed once per rollout."""
    observation_moments: Moments


class HostActor:
    """Steps open environments with the policy, and keeps the actor's state.

    Args:
        trainer: The parts of the run.
        envs: The open environments.
        seed: Seed of the first episodes.
        first_limits: The first episode of each environment is truncated after this many steps, if given.
    """

    def __init__(
        self, trainer: Trainer, envs: HostVectorEnv, seed: int, first_limits: HostArray | None = None
    ) -> None:
        self._envs, self._spec = envs, trainer.spec
        self._reward_free = trainer.config.env.reward_free
        self._discount = trainer.config.agent.discount
        self._act = jax.jit(partial(_act, trainer), static_argnames="greedy")
        self._tables = jax.jit(trainer.network.tables)
        first = initial_actor(trainer, (), jnp.asarray(envs.reset(seed, first_limits)))
        self._initial = jax.tree.map(np.asarray, first)
        is_partial: HostArray = np.full(len(first.is_first), first_limits is not None)
        self.state = self._initial._replace(is_partial=is_partial)
        self._last: Transition | None = None
        self.num_dropped = 0
        """Number of episodes that were dropped, because their environment failed and was restarted."""

    def snapshot(self, state: TrainState) -> PolicySnapshot:
        """Returns the policy of a training state."""
        return PolicySnapshot(state.parameters, self._tables(state.parameters), state.observation_moments)

    def collect(
        self, snapshot: PolicySnapshot, num_steps: int, key: PRNGKeyArray, *, greedy: bool = False
    ) -> Transition:
        """Acts for `num_steps` in every environment. Returns the transitions, [time, envs]."""
        steps = [self._step(snapshot, key, number, greedy) for number in range(num_steps)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *steps)

    def batches(self, state: TrainState, key: PRNGKeyArray, *, greedy: bool = False) -> Iterator[Transition]:
        """Yields batches of transitions of a frozen policy, without end."""
        snapshot = self.snapshot(state)
        for number in itertools.count():
            yield self.collect(snapshot, STEPS_PER_CALL, jax.random.fold_in(key, number), greedy=greedy)

    def _step(self, snapshot: PolicySnapshot, key: PRNGKeyArray, number: int, greedy: bool) -> Transition:
        check_stop()
        before = self.state
        acted = self._act(snapshot, before, key, number, greedy=greedy)
        # One transfer for all: the host waits for the network here.
        action, log_prob, previous_action = jax.device_get(
            (acted.action, acted.log_prob, acted.previous_action)
        )
        outcome = self._envs.step(action)
        episode_return = before.episode_return + outcome.reward
        discounted_return = self._discount * before.discounted_return + outcome.reward
        if self._reward_free:
            # The return is still logged. Neither the policy nor the learner sees the reward.
            outcome = without_reward(outcome)
        no_cell: HostArray = np.zeros(len(action), np.int32)
        transition = Transition(
            observation=before.observation,
            next_observation=outcome.next_observation,
            action=action,
            log_prob=log_prob,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            is_first=before.is_first,
            cell=no_cell,
            state_index=no_cell,
            is_valid=outcome.is_valid,
            inputs=before.inputs,
            lstm_state=before.lstm_state,
            episode_return=episode_return,
            discounted_return=discounted_return,
            # The return of an episode that was dropped is not counted.
            is_partial=before.is_partial | outcome.is_dropped,
        )
        self.state = self._next_state(before, previous_action, acted.lstm_state, outcome, transition)
        self.num_dropped += int(outcome.is_dropped.sum())
        if self._last is not None and not outcome.is_valid.all():
            # An environment that was only reset took no step. Its previous transition is repeated as padding.
            padding = self._last._replace(is_valid=outcome.is_valid)
            transition = _choose(outcome.is_valid, transition, padding)
        self._last = transition
        return transition

    def _next_state(
        self,
        before: ActorState,
        previous_action: HostArray,
        lstm_state: LSTMState,
        outcome: VectorTransition,
        transition: Transition,
    ) -> ActorState:
        time: HostArray = np.minimum(before.inputs.time + 1, self._spec.horizon).astype(np.int32)
        state = ActorState(
            env=(),
            observation=outcome.current_observation,
            inputs=AgentInputs(previous_action, outcome.reward, time),
            is_first=outcome.is_first,
            lstm_state=lstm_state,
            episode_return=transition.episode_return,
            discounted_return=transition.discounted_return,
            is_partial=before.is_partial & ~outcome.is_first,
        )
        if not outcome.is_first.any():
            return state
        # The LSTM state is not reset here, but in `_act` when an episode starts.
        return state._replace(
            inputs=_choose(outcome.is_first, self._initial.inputs, state.inputs),
            episode_return=_choose(outcome.is_first, self._initial.episode_return, state.episode_return),
            discounted_return=_choose(
                outcome.is_first, self._initial.discounted_return, state.discounted_return
            ),
        )


class HostCollector(NamedTuple):
    """Collects transitions of environments that are stepped in Python."""

    env: HostEnv

    def initial_actor(self, trainer: Trainer, key: PRNGKeyArray) -> ActorState:
        """Returns an actor with zero observations. `updates` opens the environments and replaces it."""
        spec = self.env.spec.observation
        observation = jnp.zeros((trainer.config.env.num_envs, *spec.shape), spec.dtype)
        return initial_actor(trainer, (), observation)

    def updates(self, trainer: Trainer, state: TrainState) -> Iterator[tuple[TrainState, History]]:
        """Collects and learns at the same time, to the end of the run. Yields after every update.

        A resumed run starts new episodes, because checkpoints cannot hold the state of host environments.
        """
        config, reached = trainer.config, int(state.update)
        acting_key = jax.random.fold_in(jax.random.key(config.run.seed), 1)
        # Averaged returns have no off-policy correction, so their policy must not lag.
        has_lag = config.agent.returns == "vtrace"
        with (
            contextlib.closing(self.env.open(config.env.num_envs)) as envs,
            ThreadPoolExecutor(1, "learner") as thread,
        ):
            seed = reset_seed(config.run.seed, reached)
            limits = first_episode_limits(trainer.spec.horizon, config.env.num_envs, seed)
            actor = HostActor(trainer, envs, seed, limits)
            state = jax.jit(partial(with_new_episodes, trainer))(state, actor.state)
            learner = jit_learner(partial(learn_from, trainer))
            counts_dropped = config.env.on_env_fault == "restart"

            def with_dropped_episodes(history: History) -> History:
                dropped = {"dropped_episodes": np.full((1, 1), float(actor.num_dropped))}
                return history | dropped if counts_dropped else history

            pending: Future[tuple[TrainState, History]] | None = None
            for number in range(reached, config.run.updates):
                key = jax.random.fold_in(acting_key, number)
                transitions = actor.collect(actor.snapshot(state), config.agent.unroll_period, key)
                history = None
                if pending is not None:
                    state, history = pending.result()
                pending = thread.submit(_learn_and_wait, learner, state, actor.state, transitions)
                if history is not None:
                    yield state, with_dropped_episodes(history)
                if not has_lag:
                    state, history = pending.result()
                    pending = None
                    yield state, with_dropped_episodes(history)
            if pending is not None:
                state, history = pending.result()
                yield state, with_dropped_episodes(history)

    def evaluate(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Evaluation:
        """Runs new episodes of the frozen policy to their end and returns their statistics.

        Every environment contributes the same number of episodes. Otherwise short episodes would be over-represented.
        """
        limit, num_envs = self.max_episode_steps(options.max_episode_steps), trainer.config.env.num_envs
        episodes_per_env = -(-options.num_episodes // num_envs)
        finished: list[list[tuple[float, int, bool]]] = [[] for _ in range(num_envs)]
        seed_key, acting_key = jax.random.split(jax.random.key(options.seed))
        lengths = np.zeros(num_envs, int)
        with contextlib.closing(self.env.open(num_envs, limit)) as envs:
            actor = HostActor(trainer, envs, int(jax.random.randint(seed_key, (), 0, 2**31 - 1)))
            for steps in actor.batches(state, acting_key, greedy=options.greedy):
                ended = (steps.terminated | steps.truncated) & steps.is_valid
                for time in range(STEPS_PER_CALL):
                    lengths += steps.is_valid[time]
                    for index in np.flatnonzero(ended[time]):
                        if steps.is_partial[time, index]:
                            lengths[index] = 0  # the environment failed and was restarted
                            continue
                        at_limit = steps.truncated[time, index] and lengths[index] >= limit
                        episode_return = float(steps.episode_return[time, index])
                        finished[index].append((episode_return, int(lengths[index]), bool(at_limit)))
                        lengths[index] = 0
                if min(map(len, finished)) >= episodes_per_env:
                    break
        kept = [episode for env in finished for episode in env[:episodes_per_env]][: options.num_episodes]
        returns, num_steps, truncated = map(np.asarray, zip(*kept, strict=True))
        return Evaluation(returns, num_steps, np.zeros((options.num_episodes, 0)), int(truncated.sum()))

    def episodes(self, trainer: Trainer, state: TrainState, options: EpisodeOptions) -> Iterator[Episode]:
        """Yields new episodes of the frozen policy: the first ones of every environment, about equally many of each."""
        from gemax.envs.host.recording import Recorder

        num_episodes, seed = options.num_episodes, options.seed
        limit, generator = self.max_episode_steps(options.max_episode_steps), np.random.default_rng(seed)
        num_envs = min(trainer.config.env.num_envs, num_episodes)
        seeds = (int(generator.integers(2**31)) for _ in itertools.count())
        recorders: list[Recorder] = []

        def record(env):
            # If the division leaves a remainder, the first environments record one episode more.
            number = -(-(num_episodes - len(recorders)) // num_envs)
            recorders.append(Recorder(env, seeds, number))
            return recorders[-1]

        with contextlib.closing(self.env.open(num_envs, limit, record)) as envs:
            for _ in HostActor(trainer, envs, seed).batches(state, jax.random.key(seed)):
                for recorder in recorders:
                    yield from recorder.take()
                if not any(recorder.num_remaining for recorder in recorders):
                    break

    def render(self, policy: Acting, options: EpisodeOptions) -> Iterator[RenderedStep]:
        """Yields the images of episodes in which the policy acts, step by step."""
        limit = self.max_episode_steps(options.max_episode_steps)
        return render_host_episodes(
            self.env, policy, options.num_episodes, options.seed, options.greedy, limit
        )

    def max_episode_steps(self, requested: int | None) -> int:
        """Returns the requested limit. The default is 10,000 steps, or more than the horizon if that is longer.

        Raises:
            ValueError: The requested limit is below one.
        """
        if requested is not None and requested < 1:
            raise ValueError(f"max_episode_steps must be at least 1; got {requested}.")
        return max(MAX_EPISODE_STEPS, self.env.spec.horizon + 1) if requested is None else requested


def first_episode_limits(horizon: int, num_envs: int, seed: int) -> Int[np.ndarray, " envs"]:
    """Returns a random number of steps, at most the horizon, after which each first episode is truncated.

    Otherwise all environments would be in the same phase of an episode, and so would every batch.
    """
    return np.random.default_rng(seed).integers(1, horizon + 1, num_envs)


def without_reward(outcome: VectorTransition) -> VectorTransition:
    """Sets rewards to zero, and turns termination into truncation, so that reaching a goal does not end returns."""
    return outcome._replace(
        reward=np.zeros_like(outcome.reward),
        terminated=np.zeros_like(outcome.terminated),
        truncated=outcome.terminated | outcome.truncated,
    )


class _Acted(NamedTuple):
    action: Array
    log_prob: Array
    previous_action: Array
    """The action as an input of the next step."""
    lstm_state: LSTMState


def _act(
    trainer: Trainer,
    snapshot: PolicySnapshot,
    actor: ActorState,
    key: PRNGKeyArray,
    number: int | Array,
    *,
    greedy: bool,
) -> _Acted:
    """Chooses an action in every environment, for step `number` of a rollout."""
    network = trainer.network
    terms = network.observation_terms(
        snapshot.parameters, standardise(snapshot.observation_moments, actor.observation)
    )
    initial_lstm_state = network.initial_lstm_state(actor.is_first.shape[0])
    acted = act(
        network,
        snapshot.parameters,
        snapshot.tables,
        terms,
        actor.inputs,
        tree_where(actor.is_first, initial_lstm_state, actor.lstm_state),
        jax.random.fold_in(key, number),
        greedy=greedy,
        actions=trainer.distribution,
    )
    previous_action = trainer.spec.actions.as_input(acted.action)
    return _Acted(acted.action, acted.log_prob, previous_action, acted.lstm_state)


def _choose(condition: HostArray, new, old):
    """`tree_where` with NumPy."""

    def choose(one: HostArray, other: HostArray) -> HostArray:
        return np.where(condition.reshape(condition.shape + (1,) * (np.ndim(one) - 1)), one, other)

    return jax.tree.map(choose, new, old)


def reset_seed(seed: int, reached: int) -> int:
    """Returns the seed of the first episodes after `reached` updates, so that a resumed run has new episodes."""
    return seed if not reached else int(np.random.SeedSequence([seed, reached]).generate_state(1)[0])


def with_new_episodes(trainer: Trainer, state: TrainState, actor: ActorState) -> TrainState:
    """Returns the state with a new actor and an empty window."""
    agent = trainer.config.agent
    return state._replace(actor=actor, window=empty_window(actor, agent.unroll_length - agent.unroll_period))


def jit_learner(function: Callable) -> Callable:
    """Compiles a learner of host environments. On the CPU, with the first level of optimisation of LLVM.

    In MiniGrid this takes 11 s instead of 13.6 s with the default level, and updates are equally fast.
    """
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=options)


def learn_from(
    trainer: Trainer, state: TrainState, actor: ActorState, transitions: Transition
) -> tuple[TrainState, Metrics]:
    """Learns from new transitions. `actor` is the actor's state after them."""
    key, learn_key = jax.random.split(state.key)
    return learn(trainer, state._replace(key=key, actor=actor), transitions, learn_key)


def _learn_and_wait(learner, *arguments) -> tuple[TrainState, History]:
    # JAX runs the work of one thread in order. Actions are computed in another thread, so they need not wait.
    state, metrics = jax.block_until_ready(learner(*arguments))
    return state, {name: np.asarray(value).reshape(1, 1) for name, value in metrics.items()}

"""Measures how a policy lag of ten updates affects learning, with and without the correction by V-trace.

`make bench-lag`, or `python benchmarks/lag.py room` or `two-rooms` for one of the two environments.

The actors act with the parameters of ten updates ago, as they would on a slow cluster, in this process and with five
seeds. Without the correction, the learner treats the actions as its own: the importance weights are 1 when an update
starts. `room` is a small Gymnasium environment with the agent that Ray actors have (four epochs, PPO's clip).
`two-rooms` has the agent of the compiled environments, which never lags otherwise.
"""

import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Box, Discrete

from gemax.agent.act import unroll_lstm
from gemax.experiments.statistics import area_under_curve, estimate_difference, estimate_mean
from gemax.networks import Parameters
from gemax.runs.provenance import provenance
from gemax.training.assemble import CUSTOM_ENV, CustomParts, assemble
from gemax.training.compiled import CompiledCollector
from gemax.training.host_rollout import (
    HostActor,
    HostCollector,
    first_episode_limits,
    learn_from,
    with_new_episodes,
)
from gemax.training.learn import Trainer, initial_state, learn
from gemax.training.loop import initial_states
from gemax.training.presets import configure
from gemax.training.rollout import collect
from gemax.training.state import ActorState, TrainState
from gemax.types import Metrics, Transition

SEEDS = range(5)
LOGGED = ("return", "clipped_importance_weights")


class Variant(NamedTuple):
    """How the policy lags, and whether that is corrected."""

    lag: int
    is_corrected: bool


VARIANTS = {
    "no lag": Variant(0, True),
    "lag 10, V-trace": Variant(10, True),
    "lag 10, uncorrected": Variant(10, False),
}


class Room(gymnasium.Env):
    """A room of 8 × 8 cells. The agent starts in one corner, and the reward is in the opposite one."""

    size = 8
    observation_space = Box(0.0, 1.0, (2 * size,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        """Starts in the first corner."""
        super().reset(seed=seed)
        self._cell, self._time = np.zeros(2, int), 0
        return self._observation(), {}

    def step(self, action):
        """Moves by one cell, unless a wall is in the way."""
        move = np.asarray([(1, 0), (-1, 0), (0, 1), (0, -1)][action])
        self._cell, self._time = np.clip(self._cell + move, 0, self.size - 1), self._time + 1
        is_there = bool((self._cell == self.size - 1).all())
        return self._observation(), float(is_there), is_there, self._time >= 40, {}

    def _observation(self):
        return np.eye(self.size, dtype=np.float32)[self._cell].reshape(-1)


def update(
    trainer: Trainer, is_corrected: bool, state: TrainState, acting: Parameters
) -> tuple[TrainState, Metrics]:
    """Collects with the parameters `acting` and learns. With the newest ones, it is `CompiledCollector.update`."""
    assert isinstance(trainer.collector, CompiledCollector)
    key, collect_key, learn_key = jax.random.split(state.key, 3)
    actor, transitions = collect(
        trainer.collector.env,
        trainer,
        state._replace(parameters=acting),
        state.actor,
        trainer.config.agent.unroll_period,
        collect_key,
    )
    if not is_corrected:
        transitions = transitions._replace(log_prob=current_log_prob(trainer, state, transitions))
    return learn(trainer, state._replace(key=key, actor=actor), transitions, learn_key)


def current_log_prob(trainer: Trainer, state: TrainState, transitions: Transition) -> jax.Array:
    """Returns the log-probabilities of the actions under the policy that learns, [time, envs]."""
    observations = trainer.table.network_inputs(state.observation_moments, transitions.observation)
    lstm_states = unroll_lstm(
        trainer.network,
        state.parameters,
        observations,
        transitions.inputs,
        transitions.is_first,
        jax.tree.map(lambda leaf: leaf[0], transitions.lstm_state),
    )
    outputs, _ = trainer.network.heads(state.parameters, lstm_states.hidden)
    return trainer.distribution.log_prob_and_entropy(outputs, transitions.action)[0]


def train_two_rooms(variant: Variant, num_updates: int) -> dict[str, np.ndarray]:
    """Trains all seeds in one program. Returns metrics, [seeds, updates]."""
    trainer = assemble(configure("two-rooms", seeds=len(SEEDS), updates=num_updates))
    assert trainer.config.agent.unroll_period == trainer.config.agent.unroll_length
    states = initial_states(trainer)
    compiled = jax.jit(jax.vmap(partial(update, trainer, variant.is_corrected)))
    acting, history = deque(maxlen=variant.lag + 1), []
    for number in range(num_updates):
        acting.append((number, states.parameters))
        version, parameters = acting[0]
        states, metrics = compiled(states, parameters)
        lag = {"policy_lag_updates": np.full(len(SEEDS), number - version)}
        history.append({name: metrics[name] for name in LOGGED} | lag)
    return {name: np.stack([line[name] for line in history], axis=1) for name in history[0]}


def train_room(variant: Variant, num_updates: int) -> dict[str, np.ndarray]:
    """Trains one seed after the other. Returns metrics, [seeds, updates]."""
    config = configure(
        CUSTOM_ENV,
        num_envs=16,
        unroll_length=32,
        unroll_period=32,
        torso_size=32,
        lstm_size=16,
        head_size=16,
        embedding_size=8,
    )
    trainer = assemble(config, CustomParts(make_env=Room))

    @jax.jit
    def learner(state: TrainState, actor: ActorState, transitions: Transition) -> tuple[TrainState, Metrics]:
        if not variant.is_corrected:
            transitions = transitions._replace(log_prob=current_log_prob(trainer, state, transitions))
        return learn_from(trainer, state, actor, transitions)

    seeds = [train_seed(trainer, learner, variant.lag, num_updates, seed) for seed in SEEDS]
    return {name: np.stack([seed[name] for seed in seeds]) for name in seeds[0]}


def train_seed(
    trainer: Trainer, learner: Callable, lag: int, num_updates: int, seed: int
) -> dict[str, np.ndarray]:
    """Like `HostCollector.updates`, with an older policy. Returns metrics, [updates]."""
    assert isinstance(trainer.collector, HostCollector)
    config, history = trainer.config, []
    with contextlib.closing(trainer.collector.env.open(config.env.num_envs)) as envs:
        limits = first_episode_limits(trainer.spec.horizon, config.env.num_envs, seed)
        actor = HostActor(trainer, envs, seed, limits)
        state = with_new_episodes(trainer, initial_state(trainer, jax.random.key(seed)), actor.state)
        key, acting = jax.random.fold_in(jax.random.key(seed), 1), deque(maxlen=lag + 1)
        for number in range(num_updates):
            acting.append((number, actor.snapshot(state)))
            version, snapshot = acting[0]
            transitions = actor.collect(snapshot, config.agent.unroll_period, jax.random.fold_in(key, number))
            state, metrics = learner(state, actor.state, transitions)
            lag_now = {"policy_lag_updates": number - version}
            history.append({name: float(metrics[name]) for name in LOGGED} | lag_now)
    return {name: np.asarray([line[name] for line in history]) for name in history[0]}


class Task(NamedTuple):
    """An environment to measure in."""

    train: Callable[[Variant, int], dict[str, np.ndarray]]
    num_updates: int
    solved_return: float


TASKS = {"room": Task(train_room, 200, 0.95), "two-rooms": Task(train_two_rooms, 600, 0.95)}


def summarise(task: Task, history: dict[str, np.ndarray]) -> dict:
    """Returns one number per seed, or their mean, for each measure."""
    updates = np.arange(1, task.num_updates + 1, dtype=float)
    is_solved = history["return"] >= task.solved_return - 1e-6
    areas = [area_under_curve(updates, values.astype(float)) for values in history["return"]]
    return {
        "area_under_curve": areas,
        "first_solved_update": [int(np.argmax(row)) + 1 if row.any() else None for row in is_solved],
        "final_return": history["return"][:, -1].tolist(),
        "policy_lag_updates": float(history["policy_lag_updates"][:, -1].mean()),
        "clipped_importance_weights": float(np.nanmean(history["clipped_importance_weights"])),
    }


def measure(name: str) -> dict:
    """Trains all variants of a task and prints their results."""
    task = TASKS[name]
    runs = {
        label: summarise(task, task.train(variant, task.num_updates)) for label, variant in VARIANTS.items()
    }
    without_lag, corrected, uncorrected = (np.asarray(run["area_under_curve"]) for run in runs.values())
    effects = {
        "V-trace minus uncorrected": estimate_difference(corrected, uncorrected),
        "V-trace minus no lag": estimate_difference(corrected, without_lag),
    }
    for label, run in runs.items():
        value, low, high = estimate_mean(np.asarray(run["area_under_curve"]))
        print(
            f"{name}, {label}: area under the curve {value:.3f} ({low:.3f} to {high:.3f}), first solved at "
            f"{run['first_solved_update']}, {run['clipped_importance_weights']:.1%} clipped"
        )
    for label, (value, low, high) in effects.items():
        print(f"{name}, {label}: {value:+.3f} ({low:+.3f} to {high:+.3f})")
    command = f"python benchmarks/lag.py {name}"
    facts = {"command": command, "num_updates": task.num_updates, **provenance()}
    return {"effects": effects, "runs": runs, **facts}


def main() -> None:
    path = Path(__file__).with_suffix(".json")
    content = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or TASKS:
        content[name] = measure(name)
        path.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

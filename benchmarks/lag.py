"""Measures how a policy lag of ten updates affects learning, with and without the correction by V-trace.

`make bench-lag`

2-Rooms with the default settings and five seeds. The actors act with the parameters of ten updates ago, as they would
on a slow cluster. Without the correction, the learner treats the actions as its own: the importance weights are 1.
"""

import json
from collections import deque
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gemax.agent.act import unroll_lstm
from gemax.experiments.statistics import area_under_curve, estimate_difference, estimate_mean
from gemax.networks import Parameters
from gemax.runs.provenance import provenance
from gemax.training.assemble import assemble
from gemax.training.compiled import CompiledCollector
from gemax.training.learn import Trainer, learn
from gemax.training.loop import initial_states
from gemax.training.presets import configure
from gemax.training.rollout import collect
from gemax.training.state import TrainState
from gemax.types import Metrics, Transition

NUM_SEEDS, NUM_UPDATES = 5, 600


class Variant(NamedTuple):
    """How the policy lags, and whether that is corrected."""

    lag: int
    is_corrected: bool


VARIANTS = {
    "no lag": Variant(0, True),
    "lag 10, V-trace": Variant(10, True),
    "lag 10, uncorrected": Variant(10, False),
}


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


def train(variant: Variant) -> dict[str, np.ndarray]:
    """Trains all seeds. Returns metrics, [seeds, updates]."""
    trainer = assemble(configure("two-rooms", seeds=NUM_SEEDS, updates=NUM_UPDATES))
    assert trainer.config.agent.unroll_period == trainer.config.agent.unroll_length
    states = initial_states(trainer)
    compiled = jax.jit(jax.vmap(partial(update, trainer, variant.is_corrected)))
    acting, history = deque(maxlen=variant.lag + 1), []
    for number in range(NUM_UPDATES):
        acting.append((number, states.parameters))
        version, parameters = acting[0]
        states, metrics = compiled(states, parameters)
        kept = {name: metrics[name] for name in ("return", "clipped_importance_weights")}
        history.append(kept | {"policy_lag_updates": jnp.full(NUM_SEEDS, number - version)})
    return {name: np.stack([line[name] for line in history], axis=1) for name in history[0]}


def summarise(history: dict[str, np.ndarray], solved_return: float) -> dict:
    """Returns one number per seed, or their mean, for each measure."""
    updates = np.arange(1, NUM_UPDATES + 1, dtype=float)
    is_solved = history["return"] >= solved_return - 1e-6
    # NaN until the first episode has ended.
    areas = [area_under_curve(updates, values.astype(float)) for values in history["return"]]
    return {
        "area_under_curve": areas,
        "first_solved_update": [int(np.argmax(row)) + 1 if row.any() else None for row in is_solved],
        "final_return": history["return"][:, -1].tolist(),
        "policy_lag_updates": float(history["policy_lag_updates"][:, -1].mean()),
        "clipped_importance_weights": float(np.nanmean(history["clipped_importance_weights"])),
    }


def main() -> None:
    spec = assemble(configure("two-rooms")).spec
    results = {name: summarise(train(variant), spec.solved_return) for name, variant in VARIANTS.items()}
    areas = {name: np.asarray(result["area_under_curve"]) for name, result in results.items()}
    corrected, uncorrected, without_lag = (
        areas[name] for name in ("lag 10, V-trace", "lag 10, uncorrected", "no lag")
    )
    effects = {
        "V-trace minus uncorrected": estimate_difference(corrected, uncorrected),
        "V-trace minus no lag": estimate_difference(corrected, without_lag),
    }
    for name, result in results.items():
        value, low, high = estimate_mean(areas[name])
        print(
            f"{name:>20}: area under the curve {value:.3f} ({low:.3f} to {high:.3f}), solved at "
            f"{result['first_solved_update']}, {result['clipped_importance_weights']:.1%} clipped"
        )
    for name, (value, low, high) in effects.items():
        print(f"{name}: {value:+.3f} ({low:+.3f} to {high:+.3f})")
    content = {
        "command": "make bench-lag",
        "env": "two-rooms",
        "num_updates": NUM_UPDATES,
        "effects": effects,
        "runs": results,
        **provenance(),
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

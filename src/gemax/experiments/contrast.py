"""How much the rewards of GEM and of the count oracle give at the frontier of 2-Rooms.

The *frontier* is the tenth of the steps that lead farthest from the start, in steps on the map. No method knows these
distances. The *contrast* of a reward is its mean at the frontier, minus its mean over all steps, divided by its
standard deviation. Rewards are standardised before the policy sees them, so that a low contrast is a weak signal.

Two statements are tested: the oracle's reward has more contrast than GEM's, and a memory of past visits
(`past_visits_decay`) gives GEM more. Only the time before a seed first reaches the solved return counts. Afterwards the
farthest cells are on the policy's way.
"""

import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gemax.envs.base import FiniteEnv
from gemax.experiments import claims, plots
from gemax.experiments.computed import Computed, Training
from gemax.experiments.damaged import is_readable
from gemax.experiments.experiment import SMOKE, Experiment, FigureResult, figure_config
from gemax.experiments.extensions import MEMORY
from gemax.experiments.records import GENERATION, is_record_of, settings_digest, solved_return
from gemax.experiments.statistics import PerSeed, mean_and_interval
from gemax.runs.files import write_arrays
from gemax.runs.plots import hide_frame
from gemax.runs.provenance import provenance
from gemax.runs.solving import find_crossings, reaches
from gemax.stopping import check_stop
from gemax.training.assemble import assemble
from gemax.training.compiled import CompiledCollector
from gemax.training.config import NUM_RETURNS, Config
from gemax.training.learn import Trainer
from gemax.training.loop import initial_states, train
from gemax.training.rollout import collect
from gemax.training.state import TrainState, return_moments

ENV_ID = "two-rooms"
ORACLE = "oracle, n = 1"
SETTINGS = {"GEM": {}, MEMORY: {"past_visits_decay": 0.99}, ORACLE: {"method": "oracle"}}
NUM_SEEDS, UPDATES, UPDATES_PER_CALL = 5, 200, 10
"""In figure 3, all seeds of GEM first reach the solved return within 200 updates. Every compiled call is measured."""
FRONTIER_SHARE = 0.1
"""Share of the steps that count as the frontier."""
MEASUREMENT_SEED = 1_000_000
"""Seed of the rollouts that are measured. No training uses it."""


class Contrast(NamedTuple):
    """The contrast of one reward during training."""

    update: Int[np.ndarray, " calls"]
    values: Float[np.ndarray, "seeds calls"]
    returns: Float[np.ndarray, "seeds calls"]
    """Mean return of the last 1,000 episodes. NaN before so many have ended."""


def steps_from_start(finite: FiniteEnv) -> Int[np.ndarray, " cells"]:
    """Returns the minimum number of steps to each cell of a map with one start."""
    (start,) = np.unique(finite.model.cell[finite.model.start > 0])
    return finite.distances()[start]


def contrast(reward: Float[Array, "time envs"], steps: Int[Array, "time envs"]) -> Float[Array, ""]:
    """Returns the mean standardised reward at the frontier, from how far each transition leads from the start.

    The frontier includes all transitions that lead as far as the nearest of the tenth.
    """
    num_frontier = max(round(FRONTIER_SHARE * steps.size), 1)
    is_frontier = steps >= jnp.sort(steps, axis=None)[-num_frontier]
    excess = jnp.mean(reward, where=is_frontier) - jnp.mean(reward)
    return excess / jnp.maximum(jnp.std(reward), 1e-8)


def measure(
    trainer: Trainer, state: TrainState, key: PRNGKeyArray
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the contrast of the reward of a fresh rollout, which nothing learns from, and the mean return."""
    assert isinstance(trainer.collector, CompiledCollector)
    collect_key, reward_key = jax.random.split(key)
    env, num_steps = trainer.collector.env, trainer.config.agent.unroll_period
    assert env.finite is not None
    _, transitions = collect(env, trainer, state, state.actor, num_steps, collect_key)
    inputs = trainer.table.with_network_inputs(state.observation_moments, transitions)
    reward = trainer.reward.reward(state.reward, inputs, reward_key)
    mean_return, _ = return_moments(state.statistics, NUM_RETURNS)
    is_known = state.statistics.num_returns >= NUM_RETURNS
    steps = jnp.asarray(steps_from_start(env.finite))[transitions.cell]
    return contrast(reward, steps), jnp.where(is_known, mean_return, jnp.nan)


def measure_seeds(
    trainer: Trainer, states: TrainState
) -> tuple[Float[Array, " seeds"], Float[Array, " seeds"]]:
    """Measures the states of all seeds, each with its own key."""
    key = jax.random.fold_in(jax.random.key(MEASUREMENT_SEED), jnp.max(states.update))
    return jax.vmap(partial(measure, trainer))(states, jax.random.split(key, len(states.update)))


def run(config: Config) -> Contrast:
    """Trains all seeds of one reward together, and measures its contrast after every compiled call."""
    trainer = assemble(config)
    measure_all = jax.jit(partial(measure_seeds, trainer))
    found = []
    for state, _ in train(trainer, initial_states(trainer)):
        check_stop()
        found.append((int(np.max(state.update)), *map(np.asarray, measure_all(state))))
    updates, values, returns = zip(*found, strict=True)
    return Contrast(np.asarray(updates), np.stack(values, axis=1), np.stack(returns, axis=1))


def compute(folder: Path, smoke: bool) -> Computed:
    """Trains each reward, or reads its contrast from the folder."""
    configs = {label: _config(settings, smoke) for label, settings in SETTINGS.items()}
    found = {label: _run_once(folder, config) for label, config in configs.items()}
    return Computed(
        {label: result for label, (result, _) in found.items()},
        {label: [training] for label, (_, training) in found.items()},
    )


def _config(settings: Mapping[str, Any], smoke: bool) -> Config:
    config = figure_config(ENV_ID, "laptop", **settings)
    config = config.replace(seeds=NUM_SEEDS, updates=UPDATES, updates_per_call=UPDATES_PER_CALL)
    return config.replace(**SMOKE | {"seeds": 2}) if smoke else config


def _run_once(folder: Path, config: Config) -> tuple[Contrast, Training]:
    path = folder / f"contrast-{settings_digest(config)}.npz"
    if not is_readable(path, lambda path: is_record_of(path, config)):
        check_stop()
        started = time.monotonic()
        found = run(config)
        _save(path, found, Training(config, provenance()["commit"] or "unknown", time.monotonic() - started))
    with np.load(path, allow_pickle=False) as saved:
        summary = json.loads(saved["summary"].tobytes())
        return Contrast(*(saved[name] for name in Contrast._fields)), Training(config, **summary)


def _save(path: Path, found: Contrast, training: Training) -> None:
    """Writes a contrast with its provenance, in the format of `records.save_record`."""
    summary = {"commit": training.commit, "seconds": training.seconds}
    arrays = found._asdict() | {"generation": np.asarray(GENERATION)}
    for name, content in (("config", training.config.to_json()), ("summary", summary)):
        arrays[name] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    write_arrays(path, arrays)


def calls_before_crossing(found: Contrast) -> list[int]:
    """Returns the number of calls before each seed first reached the solved return. All calls if it never did."""
    crossings = [find_crossings(row).first for row in reaches(found.returns, solved_return(ENV_ID))]
    return [len(found.update) if first is None else first for first in crossings]


def mean_before_crossing(found: Contrast) -> PerSeed:
    """Returns each seed's mean contrast before it first reached the solved return. NaN if the first call was there."""
    rows = [values[:calls] for values, calls in zip(found.values, calls_before_crossing(found), strict=True)]
    return np.asarray([row.mean() if len(row) else np.nan for row in rows], float)


def analyse(contrasts: Mapping[str, Contrast]) -> FigureResult:
    """Plots the contrast against updates, and decides both claims by the mean before the first crossing."""
    figure, (axis,) = plots.subplots(1, width=6.0)
    for index, (label, found) in enumerate(contrasts.items()):
        middle, half_width = mean_and_interval(found.values)
        # The call of the first crossing is part of both lines, so that they meet.
        crossing = min(calls_before_crossing(found))
        before, after = slice(crossing + 1), slice(crossing, None)
        style = {"color": f"C{index}", "linewidth": 1.6}
        axis.plot(found.update[before], middle[before], label=label, **style)
        axis.plot(found.update[after], middle[after], linestyle=":", **style)
        low, high = middle - half_width, middle + half_width
        axis.fill_between(found.update[before], low[before], high[before], color=f"C{index}", alpha=0.2, lw=0)
    axis.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    axis.set(xlabel="updates", ylabel="contrast of the reward, σ", xlim=(0, None))
    hide_frame(axis)
    plots.draw_legend(axis)
    return FigureResult(figure, decide_claims(contrasts))


def decide_claims(contrasts: Mapping[str, Contrast]) -> list[claims.Claim]:
    """Decides both claims. Their numbers include the updates that each seed was measured until."""
    gem, memory, oracle = contrasts["GEM"], contrasts[MEMORY], contrasts[ORACLE]
    return [
        _decide(
            "extension-contrast-oracle",
            "2-Rooms: the oracle's reward has at least 1.5 times the contrast of GEM's",
            "contrast at the frontier before the first crossing, oracle / GEM ≥ 1.5",
            {"oracle": oracle, "gem": gem},
        ),
        _decide(
            "extension-contrast-memory",
            "2-Rooms: a memory of past visits gives GEM at least 1.2 times the contrast",
            "contrast at the frontier before the first crossing, with past visits / without ≥ 1.2",
            {"memory": memory, "gem": gem},
        ),
    ]


def _decide(claim_id: str, claim: str, criterion: str, groups: Mapping[str, Contrast]) -> claims.Claim:
    return claims.decide_by_ratio(
        claim_id,
        claim,
        criterion,
        {name: mean_before_crossing(found) for name, found in groups.items()},
        measured_until={
            name: [int(found.update[max(calls - 1, 0)]) for calls in calls_before_crossing(found)]
            for name, found in groups.items()
        },
    )


EXPERIMENT = Experiment(
    "How much the rewards give at the frontier",
    "Not in the paper: the contrast of the rewards of GEM, with and without past visits, and of the count oracle at "
    "the frontier of 2-Rooms. The frontier is the tenth of the steps that lead farthest from the start, counted on the "
    "map. The contrast is their mean reward, in standard deviations above the mean of all steps. The claims compare "
    "its mean before each seed first reaches the solved return. A line is dotted from where the first of its seeds "
    "does.",
    analyse,
    compute=compute,
)

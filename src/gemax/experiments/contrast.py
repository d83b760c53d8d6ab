"""Why GEM is slower than the oracle in 2-Rooms: how much more each reward gives at the frontier than elsewhere.

The *contrast* of a reward is its mean over the tenth of the steps that lead to the rarest cells, minus its mean over
all steps, divided by its standard deviation. Rewards are standardised before the policy sees them, so that a low
contrast is a weak signal. Two explanations are tested: the oracle's reward has more contrast, and it comes from its
longer memory, which `past_visits_decay` gives to GEM too.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gemax.experiments import claims, plots
from gemax.experiments.experiment import SMOKE, Experiment, FigureResult, figure_config
from gemax.experiments.extensions import MEMORY
from gemax.experiments.records import GENERATION, settings_digest
from gemax.experiments.statistics import mean_and_interval
from gemax.runs.files import write_arrays
from gemax.runs.plots import hide_frame
from gemax.stopping import check_stop
from gemax.training.assemble import assemble
from gemax.training.compiled import CompiledCollector
from gemax.training.config import Config
from gemax.training.learn import Trainer
from gemax.training.loop import initial_states, train
from gemax.training.rollout import collect
from gemax.training.state import TrainState

ENV_ID = "two-rooms"
SETTINGS = {"GEM": {}, MEMORY: {"past_visits_decay": 0.99}, "oracle, n = 1": {"method": "oracle"}}
NUM_SEEDS, UPDATES, UPDATES_PER_CALL = 5, 150, 10
"""GEM solves 2-Rooms after about 160 updates. The contrast is measured after every compiled call."""
FRONTIER_SHARE = 0.1
"""Share of the steps that count as the frontier."""


class Contrast(NamedTuple):
    """The contrast of one reward during training."""

    update: Int[np.ndarray, " calls"]
    values: Float[np.ndarray, "seeds calls"]


def contrast(
    reward: Float[Array, "time envs"], cell: Int[Array, "time envs"], visits: Float[Array, " cells"]
) -> Float[Array, ""]:
    """Returns the mean standardised reward of the steps that lead to the rarest cells."""
    reward, rarity = reward.reshape(-1), visits[cell.reshape(-1)]
    frontier = jnp.argsort(rarity)[: max(round(FRONTIER_SHARE * reward.size), 1)]
    return (jnp.mean(reward[frontier]) - jnp.mean(reward)) / jnp.maximum(jnp.std(reward), 1e-8)


def measure(trainer: Trainer, state: TrainState, key: PRNGKeyArray) -> Float[Array, ""]:
    """Returns the contrast of the reward of a fresh rollout, which nothing learns from."""
    assert isinstance(trainer.collector, CompiledCollector)
    env, num_steps = trainer.collector.env, trainer.config.agent.unroll_period
    _, transitions = collect(env, trainer, state, state.actor, num_steps, key)
    seen = trainer.table.with_network_inputs(state.observation_moments, transitions)
    return contrast(trainer.reward.reward(state.reward, seen, key), transitions.cell, state.statistics.visits)


def run(config: Config) -> Contrast:
    """Trains all seeds of one reward together, and measures its contrast after every compiled call."""
    trainer = assemble(config)
    measure_all = jax.jit(jax.vmap(partial(measure, trainer), in_axes=(0, None)))
    found = []
    for state, _ in train(trainer, initial_states(trainer)):
        check_stop()
        found.append((int(state.update[0]), np.asarray(measure_all(state, jax.random.key(len(found))))))
    updates, values = zip(*found, strict=True)
    return Contrast(np.asarray(updates), np.stack(values, axis=1))


def compute(folder: Path, smoke: bool) -> dict[str, Contrast]:
    """Trains each reward, or reads its contrast from the folder."""
    return {label: _run_once(folder, _config(settings, smoke)) for label, settings in SETTINGS.items()}


def _config(settings: Mapping[str, Any], smoke: bool) -> Config:
    config = figure_config(ENV_ID, "laptop", **settings)
    config = config.replace(seeds=NUM_SEEDS, updates=UPDATES, updates_per_call=UPDATES_PER_CALL)
    return config.replace(**SMOKE | {"seeds": 2}) if smoke else config


def _run_once(folder: Path, config: Config) -> Contrast:
    path = folder / f"contrast-{settings_digest(config)}-{GENERATION}.npz"
    if not path.exists():
        check_stop()
        write_arrays(path, run(config)._asdict())
    with np.load(path, allow_pickle=False) as saved:
        return Contrast(saved["update"], saved["values"])


def analyse(contrasts: Mapping[str, Contrast]) -> FigureResult:
    """Plots the contrast against updates, and decides both explanations by the mean over training."""
    figure, (axis,) = plots.subplots(1, width=6.0)
    for index, (label, (update, values)) in enumerate(contrasts.items()):
        middle, half_width = mean_and_interval(values)
        axis.plot(update, middle, color=f"C{index}", label=label, linewidth=1.6)
        axis.fill_between(
            update, middle - half_width, middle + half_width, color=f"C{index}", alpha=0.2, lw=0
        )
    axis.set(xlabel="updates", ylabel="contrast of the reward, σ", xlim=(0, None))
    hide_frame(axis)
    plots.draw_legend(axis)
    means = {label: found.values.mean(axis=1) for label, found in contrasts.items()}
    oracle = means["oracle, n = 1"]
    more = claims.decide_by_ratio(
        "extension-contrast-oracle",
        "2-Rooms: the oracle's reward has at least 1.5 times the contrast of GEM's",
        "contrast at the frontier, oracle / GEM ≥ 1.5",
        {"oracle": oracle, "gem": means["GEM"]},
    )
    memory = claims.decide_by_ratio(
        "extension-contrast-memory",
        "2-Rooms: a memory of past visits gives GEM at least 1.2 times the contrast",
        "contrast at the frontier, with past visits / without ≥ 1.2",
        {"memory": means[MEMORY], "gem": means["GEM"]},
    )
    return FigureResult(figure, [more, memory])


EXPERIMENT = Experiment(
    "The contrast of the reward at the frontier",
    "Not in the paper: why GEM is slower than the count oracle in 2-Rooms. The contrast is the mean reward of the "
    "tenth of the steps that lead to the rarest cells, in standard deviations above the mean, over 150 updates.",
    analyse,
    compute=compute,
)

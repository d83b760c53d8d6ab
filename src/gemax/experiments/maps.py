"""Figures 2, 8 and 9: the gridworlds and their observations. The maps are reconstructed from the paper's text."""

from collections.abc import Mapping

import jax
import numpy as np
from matplotlib.figure import Figure

from gemax.envs.gridworld import steps_to_reward
from gemax.envs.maps import paper_map
from gemax.envs.registry import ENVS, make_env
from gemax.envs.render.gridworld import draw_map
from gemax.experiments.claims import Claim, decide
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.measures import finite_env
from gemax.runs.plots import hide_ticks


def plot_images(images: Mapping[str, np.ndarray], width: float, height: float) -> Figure:
    """Plots one image per environment, side by side. Each has this width and height, in inches."""
    figure = Figure(figsize=(width * len(images), height), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(images)))
    for axis, (env_id, image) in zip(axes, images.items(), strict=True):
        axis.imshow(image)
        hide_ticks(axis, ENVS[env_id].title)
    return figure


def draw_env_map(env_id: str) -> np.ndarray:
    """Draws a map with all possible start cells in light blue and all possible reward cells in orange."""
    grid_map = paper_map(env_id)
    return draw_map(grid_map, None, frozenset(), grid_map.cells("G"))


def analyse_maps(runs: Runs) -> FigureResult:
    """Makes figure 2."""
    maps = {env_id: draw_env_map(env_id) for env_id in ("two-rooms", "sixteen-leaves")}
    return FigureResult(plot_images(maps, 4.0, 4.0), [_decide_episode_length()])


def _decide_episode_length() -> Claim:
    horizon = make_env("sixteen-leaves").spec.horizon
    steps = steps_to_reward(finite_env("sixteen-leaves").model)
    ratio = float(steps.max() / horizon)
    return decide(
        "fig2-barely-long-enough",
        "16-Leaves: an episode is just long enough to reach the end of one leaf",
        "steps to the farthest reward / length of an episode ≤ 1",
        (ratio, ratio, ratio),
        steps_from=int(steps.min()),
        steps_to=int(steps.max()),
        horizon=horizon,
    )


def analyse_observations(runs: Runs) -> FigureResult:
    """Makes figure 8."""
    env_ids = [env_id for env_id, row in ENVS.items() if row.is_gridworld]
    return FigureResult(plot_images({env_id: first_observation(env_id) for env_id in env_ids}, 3.0, 3.4))


def first_observation(env_id: str) -> np.ndarray:
    """Returns the first observation of one episode."""
    _, timestep = jax.jit(make_env(env_id).reset)(jax.random.key(0))
    return np.asarray(timestep.observation)


def analyse_two_keys(runs: Runs) -> FigureResult:
    """Makes figure 9."""
    return FigureResult(plot_images({"two-keys": draw_env_map("two-keys")}, 4.0, 4.0))


FIG2 = Experiment(
    "The gridworlds",
    "Episodes start on a light blue cell, the reward lies on an orange one. Reconstructed from the text.",
    analyse_maps,
)
FIG8 = Experiment(
    "Observations",
    "Above is the map of the rooms, below the agent's room, and between them the noise cell.",
    analyse_observations,
)
FIG9 = Experiment("2-Keys", "The door opens if the agent has at least one of the two keys.", analyse_two_keys)

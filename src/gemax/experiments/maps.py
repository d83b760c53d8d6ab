"""Figures 2, 8 and 9: the worlds and what the agent sees. Reconstructed: the paper's pictures are not public."""

import jax
import numpy as np
from matplotlib.figure import Figure

from gemax.experiments.claims import Claim, claim_at_most
from gemax.experiments.experiment import Experiment, Runs, Shown
from gemax.experiments.plots import TITLES, bare
from gemax.worlds.base import World
from gemax.worlds.gridworld import steps_to_reward
from gemax.worlds.maps import SIXTEEN_LEAVES, TWO_KEYS, TWO_ROOMS, parse_map
from gemax.worlds.pixels import draw_map
from gemax.worlds.registry import make_world

MAPS = {"two-rooms": TWO_ROOMS, "sixteen-leaves": SIXTEEN_LEAVES, "two-keys": TWO_KEYS}


def draw_maps(*names: str) -> Figure:
    """Maps with all squares on which an episode may start, light blue, and on which the reward may lie, orange."""
    figure = Figure(figsize=(4.0 * len(names), 4.0), layout="constrained")
    for axis, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        grid_map = parse_map(MAPS[name])
        axis.imshow(draw_map(grid_map, None, frozenset(), grid_map.squares("G")))
        bare(axis, TITLES[name])
    return figure


def show_maps(runs: Runs) -> Shown:
    """Figure 2."""
    return Shown({"fig2": draw_maps("two-rooms", "sixteen-leaves")}, [_barely_long_enough()])


def _barely_long_enough() -> Claim:
    world = make_world("sixteen-leaves")
    assert world.finite is not None
    steps = steps_to_reward(world.finite.model)
    share = float(steps.max() / world.horizon)
    return claim_at_most(
        "fig2-barely-long-enough",
        "16-Leaves: an episode is just long enough to reach the end of one leaf",
        "steps to the farthest reward / length of an episode",
        (share, share, share),
        1.0,
        steps_from=int(steps.min()),
        steps_to=int(steps.max()),
        horizon=world.horizon,
    )


def show_observations(runs: Runs) -> Shown:
    """Figure 8."""
    names = ("two-rooms", "two-rooms-noisy", "sixteen-leaves", "two-keys")
    figure = Figure(figsize=(3.0 * len(names), 3.4), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(names)), names, strict=True):
        axis.imshow(observation_of(make_world(name)))
        bare(axis, TITLES[name])
    return Shown({"fig8": figure}, [])


def observation_of(world: World) -> np.ndarray:
    """What the agent sees first in one episode."""
    _, timestep = jax.jit(world.reset)(jax.random.key(0))
    return np.asarray(timestep.observation)


def show_two_keys(runs: Runs) -> Shown:
    """Figure 9."""
    return Shown({"fig9": draw_maps("two-keys")}, [])


FIG2 = Experiment(
    "fig2",
    "The gridworlds",
    "Episodes start on a light blue square, the reward lies on an orange one. Reconstructed from the text.",
    lambda preset: {},
    show_maps,
)
FIG8 = Experiment(
    "fig8",
    "What the agent sees",
    "Above, the map of the rooms; below, the room that the agent is in; the noise square between the two.",
    lambda preset: {},
    show_observations,
)
FIG9 = Experiment(
    "fig9",
    "2-Keys",
    "The door opens to whoever has at least one of the two keys.",
    lambda preset: {},
    show_two_keys,
)

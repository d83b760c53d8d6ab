"""Trains an agent in two custom environments with sparse rewards: a key-and-door map, and a point mass behind a wall.

`python examples/key_and_door.py [key-and-door|point-mass] [UPDATES]`. The classes are ordinary Gymnasium environments
without any code of gemax: Dict observations and discrete actions in the first, continuous actions in the second. Read
`gemax/experiments/explore/key_and_door.py` and `point_mass.py` as templates. A random policy never finds their rewards.
"""

import sys
from typing import Any

import gemax
from gemax.experiments.explore.key_and_door import KeyAndDoor
from gemax.experiments.explore.point_mass import PointMass

ENVS = {"key-and-door": (KeyAndDoor, 120), "point-mass": (PointMass, 200)}
"""The class of each environment, and its time limit, which gemax cannot read from a class."""


def main(
    name: str = "key-and-door",
    updates: int = 2000,
    episodes: int = 100,
    out: str | None = None,
    **settings: Any,
) -> float:
    """Trains, then returns the mean return of some episodes with sampled actions."""
    make_env, horizon = ENVS[name]
    run = gemax.train(make_env, updates=updates, horizon=horizon, out=out or f"runs/{name}", **settings)
    report = run.evaluate(episodes)
    mean = report["sampled"]["return"]["mean"]
    print(f"The agent reaches the goal in {mean:.0%} of the episodes.")
    return mean


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(argument) for argument in sys.argv[2:]))

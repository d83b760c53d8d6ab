"""What a random policy earns: the floor that learning is measured from.

`make bench-random`
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

from gemax.runs.provenance import provenance
from gemax.worlds.base import random_rollout
from gemax.worlds.registry import GRIDWORLDS

EPISODES = 100_000
WORLDS_SIDE_BY_SIDE = 1000


def mean_return(name: str) -> tuple[int, float]:
    """Episodes finished, and the mean of what they earned."""
    world = GRIDWORLDS[name](observation="squares")
    num_steps = world.horizon * EPISODES // WORLDS_SIDE_BY_SIDE

    @jax.jit
    @jax.vmap
    def run(key):
        reset_key, steps_key = jax.random.split(key)
        _, rewards, ends = random_rollout(world, steps_key, world.reset(reset_key)[0], num_steps)
        return rewards.sum(), ends.sum()

    rewards, ends = run(jax.random.split(jax.random.key(0), WORLDS_SIDE_BY_SIDE))
    return int(ends.sum()), float(jnp.sum(rewards) / jnp.sum(ends))


def main() -> None:
    results = {"command": "make bench-random", **provenance(), "worlds": {}}
    for name in GRIDWORLDS:
        episodes, earned = mean_return(name)
        print(f"{name:16} {earned:.6f} a episode, over {episodes:,} episodes")
        results["worlds"][name] = {"episodes": episodes, "mean_return": round(earned, 7)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Measures the return of a random policy in the gridworlds, as a baseline for learning.

`make bench-random`
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

from gemax.envs.base import random_rollout
from gemax.envs.registry import ROWS, make_env
from gemax.runs.provenance import provenance

EPISODES = 100_000
NUM_ENVS = 1000


def mean_return(name: str) -> tuple[int, float]:
    """Returns the number of finished episodes and their mean return."""
    env = make_env(name, observation="cells")
    num_steps = env.spec.horizon * EPISODES // NUM_ENVS

    @jax.jit
    @jax.vmap
    def run(key):
        reset_key, steps_key = jax.random.split(key)
        _, rewards, ends = random_rollout(env, steps_key, env.reset(reset_key)[0], num_steps)
        return rewards.sum(), ends.sum()

    rewards, ends = run(jax.random.split(jax.random.key(0), NUM_ENVS))
    return int(ends.sum()), float(jnp.sum(rewards) / jnp.sum(ends))


def main() -> None:
    results = {"command": "make bench-random", **provenance(), "envs": {}}
    for name in (row.env_id for row in ROWS if row.is_gridworld):
        num_episodes, mean = mean_return(name)
        print(f"{name:16} {mean:.6f} per episode, over {num_episodes:,} episodes")
        results["envs"][name] = {"episodes": num_episodes, "mean_return": round(mean, 7)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

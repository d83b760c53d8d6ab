"""Trains with two actors whose policy lags ten updates behind, and writes a run directory."""

import sys
from pathlib import Path

from gemax.launch.ray_cluster import ray_cluster
from gemax.launch.ray_collector import with_ray_actors
from gemax.runs.session import Hooks, start_run
from gemax.training.presets import configure

LAG = 10


def main(out, num_updates):
    sizes = {"torso_size": 32, "lstm_size": 16, "head_size": 16, "embedding_size": 8}
    config = configure(
        "gym:tests.launch.envs:Corner-v0", num_envs=16, unroll_length=32, updates=num_updates, **sizes
    )
    with ray_cluster("", num_cpus=2) as ray:

        def place(trainer):
            trainer = with_ray_actors(trainer, ray, 2, None, print)
            return trainer._replace(collector=trainer.collector._replace(lag=LAG))

        start_run(config, out, hooks=Hooks(plots=False, snapshots=False, place=place))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Starts and resumes runs in this process, on several devices, or with actors on a Ray cluster."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gemax.launch.options import LaunchOptions
from gemax.launch.ray_cluster import ray_cluster
from gemax.runs import session
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.run_directory import RunDirectory
from gemax.runs.session import Hooks, Log, Outcome, Place
from gemax.runs.stored_config import changed_config
from gemax.training.assemble import CustomParts, assemble
from gemax.training.config import Config, config_from_json


def start_run(
    options: LaunchOptions, config: Config, out: Path | None, hooks: Hooks, custom: CustomParts | None = None
) -> Outcome | None:
    """Trains a new run. Returns None in a process that follows another one, which returns the run.

    Call it before JAX computes anything, because Ray forks.
    """
    with placement(options, config, hooks.log, custom) as place:
        if is_follower(options):
            return _follow(place, config, custom)
        return session.start_run(config, out, custom, hooks._replace(place=place))


def resume(
    options: LaunchOptions,
    path: Path,
    changes: Mapping[str, Any],
    hooks: Hooks,
    custom: CustomParts | None = None,
    checkpoint: Checkpoint = "newest",
) -> Outcome | None:
    """Resumes a run, with the same options as before or others. Returns None in a process that follows another one."""
    config = config_from_json(RunDirectory(path).read_config())
    with placement(options, config, hooks.log, custom) as place:
        if is_follower(options):
            return _follow(place, changed_config(config, changes), custom)
        return session.resume(path, changes, custom, hooks._replace(place=place), checkpoint)


def is_follower(options: LaunchOptions) -> bool:
    """Returns whether another process of the same run writes its files. Call it inside of `placement`."""
    if options.devices == 1:
        return False
    from gemax.launch.devices import process_index

    return process_index() > 0


def _follow(place: Place, config: Config, custom: CustomParts | None) -> None:
    from gemax.launch.devices import follow

    follow(place(assemble(config, custom)))


@contextlib.contextmanager
def placement(
    options: LaunchOptions, config: Config, log: Log, custom: CustomParts | None = None
) -> Iterator[Place]:
    """Yields a function that places the trainer of a run, for `Hooks`. The cluster ends with the block.

    Enter it before JAX computes anything.

    Raises:
        ValueError: The options do not fit, or the cluster or the devices are not available.
    """
    options.check(config)
    if options.actors:
        with ray_cluster(options.ray_address, num_cpus=options.actors) as ray:
            from gemax.launch.ray_collector import with_ray_actors

            make_env = None if custom is None else custom.make_env
            yield lambda trainer: with_ray_actors(trainer, ray, options.actors, make_env, log)
    elif options.devices > 1:
        from gemax.launch.devices import on_devices

        with on_devices(options.devices) as place:
            yield place
    else:
        yield lambda trainer: trainer

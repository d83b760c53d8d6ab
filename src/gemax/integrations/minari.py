"""Writes episodes as a Minari dataset: without lossy compression, and either completely or not at all."""

import contextlib
import os
import re
import string
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id
from minari.dataset.minari_storage import MinariStorage
from minari.namespace import create_namespace, list_local_namespaces, validate_namespace
from minari.storage import get_dataset_path

from gemax.envs.host.make import call_maker, gym_maker
from gemax.envs.registry import find_env
from gemax.integrations.registration import gymnasium_id, register_envs
from gemax.runs.evaluation import LoadedRun, truncation_message
from gemax.runs.provenance import provenance
from gemax.training.assemble import MakeEnv
from gemax.training.collector import EpisodeOptions
from gemax.training.config import Config
from gemax.types import Episode

MAX_TEXT_LENGTH = 1000
"""Maximum length of texts in spaces that Minari does not support, such as MiniGrid's missions."""

Callback = Callable[[int], None]
Log = Callable[[str], None]


def default_dataset_id(run: Path, config: Config) -> str:
    """Returns the default name of a run's dataset: gemax/RUN-v0."""
    path = run.resolve()
    name = f"{path.parent.name}-{path.name}" if config.run.grouped else path.name
    return f"gemax/{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}-v0"


def write_dataset(
    dataset_id: str,
    run: Path,
    loaded: LoadedRun,
    options: EpisodeOptions,
    make_env: MakeEnv | None,
    callback: Callback,
    log: Log,
) -> None:
    """Collects episodes with the policy of a run that has one seed, and writes them.

    Raises:
        ValueError: The name is not allowed, or a dataset of that name exists.
    """
    path, namespace = _new_dataset_path(dataset_id)
    trainer, (state,) = loaded.trainer, loaded.states.values()
    limit = trainer.collector.max_episode_steps(options.max_episode_steps)
    with contextlib.closing(_make_env(trainer.config, make_env)) as env, _all_or_nothing(path) as data:
        storage = MinariStorage.new(
            data,
            observation_space=_storable(env.observation_space),
            action_space=env.action_space,
            env_spec=_serialisable_spec(env, log),
            # Minari's default would compress images with loss.
            jpeg_encoding=False,
        )
        storage.update_metadata(_metadata(dataset_id, run, trainer.config, int(state.update), options.seed))
        episodes = trainer.collector.episodes(trainer, state, options)
        storage.update_episodes(_episode_buffers(episodes, limit, callback, log))
    if namespace is not None and namespace not in list_local_namespaces():
        create_namespace(namespace)


def _new_dataset_path(dataset_id: str) -> tuple[Path, str | None]:
    """Returns the path and the namespace of a dataset that does not exist yet."""
    try:
        namespace = parse_dataset_id(dataset_id)[0]
        if namespace is not None:
            validate_namespace(namespace)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"a dataset name must consist of letters, digits, - and _, and end with a version, as in "
            f"gemax/two-rooms-v0; got {dataset_id!r}."
        ) from error
    path = get_dataset_path(dataset_id)
    if path.exists():
        raise ValueError(
            f"there is a dataset {dataset_id} already, in {path}. Choose another name (--id), or delete it: "
            f"`minari delete {dataset_id}`."
        )
    return path, namespace


@contextlib.contextmanager
def _all_or_nothing(path: Path) -> Iterator[Path]:
    """Yields a temporary folder for the data, and moves it to `path` at the end. Minari ignores hidden folders."""
    with tempfile.TemporaryDirectory(prefix=".gemax-", dir=get_dataset_path()) as folder:
        data = Path(folder) / "dataset" / "data"
        data.mkdir(parents=True)
        yield data
        path.parent.mkdir(parents=True, exist_ok=True)
        os.rename(data.parent, path)


def _episode_buffers(
    episodes: Iterator[Episode], limit: int, callback: Callback, log: Log
) -> Iterator[EpisodeBuffer]:
    """Converts episodes for Minari. Reports progress, and the number of episodes that the limit truncated."""
    num_truncated, num_episodes = 0, 0
    for num_episodes, episode in enumerate(episodes, 1):
        is_at_limit = episode.seed is not None and len(episode.rewards) >= limit
        num_truncated += is_at_limit and not episode.terminations[-1]
        yield EpisodeBuffer(**episode._asdict())
        callback(num_episodes)
    if num_truncated:
        log(truncation_message(num_truncated, num_episodes, "collected", limit))


def _metadata(dataset_id: str, run: Path, config: Config, update: int, seed: int) -> dict[str, Any]:
    name, content = run.resolve().name, config.to_json()
    # Only the name of the run, because its path may contain private information.
    content["run"]["start_from"] = Path(config.run.start_from).name
    return {
        "dataset_id": dataset_id,
        "minari_version": version("minari"),
        "algorithm_name": f"gemax {config.intrinsic.method}{', reward-free' if config.env.reward_free else ''}",
        "description": f"Episodes of the policy of {name} in {config.env.env_id}, after {update} updates.",
        "gemax": {"run": name, "update": update, "seed": seed, "config": content, **provenance()},
    }


def _make_env(config: Config, make_env: MakeEnv | None) -> gymnasium.Env:
    """Makes the environment of a run, so that the dataset has its spaces and its spec."""
    env, row = config.env, find_env(config.env.env_id)
    if not row.is_compiled:
        made_env = call_maker(env.env_id, make_env or gym_maker(env.env_id))
        if isinstance(made_env, VectorEnv):
            made_env.close()
            raise ValueError(
                f"{env.env_id} makes vector environments. Collecting needs a function that makes single ones."
            )
        return made_env
    register_envs()
    settings: dict[str, Any] = {"reward_free": env.reward_free}
    if env.map_text:
        # The line break marks it as a map. A single line would be read as a file name.
        settings |= {"map": f"{env.map_text}\n", "horizon": env.horizon}
    if row.is_gridworld:
        settings["observation"] = env.observation
    return gymnasium.make(gymnasium_id("map" if env.map_text else env.env_id), **settings)


def _serialisable_spec(env: gymnasium.Env, log: Log) -> EnvSpec | None:
    """Returns the spec of the environment, or None if it cannot be written to a file."""
    with contextlib.suppress(TypeError, ValueError):
        if env.spec is not None:
            env.spec.to_json()
            return env.spec
    log("The environment has no spec that can be written to a file, so the dataset cannot recover it.")
    return None


def _storable(space: spaces.Space) -> spaces.Space:
    """Returns a space that Minari can write. Replaces text spaces of other libraries by `Text`."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _storable(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_storable(part) for part in space.spaces])
    if isinstance(space, spaces.Sequence | spaces.Graph):
        raise ValueError(
            f"a dataset holds arrays and texts, but the observations contain a {type(space).__name__} space."
        )
    if not isinstance(space, spaces.Text) and isinstance(space.sample(), str):
        return spaces.Text(MAX_TEXT_LENGTH, charset=string.printable)
    return space

"""Episodes as a Minari dataset: exact, images included, and there as a whole or not at all."""

import contextlib
import dataclasses
import os
import re
import string
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id
from minari.dataset.minari_storage import MinariStorage
from minari.namespace import create_namespace, list_local_namespaces, validate_namespace
from minari.storage import get_dataset_path

import gemax.integrations.gymnasium  # noqa: F401 (makes the ids known)
from gemax.environments.finding import maker_of
from gemax.environments.making import made
from gemax.environments.opening import environment_of
from gemax.environments.recording import Recorded, Recorder
from gemax.integrations.registration import environment_id
from gemax.runs.provenance import provenance
from gemax.runs.report import LoadedRun, words_for_cut
from gemax.training.assemble import MakeEnvironment
from gemax.training.config import Config, is_environment
from gemax.training.episodes import play
from gemax.training.evaluate import STEPS_AT_A_TIME, longest_of
from gemax.training.learn import Trainer
from gemax.training.outside import Outside
from gemax.training.state import TrainState
from gemax.worlds.registry import CONTINUOUS

LONGEST_TEXT = 1000
"""Of texts in spaces that Minari does not know, such as MiniGrid's missions."""


def default_id(run: Path, config: Config) -> str:
    """What the dataset of a run is called where nobody gives it a name."""
    path = run.resolve()
    name = f"{path.parent.name}-{path.name}" if config.grouped else path.name
    return f"gemax/{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}-v0"


def write_dataset(
    name: str,
    run: Path,
    loaded: LoadedRun,
    num_episodes: int,
    seed: int,
    longest: int | None,
    environment: MakeEnvironment | None,
    watch: Callable[[int], None],
    tell: Callable[[str], None],
) -> None:
    """Plays and writes.

    Raises:
        ValueError: The name is none for a dataset, or is taken.
    """
    place = _free_place(name)
    trainer, (state,) = loaded.trainer, loaded.states.values()
    limit = longest_of(trainer.world, longest)
    with contextlib.closing(_opened(trainer.config, environment)) as env:
        spec, observation_space = _spec_of(env, tell), _storable(env.observation_space)
        if is_environment(trainer.config.world):
            make = environment or maker_of(trainer.config.world)
            played = _played_outside(trainer, state, make, num_episodes, seed, limit, tell)
        else:
            played = _played(trainer, state, num_episodes, seed)
        with _whole_or_not_at_all(place) as data:
            storage = MinariStorage.new(
                data,
                observation_space=observation_space,
                action_space=env.action_space,
                env_spec=spec,
                # Minari would squeeze images by default, and lose what they show.
                jpeg_encoding=False,
            )
            storage.update_metadata(_metadata(name, run, trainer.config, int(state.update), seed))
            storage.update_episodes(_watched(played, watch))
    namespace = parse_dataset_id(name)[0]
    if namespace is not None and namespace not in list_local_namespaces():
        create_namespace(namespace)


def _free_place(name: str) -> Path:
    try:
        namespace = parse_dataset_id(name)[0]
        if namespace is not None:
            validate_namespace(namespace)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"a dataset is named by letters, digits, - and _, with a version at the end, as in "
            f"gemax/two-rooms-v0; got {name!r}."
        ) from error
    place = get_dataset_path(name)
    if place.exists():
        raise ValueError(
            f"there is a dataset {name} already, in {place}. Give this one another name (--id), or remove that "
            f"one: `minari delete {name}`."
        )
    return place


@contextlib.contextmanager
def _whole_or_not_at_all(place: Path) -> Iterator[Path]:
    """A folder to fill, which is put in its place at the end. Minari does not see hidden ones."""
    with tempfile.TemporaryDirectory(prefix=".gemax-", dir=get_dataset_path()) as folder:
        data = Path(folder) / "dataset" / "data"
        data.mkdir(parents=True)
        yield data
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(data.parent, place)


def _watched(episodes: Iterator[EpisodeBuffer], watch: Callable[[int], None]) -> Iterator[EpisodeBuffer]:
    for number, episode in enumerate(episodes, 1):
        yield episode
        watch(number)


def _metadata(name: str, run: Path, config: Config, update: int, seed: int) -> dict[str, Any]:
    return {
        "dataset_id": name,
        "minari_version": version("minari"),
        "algorithm_name": f"gemax {config.method}{', reward-free' if config.reward_free else ''}",
        "description": f"Episodes of the policy of {run.resolve().name} in {config.world}, after {update} updates.",
        "gemax": {
            "run": run.resolve().name,
            "update": update,
            "seed": seed,
            # By name: folders of the machine are nobody else's business.
            "config": dataclasses.asdict(config) | {"start_from": Path(config.start_from).name},
            **provenance(),
        },
    }


# The environment that a dataset is of


def _opened(config: Config, environment: MakeEnvironment | None) -> gymnasium.Env:
    """The environment of a run, as others make it."""
    if is_environment(config.world):
        env = made(config.world, environment or maker_of(config.world))
        if isinstance(env, VectorEnv):
            env.close()
            raise ValueError(
                f"{config.world} must make single environments to collect from, not vector ones."
            )
        return env
    settings: dict[str, Any] = {"reward_free": config.reward_free}
    if config.map_text:
        # A text of one line would be taken for the name of a file.
        settings |= {"map": f"{config.map_text}\n", "horizon": config.horizon}
    if config.map_text or config.world not in CONTINUOUS:
        settings["observation"] = config.observation
    return gymnasium.make(environment_id("map" if config.map_text else config.world), **settings)


def _spec_of(env: gymnasium.Env, tell: Callable[[str], None]) -> EnvSpec | None:
    """What makes the environment again, where it can be written down."""
    with contextlib.suppress(TypeError, ValueError):
        if env.spec is not None:
            env.spec.to_json()
            return env.spec
    tell("No text says how this environment is made, so the dataset cannot recover it.")
    return None


def _storable(space: spaces.Space) -> spaces.Space:
    """The space as Minari can write it: other people's spaces of texts become `Text`."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _storable(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_storable(part) for part in space.spaces])
    if isinstance(space, spaces.Sequence | spaces.Graph):
        raise ValueError(
            f"a dataset holds arrays and texts; observations have a {type(space).__name__} in them."
        )
    if not isinstance(space, spaces.Text) and isinstance(space.sample(), str):
        return spaces.Text(LONGEST_TEXT, charset=string.printable)
    return space


# Playing


def _played(trainer: Trainer, state: TrainState, num_episodes: int, seed: int) -> Iterator[EpisodeBuffer]:
    for episode in play(trainer, state, num_episodes, jax.random.key(seed)):
        yield _buffer(*episode)


def _played_outside(
    trainer: Trainer,
    state: TrainState,
    make: MakeEnvironment,
    num_episodes: int,
    seed: int,
    longest: int,
    tell: Callable[[str], None],
) -> Iterator[EpisodeBuffer]:
    """The same number of episodes from each environment, the first ones: short ones must not be favoured."""
    config, generator = trainer.config, np.random.default_rng(seed)
    num_worlds = min(config.num_worlds, num_episodes)
    seeds = iter(lambda: int(generator.integers(2**31)), None)
    recorders: list[Recorder] = []

    def recorded() -> Recorder:
        # The first ones take what is left over.
        number = -(-(num_episodes - len(recorders)) // num_worlds)
        recorders.append(Recorder(make(), seeds, number))
        return recorders[-1]

    world = environment_of(config.world, recorded, horizon=config.horizon, timeout_seconds=config.env_timeout)
    recorders.clear()  # the one that was looked at
    with contextlib.closing(world.open(num_worlds, longest)) as episodes:
        agent, key, call = (
            Outside(trainer._replace(world=world), world, episodes, seed),
            jax.random.key(seed),
            0,
        )
        mind = agent.mind(state)
        while any(recorder.missing for recorder in recorders):
            agent.collect(mind, STEPS_AT_A_TIME, jax.random.fold_in(key, call))
            call += 1
            for recorder in recorders:
                yield from map(_buffer_of, recorder.take())
    if cut := sum(recorder.cut for recorder in recorders):
        tell(words_for_cut(cut, num_episodes, "collected", longest))


def _buffer_of(episode: Recorded) -> EpisodeBuffer:
    return _buffer(
        _stacked(episode.observations),
        _stacked(episode.actions),
        episode.rewards,
        episode.terminations,
        episode.truncations,
        episode.seed,
    )


def _buffer(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    seed: int | None = None,
) -> EpisodeBuffer:
    return EpisodeBuffer(
        seed=seed,
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminations=terminations,
        truncations=truncations,
    )


def _stacked(values: list[Any]) -> Any:
    """One array for each part of an observation; texts stay a list."""
    if isinstance(values[0], dict):
        return {name: _stacked([value[name] for value in values]) for name in values[0]}
    if isinstance(values[0], tuple):
        return tuple(_stacked(list(parts)) for parts in zip(*values, strict=True))
    return values if isinstance(values[0], str) else np.stack(values)

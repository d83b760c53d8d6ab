"""Datasets of real Minari: what is read back is what happened."""

import dataclasses
import os
import signal

import gymnasium
import minari
import numpy as np
import pytest
from tests.environments.toys import Counting, Endless

import gemax
from gemax.cli import main
from gemax.integrations import minari as writing
from gemax.runs.directory import create_run
from gemax.runs.saving import save
from gemax.runs.starting import begin_run
from gemax.training.assemble import Own, assemble
from gemax.training.config import Config
from gemax.training.presets import configure

TINY = {
    "method": "none", "num_worlds": 4, "trace_length": 4, "trace_period": 4, "torso_size": 6, "lstm_size": 5,
    "head_size": 5, "embedding_size": 3, "time_buckets": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def untrained(path, world, own=None, **changes):
    """A run that was stopped before its first update acts too."""
    trainer = assemble(configure(world, **(TINY | changes)), own=own)
    with create_run(path, dataclasses.asdict(trainer.config)) as run:
        save(run, trainer.config, begin_run(trainer)[1], seconds=0.0)
    return path


def assert_replays(env, episode, seed=None):
    """The actions of an episode lead through the same observations again."""
    observation, _ = env.reset(seed=seed)
    seen, paid = [observation], []
    for action in episode.actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        paid.append(reward)
    np.testing.assert_array_equal(episode.observations, np.stack(seen))
    np.testing.assert_array_equal(episode.rewards, paid)
    assert (episode.terminations[-1], episode.truncations[-1]) == (terminated, truncated)
    assert not (episode.terminations[:-1] | episode.truncations[:-1]).any()


@pytest.mark.parametrize("settings", [{}, {"observation": "pixels"}, {"map_text": "S.G", "horizon": 4}])
def test_episodes_of_a_world_are_those_of_its_environment(settings, tmp_path):
    world = "corridor" if "map_text" in settings else "two-rooms"
    run = untrained(tmp_path / "run", world, **settings)
    dataset = minari.load_dataset(gemax.collect(run, episodes=6, seed=3))
    assert dataset.total_episodes == 6
    env = dataset.recover_environment()
    for episode in dataset:
        # Gridworlds leave nothing to chance but the start, of which these maps have one.
        assert_replays(env, episode)
        assert len(episode.observations) == len(episode.actions) + 1
    facts = dataset.storage.metadata
    assert facts["algorithm_name"] == "gemax none"
    assert (facts["gemax"]["seed"], facts["gemax"]["run"], facts["gemax"]["update"]) == (3, "run", 0)
    assert "commit" in facts["gemax"]


def test_a_reward_free_world_is_recovered_without_its_reward(tmp_path):
    run = untrained(tmp_path / "run", "mountain-car", reward_free=True)
    dataset = minari.load_dataset(gemax.collect(run, episodes=2))
    env = dataset.recover_environment()
    env.reset(seed=0)
    assert env.step(1)[1] == 0.0
    assert all((episode.rewards == 0).all() for episode in dataset)
    start = dataset[0].observations[0]
    assert start.dtype == np.float32
    assert start[2] == 0


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "cartpole", "gym:CartPole-v1")


@pytest.mark.parametrize("reward_free", [False, True])
def test_episodes_of_an_environment_are_replayed_from_their_seeds(reward_free, cartpole, tmp_path):
    run = untrained(tmp_path / "run", "gym:CartPole-v1", reward_free=True) if reward_free else cartpole
    dataset = minari.load_dataset(gemax.collect(run, episodes=5))
    env = dataset.recover_environment()
    seeds = [facts["seed"] for facts in dataset.storage.get_episode_metadata(range(5))]
    assert len(set(seeds)) == 5
    for seed, episode in zip(seeds, dataset, strict=True):
        assert_replays(env, episode, seed)


def test_parts_and_texts_of_an_observation_are_kept(tmp_path):
    run = untrained(tmp_path / "run", "gym:MiniGrid-Empty-5x5-v0")
    dataset = minari.load_dataset(gemax.collect(run, episodes=2))
    seen = dataset[0].observations
    assert seen["image"].shape[1:] == (7, 7, 3)
    assert seen["mission"][0] == "get to the green goal square"


def test_an_environment_of_ones_own_is_collected_without_a_way_to_make_it(tmp_path):
    run = untrained(tmp_path / "run", "gym:own", Own(environment=Counting))
    said = []
    name = gemax.collect(run, episodes=10, environment=Counting, tell=said.append)
    assert "cannot recover it" in said[0]
    dataset = minari.load_dataset(name)
    for episode in dataset:
        np.testing.assert_array_equal(episode.observations[:, 1], np.arange(len(episode.observations)))
        np.testing.assert_array_equal(episode.rewards, 1 + np.arange(len(episode.rewards)) + episode.actions)


def test_episodes_without_an_end_are_cut_and_marked_as_truncated(tmp_path):
    run = untrained(tmp_path / "run", "gym:own", Own(environment=Endless))
    said = []
    name = gemax.collect(run, episodes=5, longest=7, environment=Endless, tell=said.append)
    assert "5 of 5 collected episodes had no end after 7 steps and were cut." in said[-1]
    dataset = minari.load_dataset(name)
    assert dataset.total_episodes == 5
    for episode in dataset:
        np.testing.assert_array_equal(episode.observations[:, 1], np.arange(8))
        assert list(episode.truncations) == [False] * 6 + [True]
        assert not episode.terminations.any()


def test_the_same_seed_collects_the_same_data(cartpole):
    names = [
        gemax.collect(cartpole, episodes=3, seed=seed, dataset_id=f"data-v{i}")
        for i, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (minari.load_dataset(name)[0].observations for name in names)
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


# The command, and what is refused


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "rooms", "two-rooms")


def test_the_command_says_how_to_read_the_data_and_does_not_write_over_it(rooms, capsys):
    assert main(["collect", str(rooms), "--episodes", "3"]) == 0
    assert 'minari.load_dataset("gemax/rooms-v0")' in capsys.readouterr().out
    assert main(["collect", str(rooms), "--episodes", "3"]) == 2
    words = capsys.readouterr().err
    assert "another name (--id)" in words
    assert "minari delete gemax/rooms-v0" in words
    assert main(["collect", str(rooms), "--episodes", "3", "--id", "rooms-v1"]) == 0
    assert set(minari.list_local_datasets()) == {"gemax/rooms-v0", "rooms-v1"}


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_collection_that_is_stopped_leaves_nothing(number, exit_code, rooms, datasets, monkeypatch, capsys):
    def stopping(episodes, watch):
        for episode in episodes:
            yield episode
            assert len(list(datasets.iterdir())) == 1
            os.kill(os.getpid(), number)

    monkeypatch.setattr(writing, "_watched", stopping)
    # Where the tests run in the background, Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["collect", str(rooms), "--episodes", "3"]) == exit_code
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "gemax: stopped.\n"
    assert list(datasets.iterdir()) == []


@pytest.mark.parametrize("name", ["rooms", "../rooms-v0", "/rooms-v0", "a b-v0", "a/rooms-v0", "gemax/b/-v0"])
def test_what_is_no_name_of_a_dataset_is_refused(name, rooms):
    with pytest.raises(ValueError, match="with a version at the end"):
        gemax.collect(rooms, dataset_id=name)


def test_no_episodes_are_refused(rooms):
    with pytest.raises(ValueError, match="episodes must be at least 1; got 0"):
        gemax.collect(rooms, episodes=0)


def test_a_world_of_ours_needs_no_limit(rooms, capsys):
    assert main(["collect", str(rooms), "--longest", "7"]) == 2
    assert "episodes of two-rooms end by themselves, after" in capsys.readouterr().err


def test_vector_environments_are_refused(tmp_path):
    def make():
        return gymnasium.make_vec("CartPole-v1", num_envs=4)

    run = untrained(tmp_path / "run", "gym:own", Own(environment=make))
    with pytest.raises(ValueError, match="must make single environments"):
        gemax.collect(run, episodes=2, environment=make)


def test_several_seeds_are_refused(tmp_path):
    run = untrained(tmp_path / "run", "two-rooms", seeds=2)
    with pytest.raises(ValueError, match=r"Collect from one of those below it: seed-0, seed-1"):
        gemax.collect(run, episodes=2)


def test_without_minari_the_extra_is_named(rooms, monkeypatch, capsys):
    monkeypatch.setattr("gemax.integrations.collecting.find_spec", lambda name: None)
    assert main(["collect", str(rooms)]) == 2
    assert "pip install 'gemax[minari]'" in capsys.readouterr().err


def test_names_of_folders_become_names_of_datasets(tmp_path):
    assert writing.default_id(tmp_path / "My run (2)", Config()) == "gemax/My-run-2--v0"
    assert writing.default_id(tmp_path / "group" / "seed-0", Config(grouped=True)) == "gemax/group-seed-0-v0"
